"""Policy files -> `Bundle`: strict YAML, every mistake with its place.

A file whose name ends with `.cedar` has policies in the Cedar language; its text is kept as it is.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from omnigraph.errors import InvalidName, PolicyInvalid
from omnigraph.policy import actions as act
from omnigraph.syntax.diagnostics import Severity
from omnigraph.syntax.strict_yaml import (
    FileFinding,
    FileFindings,
    YamlNode,
    exactly_one,
    read_yaml,
    shown,
)
from omnigraph.values.identifiers import check_ref_name
from omnigraph.values.known_names import did_you_mean

DUPLICATE_RULE = "duplicate_rule"
UNKNOWN_GROUP = "unknown_group"
UNKNOWN_ACTION = "unknown_action"
WRONG_ACTION = "wrong_action"
_ROOT_KEYS = ("version", "groups", "protected_branches", "rules")
_TERM_KEYS = (
    "actors",
    "actions",
    "branch_scope",
    "target_branch_scope",
    "branches",
    "target_branches",
    "queries",
    "types",
    "properties",
    "where",
)
_SCOPES = ("any", "protected", "unprotected")


class BundleKind(StrEnum):
    """What the rules of a bundle are about."""

    GRAPH = "graph"
    SERVER = "server"


class Effect(StrEnum):
    """What a rule does with a request that it matches; `deny` wins."""

    ALLOW = "allow"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class RuleActors:
    """Whom a rule is about: one group, one actor, or everyone."""

    group: str | None = None
    actor: str | None = None

    def __str__(self) -> str:
        if self.group is not None:
            return f"group {self.group}"
        return f"actor {self.actor}" if self.actor is not None else "any actor"


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One rule; a part that the file leaves out is None and restricts nothing."""

    id: str
    effect: Effect
    actors: RuleActors
    actions: tuple[str, ...]
    branch_scope: str | None = None
    target_branch_scope: str | None = None
    branches: tuple[str, ...] | None = None
    target_branches: tuple[str, ...] | None = None
    queries: tuple[str, ...] | None = None
    types: tuple[str, ...] | None = None
    properties: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    where: Mapping[str, str] = field(default_factory=dict)
    file: str = ""
    line: int = 0
    column: int = 0

    @property
    def is_about_data(self) -> bool:
        """Whether it is about some types, properties or rows, and not about whole graphs."""
        return self.types is not None or bool(self.properties) or bool(self.where)


@dataclass(frozen=True, slots=True)
class Bundle:
    """The rules of one file."""

    file: str
    kind: BundleKind
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    protected_branches: tuple[str, ...] = ()
    rules: tuple[PolicyRule, ...] = ()
    cedar: str | None = None
    """The text of a `.cedar` file; such a bundle has nothing else."""
    warnings: tuple[FileFinding, ...] = ()

    @property
    def actors(self) -> tuple[str, ...]:
        """The actors that the bundle names, in groups or in rules."""
        named = {actor for members in self.groups.values() for actor in members}
        named |= {rule.actors.actor for rule in self.rules if rule.actors.actor is not None}
        return tuple(sorted(named))


def read_bundle(text: str, file: str, kind: BundleKind | str = BundleKind.GRAPH) -> Bundle:
    """The bundle of a file; raises `PolicyInvalid` with all mistakes of the file."""
    wanted = BundleKind(kind)
    if file.endswith(".cedar"):
        return Bundle(file, wanted, cedar=text)
    findings = FileFindings()
    root = read_yaml(text, findings)
    bundle = _bundle(root, file, wanted) if root is not None else None
    if bundle is None or findings.has_errors:
        raise invalid_policy(findings.in_order(), file)
    return bundle


def invalid_policy(findings: Sequence[FileFinding], file: str) -> PolicyInvalid:
    """The error with all findings, one on each line."""
    lines = [f"{file}:{found.line}:{found.column}: {found.message}" for found in findings]
    return PolicyInvalid(
        "\n".join(lines), diagnostics=[found.to_dict() for found in findings], file=file
    )


def rule_problem(rule: PolicyRule, code: str, path: str, message: str) -> PolicyInvalid:
    """The error about one rule that was read before."""
    told = f"rule {rule.id!r}: {message}"
    found = FileFinding(code, Severity.ERROR, path, rule.line, rule.column, told)
    return invalid_policy([found], rule.file)


def _bundle(root: YamlNode, file: str, kind: BundleKind) -> Bundle:
    body = root.mapping(_ROOT_KEYS, ("version",))
    version = body.get("version")
    if version is not None and (version.value != 1 or isinstance(version.value, bool)):
        version.wrong(f"must be 1, got {shown(version.value)}")
    groups = _groups(body.get("groups"))
    protected = _globs(body.get("protected_branches")) or ()
    rules: list[PolicyRule] = []
    for node in body["rules"].items() if "rules" in body else ():
        rule = _rule(node, file, kind, groups)
        if rule is None:
            continue
        if any(rule.id == other.id for other in rules):
            node.wrong(f"has the id {rule.id!r}, which another rule has already", DUPLICATE_RULE)
        rules.append(rule)
    warnings = _unused_groups(body.get("groups"), groups, rules)
    return Bundle(file, kind, groups, protected, tuple(rules), warnings=warnings)


def _groups(node: YamlNode | None) -> dict[str, tuple[str, ...]]:
    if node is None:
        return {}
    found = {}
    for name, members in node.mapping().items():
        if not name.strip() or name != name.strip():
            members.wrong("is the name of a group, which must not be blank or have blanks around")
        found[name] = members.texts()
    return found


def _unused_groups(
    node: YamlNode | None, groups: Iterable[str], rules: Iterable[PolicyRule]
) -> tuple[FileFinding, ...]:
    used = {rule.actors.group for rule in rules}
    unused = [name for name in groups if name not in used]
    if node is None or not unused:
        return ()
    places = node.mapping()
    return tuple(
        FileFinding(
            "unused_group",
            Severity.WARNING,
            places[name].path,
            places[name].line,
            places[name].column,
            f"no rule is about the group {name!r}",
        )
        for name in unused
        if name in places
    )


def _rule(
    node: YamlNode, file: str, kind: BundleKind, groups: Mapping[str, tuple[str, ...]]
) -> PolicyRule | None:
    body = node.mapping(("id", "allow", "deny"), ("id",))
    name = body["id"].text() if "id" in body else ""
    effect = exactly_one(node, body, "allow", "deny")
    if effect is None:
        return None
    terms = body[effect].mapping(_TERM_KEYS, ("actors", "actions"))
    actions = _actions(terms["actions"], name, kind) if "actions" in terms else ()
    _check_parts(terms, actions)
    rule = PolicyRule(
        id=name,
        effect=Effect(effect),
        actors=_actors(terms["actors"], groups) if "actors" in terms else RuleActors(),
        actions=actions,
        branch_scope=_scope(terms.get("branch_scope")),
        target_branch_scope=_scope(terms.get("target_branch_scope")),
        branches=_globs(terms.get("branches")),
        target_branches=_globs(terms.get("target_branches")),
        queries=terms["queries"].texts() if "queries" in terms else None,
        types=terms["types"].texts() if "types" in terms else None,
        properties=_by_type(terms.get("properties"), lambda each: each.texts()),
        where=_by_type(terms.get("where"), lambda each: each.text()),
        file=file,
        line=node.line,
        column=node.column,
    )
    for part in ("properties", "where"):
        _check_types(terms.get(part), rule.types)
    if rule.effect is Effect.DENY:
        for name in sorted(rule.properties.keys() & rule.where.keys()):
            terms["where"].wrong(
                f"and `properties` of one rule cannot both be about {name!r}: deny rows or "
                "properties, or write two rules"
            )
    return rule


def _actors(node: YamlNode, groups: Mapping[str, tuple[str, ...]]) -> RuleActors:
    body = node.mapping(("group", "actor", "any"))
    given = exactly_one(node, body, "group", "actor", "any")
    if given == "group":
        name = body["group"].text()
        if name and name not in groups:
            hint = did_you_mean(name, groups) or "the file has no groups"
            body["group"].wrong(
                f"names the group {name!r}, which is unknown; {hint}", UNKNOWN_GROUP
            )
        return RuleActors(group=name)
    if given == "actor":
        return RuleActors(actor=body["actor"].text())
    if given == "any" and body["any"].value is not True:
        body["any"].wrong(f"must be true, got {shown(body['any'].value)}")
    return RuleActors()


def _actions(node: YamlNode, rule: str, kind: BundleKind) -> tuple[str, ...]:
    found = []
    for item in node.items():
        text = item.text()
        if not text:
            continue
        if text not in act.ALL_ACTIONS:
            hint = did_you_mean(text, act.ALL_ACTIONS)
            item.wrong(f"is no action: {text!r}; {hint}", UNKNOWN_ACTION)
        elif kind is BundleKind.GRAPH and text in act.SERVER_ACTIONS:
            item.wrong(
                f"is {text}, which is about the server: rule {rule!r} belongs in a server bundle",
                WRONG_ACTION,
            )
        elif kind is BundleKind.SERVER and not act.is_server_action(text):
            item.wrong(
                f"is {text}, which is about a graph: rule {rule!r} belongs in a graph bundle",
                WRONG_ACTION,
            )
        elif text in found:
            item.wrong(f"names {text} twice")
        found.append(text)
    if isinstance(node.value, list) and not node.value:
        node.wrong("is an empty list")
    return tuple(found)


_PART_ACTIONS: Mapping[str, tuple[str, ...]] = {
    "branch_scope": act.BRANCH_ACTIONS,
    "branches": act.BRANCH_ACTIONS,
    "target_branch_scope": act.TARGET_ACTIONS,
    "target_branches": act.TARGET_ACTIONS,
    "queries": (act.INVOKE_QUERY,),
    "types": act.DATA_ACTIONS,
    "properties": act.DATA_ACTIONS,
    "where": act.DATA_ACTIONS,
}


def _check_parts(terms: Mapping[str, YamlNode], actions: tuple[str, ...]) -> None:
    """Refuse a part that does not go with all actions of the rule."""
    for part, fitting in _PART_ACTIONS.items():
        if part not in terms:
            continue
        for action in actions:
            if action in act.ALL_ACTIONS and action not in fitting:
                terms[part].wrong(
                    f"goes only with {', '.join(fitting)}, and the rule is about {action}, too",
                    WRONG_ACTION,
                )
    if "branch_scope" in terms and "target_branch_scope" in terms:
        terms["target_branch_scope"].wrong("cannot stand beside `branch_scope` in one rule")


def _scope(node: YamlNode | None) -> str | None:
    return None if node is None else node.choice(_SCOPES)


def _globs(node: YamlNode | None) -> tuple[str, ...] | None:
    """Patterns of branch names; all but `*` must be what a branch name may have."""
    if node is None:
        return None
    node.texts()
    found = []
    for item in node.items() if isinstance(node.value, list) else ():
        if not isinstance(item.value, str) or not item.value.strip():
            continue
        try:
            check_ref_name(item.value.strip().replace("*", "x"))
        except InvalidName as error:
            item.wrong(f"is no name or pattern of branches: {error.message}")
            continue
        found.append(unicodedata.normalize("NFC", item.value))
    return tuple(found)


def _by_type(node: YamlNode | None, read: Any) -> dict[str, Any]:
    if node is None:
        return {}
    members = node.mapping()
    if isinstance(node.value, dict) and not node.value:
        node.wrong("is empty")
    return {name: read(each) for name, each in members.items()}


def _check_types(node: YamlNode | None, types: tuple[str, ...] | None) -> None:
    """Refuse properties and rows of a type that `types` leaves out."""
    if node is None or types is None:
        return
    for name, each in node.mapping().items():
        if name not in types:
            each.wrong(f"is about {name!r}, which `types` of the rule leaves out")
