"""Why an actor may do something, or sees an entity, under a policy that the viewer has."""

from __future__ import annotations

from dataclasses import dataclass

from nicegui import ui

from omnigraph.catalog.model import Catalog
from omnigraph.console.facts import EntityName, ShownState, read_entity, shortened
from omnigraph.console.frame import Page
from omnigraph.errors import NotServed, OmnigraphError
from omnigraph.graph.handle import Graph
from omnigraph.policy.actions import DATA_ACTIONS, GRAPH_ACTIONS
from omnigraph.policy.bundle import read_bundle
from omnigraph.policy.policy import Policy, PolicyDecision

_EXAMPLE = """version: 1
groups:
  team: [ada]
rules:
  - id: team-reads
    allow:
      actors: {group: team}
      actions: [read]
"""


@dataclass(frozen=True, slots=True)
class AccessAnswer:
    """A decision, the part of the graph that it covers, and whether an entity is in it."""

    decision: PolicyDecision
    parts: tuple[str, ...]
    entity: str | None


class AccessPanel:
    """A policy as text, a question, and the answer with every rule."""

    def __init__(self, page: Page, catalog: Catalog) -> None:
        self.page = page
        with ui.row().classes("w-full gap-4 items-start"):
            self.policy = ui.codemirror(_EXAMPLE, language="YAML").classes(
                "grow min-w-80 h-72 border"
            )
            self.policy.props('aria-label="Policy text"')
            with ui.column().classes("w-96 max-w-full gap-1"):
                self.actor = ui.input(label="Actor", value="ada").classes("w-full")
                self.action = ui.select(list(GRAPH_ACTIONS), label="Action", value="read")
                self.action.classes("w-full")
                self.target = ui.input(label="Target branch, for merges and the like")
                self.target.classes("w-full")
                types = [node.name for node in catalog.nodes]
                self.type = ui.select(types, label="Type", clearable=True).classes("w-full")
                self.id = ui.input(label="Id of an entity").classes("w-full")
                ui.button("Explain", on_click=self.explain)
        self.answer = ui.column().classes("w-full gap-1").props('data-testid="access"')

    async def explain(self) -> None:
        text, page = self.policy.value, self.page
        actor, action = self.actor.value or "", self.action.value
        target = self.target.value or None
        named = (
            EntityName(self.type.value, self.id.value)
            if self.type.value and self.id.value
            else None
        )

        def work(graph: Graph) -> AccessAnswer:
            policy = Policy([read_bundle(text, "policy.yaml")])
            return answered(graph, policy, page.place, actor, action, target, named)

        self.answer.clear()
        try:
            found = await page.attempt(work)
        except OmnigraphError as error:
            with self.answer:
                ui.label(shortened(error.message)).classes("value text-negative")
            return
        with self.answer:
            ui.label("Allowed" if found.decision.allowed else "Denied").classes("text-lg font-bold")
            ui.label(found.decision.message).classes("value")
            for part in found.parts:
                ui.label(part).classes("value mono text-sm")
            if found.entity is not None:
                ui.label(found.entity).classes("value font-bold")
            for rule in found.decision.considered:
                mark = "✓" if rule.matched else "–"
                ui.label(f"{mark} {rule.rule}: {rule.why}").classes("value text-sm")


def answered(
    graph: Graph,
    policy: Policy,
    place: ShownState,
    actor: str,
    action: str,
    target: str | None,
    named: EntityName | None,
) -> AccessAnswer:
    """What a policy says to a question; `named` is an entity that the actor may or may not see."""
    decision = policy.explain(actor, action, place.branch, target)
    parts: tuple[str, ...] = ()
    if decision.allowed and action in DATA_ACTIONS:
        catalog = graph.schema.show(place.branch, at=place.at).catalog
        scope = policy.scope(actor, action, place.branch, catalog)
        if scope is None:
            parts = ("all types, all properties, all entities",)
        else:
            parts = tuple(
                f"{name}: {'some' if found.rows is not None else 'all'} entities"
                + (f", without {', '.join(sorted(found.hidden))}" if found.hidden else "")
                for name, found in scope.types.items()
            )
    entity = None if named is None else _seen(graph, policy, place, actor, named)
    return AccessAnswer(decision, parts, entity)


def _seen(graph: Graph, policy: Policy, place: ShownState, actor: str, named: EntityName) -> str:
    what = f"{named.type} {named.id}"
    if graph.snapshot(place.branch, at=place.at).scope is not None:
        # Rules that the viewer writes could otherwise ask for what the viewer may not see.
        return f"{what}: your own rules show a part of the graph, so single entities are not tried"
    try:
        theirs = read_entity(graph.as_actor(actor, gate=policy), place, named)
    except NotServed:
        return f"{what}: open the store itself to try the policy on single entities"
    except OmnigraphError as error:
        return f"{what} is not visible to {actor}: {error.message}"
    if theirs is not None:
        return f"{what} is visible to {actor}, with {', '.join(theirs)}"
    if read_entity(graph, place, named) is None:
        return f"{what} does not exist"
    return f"{what} is hidden from {actor} by a rule about rows"
