"""Questions to a policy and their answers as JSON: bundles in, answers out.

The commands `policy validate|test|explain|who-can` print them, for files and for clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph.catalog.model import Catalog
from omnigraph.errors import PolicyInvalid
from omnigraph.policy import actions as act
from omnigraph.policy.bundle import Bundle, Effect, PolicyRule, invalid_policy
from omnigraph.policy.policy import Policy
from omnigraph.policy.row_rules import data_scope, names_of
from omnigraph.syntax.diagnostics import Severity
from omnigraph.syntax.strict_yaml import FileFinding, FileFindings, YamlNode, read_yaml, shown
from omnigraph.values.known_names import did_you_mean

_EXAMPLE_ACTOR = "someone"


def validate(bundles: Sequence[Bundle], catalog: Catalog | None = None) -> dict[str, Any]:
    """What is wrong with bundles that were read: together, and in a schema if one is given."""
    findings: list[dict[str, Any]] = [w.to_dict() for b in bundles for w in b.warnings]
    actors: tuple[str, ...] = ()
    rules = 0
    try:
        policy = Policy(bundles)
        actors, rules = policy.actors, sum(len(bundle.rules) for bundle in bundles)
    except PolicyInvalid as error:
        findings += map(dict, error.diagnostics)
    else:
        findings += [found.to_dict() for found in _narrowing_pairs(bundles)]
        if catalog is not None:
            findings += _misfits(bundles, catalog)
    return {
        "ok": not any(found["severity"] == Severity.ERROR for found in findings),
        "bundle": ", ".join(bundle.file for bundle in bundles),
        "kind": bundles[0].kind.value if bundles else None,
        "actors": len(actors),
        "rules": rules,
        "diagnostics": findings,
    }


def _misfits(bundles: Sequence[Bundle], catalog: Catalog) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for rule in (rule for bundle in bundles for rule in bundle.rules if rule.is_about_data):
        allow = rule.effect is Effect.ALLOW
        everything = PolicyRule("", Effect.ALLOW, rule.actors, rule.actions)
        try:
            data_scope(
                (rule,) if allow else (everything,),
                () if allow else (rule,),
                catalog,
                _EXAMPLE_ACTOR,
            )
        except PolicyInvalid as error:
            found += map(dict, error.diagnostics)
            continue
        found += [warning.to_dict() for warning in _unknown_names(rule, catalog)]
    return found


def _unknown_names(rule: PolicyRule, catalog: Catalog) -> list[FileFinding]:
    """Names of an `allow` rule that the schema does not have: they show nothing."""
    found = [
        _warning(rule, "unknown_type", f"the schema has no type {name!r}")
        for name in rule.types or ()
        if not names_of(name, catalog)
    ]
    for name, listed in rule.properties.items():
        for type_name in names_of(name, catalog):
            known = {declared.name for declared in catalog.resolve(type_name).properties}
            found += [
                _warning(rule, "unknown_property", f"{type_name} has no property {each!r}")
                for each in listed
                if each not in known
            ]
    return found


def _warning(rule: PolicyRule, code: str, message: str) -> FileFinding:
    told = f"rule {rule.id!r}: {message}"
    return FileFinding(code, Severity.WARNING, "", rule.line, rule.column, told)


def _narrowing_pairs(bundles: Sequence[Bundle]) -> list[FileFinding]:
    """Pairs of rules that show different properties of different rows of one type.

    An actor with both sees only the properties that both show.
    """
    rules = [r for b in bundles for r in b.rules if r.effect is Effect.ALLOW and r.properties]
    others = [r for b in bundles for r in b.rules if r.effect is Effect.ALLOW]
    found = []
    for one in rules:
        for other in others:
            for name in one.properties:
                narrows = (
                    one is not other
                    and set(one.actions) & set(other.actions)
                    and (other.types is None or name in other.types)
                    and one.where.get(name) is not None
                    and other.where.get(name) not in (None, one.where[name])
                    and other.properties.get(name) != one.properties[name]
                )
                if narrows:
                    message = (
                        f"rule {other.id!r} is about other rows of {name} and shows other "
                        "properties: an actor with both rules sees only what both show"
                    )
                    found.append(_warning(one, "narrowing_pair", message))
    return found


# Test files


@dataclass(frozen=True, slots=True)
class PolicyCase:
    """A request and the decision that is expected for it."""

    id: str
    actor: str
    action: str
    branch: str | None
    target_branch: str | None
    query: str | None
    allowed: bool


_CASE_KEYS = ("id", "actor", "action", "branch", "target_branch", "query", "expect")


def read_cases(text: str, file: str) -> tuple[PolicyCase, ...]:
    """The cases of a test file; raises `PolicyInvalid` with all mistakes of the file."""
    findings = FileFindings()
    root = read_yaml(text, findings)
    cases: list[PolicyCase] = []
    if root is not None:
        body = root.mapping(("version", "cases"), ("version", "cases"))
        version = body.get("version")
        if version is not None and (version.value != 1 or isinstance(version.value, bool)):
            version.wrong(f"must be 1, got {shown(version.value)}")
        for node in body["cases"].items() if "cases" in body else ():
            case = _case(node)
            if any(case.id == other.id for other in cases):
                node.wrong(f"has the id {case.id!r}, which another case has already")
            cases.append(case)
    if findings.has_errors:
        raise invalid_policy(findings.in_order(), file)
    return tuple(cases)


def _case(node: YamlNode) -> PolicyCase:
    body = node.mapping(_CASE_KEYS, ("id", "actor", "action", "expect"))

    def text(key: str) -> str | None:
        return body[key].text() if key in body else None

    action = act.action_named(text("action") or "")
    if action is None and "action" in body:
        hint = did_you_mean(str(body["action"].value), act.ALL_ACTIONS)
        body["action"].wrong(f"is no action; {hint}")
    expect = body["expect"].choice(("allow", "deny")) if "expect" in body else None
    return PolicyCase(
        text("id") or "",
        text("actor") or "",
        action or "",
        text("branch"),
        text("target_branch"),
        text("query"),
        expect == "allow",
    )


def run_cases(policy: Policy, cases: Sequence[PolicyCase]) -> dict[str, Any]:
    """The decision of every case."""
    told = []
    for case in cases:
        decision = policy.decide(
            case.actor, case.action, case.branch, case.target_branch, case.query
        )
        told.append(
            {
                "id": case.id,
                "expect": "allow" if case.allowed else "deny",
                "got": "allow" if decision.allowed else "deny",
                "rule": decision.rule,
            }
        )
    failed = sum(case["expect"] != case["got"] for case in told)
    return {"ok": failed == 0, "total": len(told), "failed": failed, "cases": told}
