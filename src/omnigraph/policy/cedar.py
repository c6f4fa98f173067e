"""Rules as policies of Cedar, which decides about every request.

Each rule is one Cedar policy with the id of the rule, so the reasons of a decision name rules. The
patterns of branch names are matched here, and Cedar gets those that match.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any

from omnigraph.errors import PackageMissing, PolicyInvalid
from omnigraph.policy import actions as act
from omnigraph.policy.bundle import Bundle, Effect, PolicyRule, invalid_policy
from omnigraph.syntax.diagnostics import Severity
from omnigraph.syntax.strict_yaml import FileFinding

_NAMESPACE = "Omnigraph"
_CONTEXT = """{
    anywhere: Bool, has_branch: Bool, branch: String, branch_is_protected: Bool,
    has_target_branch: Bool, target_branch: String, target_branch_is_protected: Bool,
    branch_patterns: Set<String>, target_branch_patterns: Set<String>,
    has_query: Bool, query: String,
  }"""


def cedar_schema() -> str:
    """The schema that Cedar texts must fit."""
    named = ", ".join(f'"{action}"' for action in act.GRAPH_ACTIONS if action != act.ADMIN)
    server = ", ".join(f'"{action}"' for action in act.SERVER_ACTIONS)
    return f"""namespace {_NAMESPACE} {{
  type Asked = {_CONTEXT};
  entity Group;
  entity Actor in [Group];
  entity Graph;
  entity Server;
  action {named} appliesTo {{ principal: Actor, resource: Graph, context: Asked }};
  action "{act.ADMIN}" appliesTo {{ principal: Actor, resource: [Graph, Server], context: Asked }};
  action {server} appliesTo {{ principal: Actor, resource: Server, context: Asked }};
}}
"""


def cedar() -> ModuleType:
    """The package `cedarpy`, which only a policy needs."""
    try:
        import cedarpy  # noqa: PLC0415
    except ModuleNotFoundError:
        raise PackageMissing(
            "a policy needs cedarpy: pip install 'omnigraph[policy]'",
            package="cedarpy",
            extra="policy",
        ) from None
    return cedarpy


@lru_cache(maxsize=4096)
def _pattern(glob: str) -> re.Pattern[str]:
    """`*` matches within a segment of a name, `**` across segments."""
    parts = re.split(r"(\*\*|\*)", glob)
    spelled = {"*": "[^/]*", "**": ".*"}
    return re.compile("".join(spelled.get(part, re.escape(part)) for part in parts), re.DOTALL)


def matches(glob: str, branch: str) -> bool:
    return _pattern(glob).fullmatch(branch) is not None


class CedarPolicies:
    """The compiled rules of one scope; nothing of it changes."""

    def __init__(self, bundles: Sequence[Bundle], resource: tuple[str, str]) -> None:
        rules = [rule for bundle in bundles for rule in bundle.rules]
        self._cedar = cedar()
        self._resource = _entity(*resource)
        self._protected = tuple({glob for b in bundles for glob in b.protected_branches})
        self._globs = tuple({glob for rule in rules for glob in rule.branches or ()})
        self._target_globs = tuple({g for rule in rules for g in rule.target_branches or ()})
        texts: dict[str, Any] = {}
        for bundle in bundles:
            if bundle.cedar is not None:
                texts |= _cedar_text(self._cedar, bundle)
        self.text_ids = frozenset(texts)
        """The ids of policies that were written in Cedar."""
        self._entities = self._cedar.Entities.from_json_str(json.dumps(_entities(bundles)))
        deciding = [r for r in rules if not (r.effect is Effect.DENY and r.is_about_data)]
        limiting = [r for r in rules if r.effect is Effect.DENY and r.is_about_data]
        self._deciding = {
            action: self._set(_compiled(deciding, action) | texts) for action in act.ALL_ACTIONS
        }
        self._limiting = {
            action: self._set(_compiled(limiting, action, "permit"))
            for action in act.DATA_ACTIONS
            if any(action in rule.actions for rule in limiting)
        }

    def _set(self, policies: Mapping[str, Any]) -> Any:
        body = {"staticPolicies": dict(policies), "templates": {}, "templateLinks": []}
        return self._cedar.PolicySet.from_json_str(json.dumps(body))

    def is_protected(self, branch: str) -> bool:
        return any(matches(glob, branch) for glob in self._protected)

    def decide(
        self, actor: str, action: str, branch: str | None, target: str | None, query: str | None
    ) -> tuple[bool, tuple[str, ...]]:
        """Whether it is allowed, and the rules that say so: those that allow, or that deny."""
        return self._ask(self._deciding[action], actor, action, branch, target, query)

    def limits(self, actor: str, action: str, branch: str | None) -> tuple[str, ...]:
        """The matching `deny` rules about types, properties and rows."""
        policies = self._limiting.get(action)
        if policies is None:
            return ()
        return self._ask(policies, actor, action, branch, None, None)[1]

    def _ask(
        self,
        policies: Any,
        actor: str,
        action: str,
        branch: str | None,
        target: str | None,
        query: str | None,
    ) -> tuple[bool, tuple[str, ...]]:
        request = {
            "principal": _entity("Actor", actor),
            "action": _entity("Action", action),
            "resource": self._resource,
            "context": self._context(branch, target, query),
        }
        result = self._cedar.is_authorized(request, policies, self._entities)
        known = (self._cedar.Decision.Allow, self._cedar.Decision.Deny)
        errors = list(result.diagnostics.errors)
        if errors or result.decision not in known:
            # A rule that fails is skipped by Cedar, and it may be one that denies.
            raise PolicyInvalid(
                f"the policy could not decide about {action}: {'; '.join(errors) or 'no decision'}",
                diagnostics=[],
            )
        allowed = result.decision is self._cedar.Decision.Allow
        return allowed, tuple(sorted(result.diagnostics.reasons))

    def _context(self, branch: str | None, target: str | None, query: str | None) -> dict[str, Any]:
        named = None if branch == act.ANYWHERE else branch
        return {
            "anywhere": branch == act.ANYWHERE,
            "has_branch": named is not None,
            "branch": named or "",
            "branch_is_protected": named is not None and self.is_protected(named),
            "has_target_branch": target is not None,
            "target_branch": target or "",
            "target_branch_is_protected": target is not None and self.is_protected(target),
            "branch_patterns": _matching(self._globs, named),
            "target_branch_patterns": _matching(self._target_globs, target),
            "has_query": query is not None,
            "query": query or "",
        }


def _matching(globs: Iterable[str], branch: str | None) -> list[str]:
    return [] if branch is None else [glob for glob in globs if matches(glob, branch)]


def _entity(kind: str, name: str) -> dict[str, str]:
    return {"type": f"{_NAMESPACE}::{kind}", "id": name}


def _entities(bundles: Sequence[Bundle]) -> list[dict[str, Any]]:
    groups: dict[str, tuple[str, ...]] = {}
    for bundle in bundles:
        groups |= bundle.groups
    parents: dict[str, list[str]] = {}
    for group, members in groups.items():
        for actor in members:
            parents.setdefault(actor, []).append(group)
    found = [{"uid": _entity("Group", group), "attrs": {}, "parents": []} for group in groups]
    return found + [
        {
            "uid": _entity("Actor", actor),
            "attrs": {},
            "parents": [_entity("Group", group) for group in named],
        }
        for actor, named in parents.items()
    ]


# Rules as the JSON form of Cedar policies, which needs no quoting


def _compiled(
    rules: Iterable[PolicyRule], action: str, effect: str | None = None
) -> dict[str, Any]:
    return {rule.id: _policy(rule, effect) for rule in rules if action in rule.actions}


def _policy(rule: PolicyRule, effect: str | None) -> dict[str, Any]:
    found = "permit" if rule.effect is Effect.ALLOW else "forbid"
    return {
        "effect": effect or found,
        "principal": _principal(rule),
        "action": {"op": "in", "entities": [_entity("Action", name) for name in rule.actions]},
        "resource": {"op": "All"},
        "conditions": [{"kind": "when", "body": b} for b in _conditions(rule, effect or found)],
    }


def _principal(rule: PolicyRule) -> dict[str, Any]:
    if rule.actors.group is not None:
        return {"op": "in", "entity": _entity("Group", rule.actors.group)}
    if rule.actors.actor is not None:
        return {"op": "==", "entity": _entity("Actor", rule.actors.actor)}
    return {"op": "All"}


def _conditions(rule: PolicyRule, effect: str) -> list[dict[str, Any]]:
    """What must be true. On some branch, what is permitted on one holds, but no `forbid` does."""
    branch = [*_scope(rule.branch_scope, "branch"), *_globs(rule.branches, "branch_patterns")]
    target = [
        *_scope(rule.target_branch_scope, "target_branch"),
        *_globs(rule.target_branches, "target_branch_patterns"),
    ]
    anywhere = _asked("anywhere")
    found = [*branch, *target]
    if effect == "permit":
        found = [{"||": {"left": anywhere, "right": body}} for body in found]
    elif found:
        found.append({"!": {"arg": anywhere}})
    if rule.queries is not None:
        names = {"Set": [{"Value": name} for name in rule.queries]}
        found.append({"contains": {"left": names, "right": _asked("query")}})
    return found


def _asked(name: str) -> dict[str, Any]:
    return {".": {"left": {"Var": "context"}, "attr": name}}


def _scope(scope: str | None, which: str) -> list[dict[str, Any]]:
    if scope is None or scope == "any":
        return []
    protected = _asked(f"{which}_is_protected")
    if scope == "protected":
        return [protected]
    present = _asked(f"has_{which}")
    return [{"&&": {"left": present, "right": {"!": {"arg": protected}}}}]


def _globs(globs: tuple[str, ...] | None, which: str) -> list[dict[str, Any]]:
    if globs is None:
        return []
    named = {"Set": [{"Value": glob} for glob in globs]}
    return [{"containsAny": {"left": _asked(which), "right": named}}]


# Texts in Cedar


def _cedar_text(package: ModuleType, bundle: Bundle) -> dict[str, Any]:
    """The policies of a text by id: its `@id`, or the file and the number that Cedar gives."""
    assert bundle.cedar is not None
    try:
        found = json.loads(package.policies_to_json_str(bundle.cedar))
        checked = package.validate_policies(bundle.cedar, cedar_schema())
    except ValueError as error:
        raise _wrong_text(bundle, [str(error)]) from None
    if not checked.validation_passed:
        raise _wrong_text(bundle, [str(problem.error) for problem in checked.errors])
    if found["templates"]:
        raise _wrong_text(bundle, ["templates are not supported: write policies"])
    policies: dict[str, Any] = {}
    for number, policy in found["staticPolicies"].items():
        name = (policy.get("annotations") or {}).get("id") or f"{bundle.file}#{number}"
        if name in policies:
            raise _wrong_text(bundle, [f"two policies have the id {name!r}"])
        policies[name] = policy
    return policies


def cedar_ids(bundle: Bundle) -> tuple[str, ...]:
    """The ids of the policies of a text, which is checked; none for other bundles."""
    return () if bundle.cedar is None else tuple(_cedar_text(cedar(), bundle))


def _wrong_text(bundle: Bundle, problems: Sequence[str]) -> PolicyInvalid:
    findings = [FileFinding("cedar", Severity.ERROR, "", 1, 1, problem) for problem in problems]
    return invalid_policy(findings, bundle.file)
