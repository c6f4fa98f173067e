"""`policy validate|test|explain|who-can`: rules about a graph or a server, before they are used."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.command import command
from omnigraph.cli.output import EXIT_FAILED, WrongUsage, print_json, print_result
from omnigraph.cli.scopes import BINDINGS, GraphScope
from omnigraph.cli.session import Session
from omnigraph.cli.tables import print_table
from omnigraph.errors import NotFound, PolicyInvalid
from omnigraph.policy import actions as act
from omnigraph.values.known_names import did_you_mean

if TYPE_CHECKING:
    from omnigraph.catalog.model import Catalog
    from omnigraph.policy.bundle import Bundle
    from omnigraph.policy.policy import Policy

EXIT_DENIED = 3


@dataclass(frozen=True, slots=True)
class PolicyPlace:
    """Where the rules are."""

    file: Annotated[
        list[str] | None,
        typer.Option("--file", "-f", metavar="FILE", help="A policy file; repeatable."),
    ] = None
    graph_name: Annotated[
        str,
        typer.Option("--graph-id", metavar="ID", help="The graph that rules in Cedar may name."),
    ] = "default"
    server_scope: Annotated[
        bool, typer.Option("--server-scope", help="The rules are about a server, not a graph.")
    ] = False


@dataclass(frozen=True, slots=True)
class PolicyRequest:
    """What is asked for."""

    action: Annotated[
        str, typer.Option("--action", metavar="ACTION", help="What the actor would do.")
    ]
    on_branch: Annotated[
        str | None,
        typer.Option("--branch", metavar="B", help="The branch that is read or changed."),
    ] = None
    target_branch: Annotated[
        str | None,
        typer.Option("--target-branch", metavar="T", help="The branch that is made or changed."),
    ] = None
    stored_query: Annotated[
        str | None, typer.Option("--query", metavar="NAME", help="The stored query, by its name.")
    ] = None

    @property
    def known_action(self) -> str:
        found = act.action_named(self.action)
        if found is None:
            hint = did_you_mean(self.action, act.ALL_ACTIONS)
            raise WrongUsage(f"--action {self.action!r} is no action; {hint}")
        return found


SchemaFile = Annotated[
    str | None,
    typer.Option("--schema", metavar="FILE", help="A schema that the rules must fit."),
]
Cases = Annotated[str, typer.Option("--tests", metavar="FILE", help="The cases, in YAML.")]
Actor = Annotated[str, typer.Option("--actor", metavar="ACTOR", help="Who would do it.")]
ExitCode = Annotated[
    bool, typer.Option("--exit-code", help="End with exit code 3 if the answer is deny.")
]

group = typer.Typer(help="Rules about who may do and see what.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="policy")


@command(group, "validate", BINDINGS)
def validate(session: Session, place: PolicyPlace, schema: SchemaFile = None) -> None:
    """Check policy files: every mistake with its line and column.

    With --schema also the types, properties and conditions of their rules.

    For example:

    \b
      omnigraph policy validate --file people-policy.yaml
      omnigraph policy validate --file people-policy.yaml --schema people.pg
    """
    from omnigraph.policy import answers

    try:
        found = answers.validate(bundles_of(session, place), _catalog(schema))
    except PolicyInvalid as error:
        found = _invalid(place, error)
    if session.json:
        print_json(found)
    else:
        for each in found["diagnostics"]:
            text = each["message"]
            print_result(f"{each['severity']} {each['line']}:{each['column']}: {text}")
        state = "valid" if found["ok"] else "not valid"
        print_result(
            f"{found['bundle']}: {state}, {found['actors']} actors, {found['rules']} rules"
        )
    if not found["ok"]:
        raise typer.Exit(EXIT_FAILED)


def _invalid(place: PolicyPlace, error: PolicyInvalid) -> dict[str, Any]:
    return {
        "ok": False,
        "bundle": error.file or ", ".join(place.file or ()),
        "kind": "server" if place.server_scope else "graph",
        "actors": 0,
        "rules": 0,
        "diagnostics": list(error.diagnostics),
    }


@command(group, "test", BINDINGS)
def test(session: Session, place: PolicyPlace, tests: Cases) -> None:
    """Run the cases of a test file against a policy.

    A case has id, actor, action, expect (allow or deny), and maybe branch, target_branch, query.

    For example:

    \b
      omnigraph policy test --file people-policy.yaml --tests policy-tests.yaml
    """
    from omnigraph.policy import answers

    cases = answers.read_cases(_text(tests), tests)
    found = answers.run_cases(policy_of(session, place), cases)
    if session.json:
        print_json(found)
    else:
        for case in found["cases"]:
            if case["expect"] != case["got"]:
                print_result(f"{case['id']}: expected {case['expect']} but got {case['got']}")
        passed = found["total"] - found["failed"]
        print_result(f"passed: {passed} of {found['total']}")
    if not found["ok"]:
        raise typer.Exit(EXIT_FAILED)


@command(group, "explain", BINDINGS)
def explain(
    session: Session,
    place: PolicyPlace,
    actor: Actor,
    request: PolicyRequest,
    exit_code: ExitCode = False,
) -> None:
    """Say whether an actor may do something, by which rule, and why other rules do not match.

    For example:

    \b
      omnigraph policy explain -f people-policy.yaml --actor ada --action change --branch main
      omnigraph policy explain -f server-policy.yaml --actor ada --action graph-list
    """
    action = request.known_action
    policy = policy_of(session, place, action)
    decision = policy.explain(
        actor, action, request.on_branch, request.target_branch, request.stored_query
    )
    if session.json:
        print_json(decision.to_dict())
    else:
        told = {
            "decision": "allow" if decision.allowed else "deny",
            "actor": actor,
            "action": action,
            "branch": decision.branch,
            "target_branch": decision.target_branch,
            "matched_rule": decision.rule,
            "message": decision.message,
        }
        for name, value in told.items():
            if value is not None:
                print_result(f"{name}: {value}")
        for rule in decision.considered:
            print_result(f"  {'+' if rule.matched else '-'} {rule.rule}: {rule.why}")
    if exit_code and not decision.allowed:
        raise typer.Exit(EXIT_DENIED)


@command(group, "who-can", BINDINGS)
def who_can(session: Session, place: PolicyPlace, request: PolicyRequest) -> None:
    """List the actors that may do something, and the rule that lets each of them.

    `*` stands for every actor that the policy does not name.

    For example:

    \b
      omnigraph policy who-can --file people-policy.yaml --action change --branch main
    """
    action = request.known_action
    policy = policy_of(session, place, action)
    found = policy.who_can(action, request.on_branch, request.target_branch, request.stored_query)
    if session.json:
        print_json({"action": action, "actors": [each.to_dict() for each in found]})
        return
    print_table(("actor", "rule"), [(each.actor, each.rule) for each in found])


def policy_of(session: Session, place: PolicyPlace, action: str | None = None) -> Policy:
    """The policy that decides about an action."""
    from omnigraph.policy.policy import Policy

    return Policy(bundles_of(session, place, action), place.graph_name)


def bundles_of(
    session: Session, place: PolicyPlace, action: str | None = None
) -> tuple[Bundle, ...]:
    """The bundles of `--file`, or those that a cluster has applied."""
    from omnigraph.policy.policy import read_bundles

    server = place.server_scope or action in act.SERVER_ACTIONS
    if place.file:
        return read_bundles(place.file, "server" if server else "graph")
    if not session.flags.names_a_scope:
        raise WrongUsage("no policy is named: give --file FILE, or --cluster DIR")
    return _applied_bundles(session.scope(), server=server)


def _applied_bundles(scope: GraphScope, *, server: bool) -> tuple[Bundle, ...]:
    """The bundles that are in force in a cluster: of the server, or of one of its graphs."""
    from omnigraph.cluster.serving import read_revision, serving_root

    revision = read_revision(serving_root(scope.target, os.environ), os.environ)
    if server:
        found, what = revision.server_bundles, "the server"
    else:
        known = sorted(revision.graph_bundles)
        name = scope.graph or (known[0] if len(known) == 1 else None)
        if name is None:
            listed = ", ".join(known) or "none"
            raise WrongUsage(f"name the graph with --graph ID; graphs with rules: {listed}")
        found, what = revision.graph_bundles.get(name, ()), f"the graph {name!r}"
    if not found:
        raise WrongUsage(f"the cluster {scope.target} has no rules about {what}")
    return tuple(found)


def _catalog(schema: str | None) -> Catalog | None:
    if schema is None:
        return None
    from omnigraph.graph.schema_changes import read_schema

    return read_schema(Path(schema))[0]


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NotFound(f"{file} cannot be read: {error}", file=file) from None
