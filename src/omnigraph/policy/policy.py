"""`Policy`: the rules of one graph, or of a server, and the decisions that they make.

Decisions and scopes are kept in caches of the rules that made them. Other rules have other caches,
so a decision never outlives its rules.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from omnigraph.catalog.identity import fingerprint
from omnigraph.catalog.model import Catalog
from omnigraph.errors import PolicyDenied, PolicyInvalid
from omnigraph.ir.data_scope import DataScope
from omnigraph.policy import actions as act
from omnigraph.policy.bundle import (
    DUPLICATE_RULE,
    Bundle,
    BundleKind,
    Effect,
    PolicyRule,
    RuleActors,
    invalid_policy,
    read_bundle,
    rule_problem,
)
from omnigraph.policy.cedar import CedarPolicies, cedar_ids, matches
from omnigraph.policy.row_rules import data_scope, uses_actor
from omnigraph.syntax.diagnostics import Severity
from omnigraph.syntax.strict_yaml import FileFinding
from omnigraph.values.bounded_cache import BoundedCache

logger = logging.getLogger("omnigraph.policy")

DEFAULT_GRAPH = "default"
_MOST_DECISIONS = 20_000
_MOST_SCOPES = 4_000
_Key = tuple[str | None, str, str | None, str | None, str | None]


@dataclass(frozen=True, slots=True)
class ConsideredRule:
    """A rule that was looked at for a decision, and why it matches the request or does not."""

    rule: str
    matched: bool
    why: str

    def to_dict(self) -> dict[str, object]:
        return {"rule": self.rule, "matched": self.matched, "why": self.why}


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """Whether an actor may do something, and the rule that says so."""

    allowed: bool
    rule: str | None
    """The first matching rule by id: one that allows it, or one that denies it."""
    actor: str | None
    action: str
    branch: str | None
    target_branch: str | None
    message: str
    rules: tuple[str, ...] = ()
    """All rules that say so."""
    considered: tuple[ConsideredRule, ...] = ()
    """Every rule, if an explanation was asked for."""

    def to_dict(self) -> dict[str, object]:
        return {
            "decision": "allow" if self.allowed else "deny",
            "actor": self.actor,
            "action": self.action,
            "branch": self.branch,
            "target_branch": self.target_branch,
            "matched_rule": self.rule,
            "message": self.message,
            "considered": [each.to_dict() for each in self.considered],
        }


@dataclass(frozen=True, slots=True)
class WhoCan:
    """An actor that may do something; `*` stands for every actor that the policy does not name."""

    actor: str
    rule: str | None

    def to_dict(self) -> dict[str, object]:
        return {"actor": self.actor, "rule": self.rule}


class _Rules:
    """One generation of rules and what it decided."""

    def __init__(self, bundles: Sequence[Bundle], graph_id: str) -> None:
        self.bundles = tuple(bundles)
        self.kind = self.bundles[0].kind if self.bundles else BundleKind.GRAPH
        _require_one_meaning(self.bundles)
        server = self.kind is BundleKind.SERVER
        resource = ("Server", "root") if server else ("Graph", graph_id)
        self.cedar = CedarPolicies(self.bundles, resource)
        self.by_id = {rule.id: rule for bundle in bundles for rule in bundle.rules}
        self.actors = tuple(sorted({name for bundle in bundles for name in bundle.actors}))
        self.knows_everyone = bool(self.cedar.text_ids) or any(
            rule.actors.group is None and rule.actors.actor is None for rule in self.by_id.values()
        )
        self.has_data_rules = any(rule.is_about_data for rule in self.by_id.values())
        self.decisions: BoundedCache[_Key, PolicyDecision] = BoundedCache(_MOST_DECISIONS)
        self.scopes: BoundedCache[tuple[object, ...], tuple[DataScope | None]] = BoundedCache(
            _MOST_SCOPES
        )
        self.shared: BoundedCache[str, DataScope] = BoundedCache(_MOST_SCOPES)
        self.asked: BoundedCache[tuple[object, ...], tuple[DataScope | None]] = BoundedCache(
            _MOST_DECISIONS
        )
        """Scopes by who asked, because every read asks and Cedar takes most of a millisecond."""

    def decide(self, key: _Key) -> PolicyDecision:
        actor, action, branch, target, query = key
        if actor is None:
            why = "the graph has a policy, and this handle has no actor: open it with one"
            return _decision(key, False, (), why)
        if not self.knows_everyone and actor not in self.actors:
            return _decision(key, False, (), "the policy does not know this actor")
        allowed, rules = self.cedar.decide(actor, action, branch, target, query)
        if not allowed and not rules and action == act.SCHEMA_READ:
            implied = self.decide((actor, act.READ, branch, None, None))
            allowed, rules = implied.allowed, implied.rules
        if allowed:
            return _decision(key, True, rules, f"rule {rules[0]!r} allows it")
        why = f"rule {rules[0]!r} denies it" if rules else "no rule allows it"
        return _decision(key, False, rules, why)

    def matching(
        self, actor: str, action: str, branch: str | None
    ) -> tuple[PolicyRule, ...] | None:
        """The `allow` rules about data that let the actor in; None when one of them is whole."""
        allowed, names = self.cedar.decide(actor, action, branch, None, None)
        if not allowed:
            return ()
        if any(name not in self.by_id or not self.by_id[name].is_about_data for name in names):
            return None
        return tuple(self.by_id[name] for name in names)

    def scope(
        self, actor: str, action: str, branch: str | None, catalog: Catalog
    ) -> DataScope | None:
        key = (actor, action, branch, fingerprint(catalog))
        known = self.asked.get(key)
        if known is None:
            known = (self._scope(actor, action, branch, catalog),)
            self.asked.put(key, known)
        return known[0]

    def _scope(
        self, actor: str, action: str, branch: str | None, catalog: Catalog
    ) -> DataScope | None:
        rules = self.matching(actor, action, branch)
        denies = tuple(self.by_id[name] for name in self.cedar.limits(actor, action, branch))
        if rules is None and not denies:
            return None
        allows = (_EVERYTHING,) if rules is None else rules
        differs = actor if any(uses_actor(rule) for rule in (*allows, *denies)) else None
        names = tuple(rule.id for rule in (*allows, *denies))
        key = (names, differs, fingerprint(catalog))
        found = self.scopes.get(key)
        if found is None:
            made = data_scope(allows, denies, catalog, actor)
            if made is not None:
                made = self.shared.get_or_put(made.key, made)
            self.scopes.put(key, (made,))
            return made
        return found[0]


_EVERYTHING = PolicyRule("", Effect.ALLOW, RuleActors(), ())
"""Stands for the rules that show the whole graph."""


def _decision(key: _Key, allowed: bool, rules: tuple[str, ...], why: str) -> PolicyDecision:
    actor, action, branch, target, query = key
    verb = "may" if allowed else "may not"
    shown = None if branch == act.ANYWHERE else branch
    places = {"branch": shown, "target branch": target, "query": query}
    named = ", ".join(f"{word} {name!r}" for word, name in places.items() if name is not None)
    place = f" ({named})" if named else ""
    message = f"{actor or 'a caller without a name'} {verb} {action}{place}: {why}"
    return PolicyDecision(
        allowed, rules[0] if rules else None, actor, action, shown, target, message, rules
    )


class Policy:
    """The rules of a graph, or of a server; a `Gate` of handles of the graph.

    Example:
        >>> policy = Policy.load("people-policy.yaml")
        >>> policy.decide("ada", "change", branch="main").allowed
        >>> omnigraph.open("people.omni", actor="ada", policy=policy)
    """

    def __init__(self, bundles: Iterable[Bundle], graph_id: str = DEFAULT_GRAPH) -> None:
        self._graph_id = graph_id
        self._rules = _Rules(tuple(bundles), graph_id)

    @staticmethod
    def load(
        files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        kind: str = BundleKind.GRAPH,
        graph_id: str = DEFAULT_GRAPH,
    ) -> Policy:
        """The policy of one file or several, which are merged."""
        return Policy(read_bundles(files, kind), graph_id)

    def replace(self, bundles: Iterable[Bundle]) -> None:
        """Put other rules in force, from the next decision on."""
        self._rules = _Rules(tuple(bundles), self._graph_id)

    @property
    def kind(self) -> BundleKind:
        return self._rules.kind

    @property
    def bundles(self) -> tuple[Bundle, ...]:
        return self._rules.bundles

    @property
    def actors(self) -> tuple[str, ...]:
        """The actors that the policy names, in order."""
        return self._rules.actors

    def decide(
        self,
        actor: str | None,
        action: str,
        branch: str | None = None,
        target: str | None = None,
        query: str | None = None,
    ) -> PolicyDecision:
        """Whether the actor may do it. The branch `*` asks whether it may on some branch."""
        found = self._decided((actor, action, branch, target, query))
        if logger.isEnabledFor(logging.INFO):
            _log(found, query)
        return found

    def _decided(self, key: _Key) -> PolicyDecision:
        rules = self._rules
        found = rules.decisions.get(key)
        if found is None:
            found = rules.decide(key)
            rules.decisions.put(key, found)
        return found

    def require(
        self,
        actor: str | None,
        action: str,
        branch: str | None,
        target: str | None,
        query: str | None = None,
    ) -> None:
        """Raise `PolicyDenied` unless the actor may do it."""
        decision = self._decided((actor, action, branch, target, query))
        if logger.isEnabledFor(logging.INFO):
            _log(decision, query)
        if decision.allowed:
            return
        raise PolicyDenied(
            decision.message,
            action=action,
            branch=decision.branch,
            target_branch=target,
            actor_id=actor,
            rule=decision.rule,
        )

    def allows(
        self,
        actor: str | None,
        action: str,
        branch: str | None,
        target: str | None = None,
        query: str | None = None,
    ) -> bool:
        """The same, to choose what a listing shows; such decisions are not logged."""
        return self._decided((actor, action, branch, target, query)).allowed

    def scope(
        self, actor: str | None, action: str, branch: str | None, catalog: Catalog
    ) -> DataScope | None:
        """The part of the graph in which an allowed action stays; None is the whole graph.

        The schema that an actor sees is that of its `read` rules, unless a rule grants
        `schema_read`. A rule that does not fit the catalog raises `PolicyInvalid`.
        """
        rules = self._rules
        if not rules.has_data_rules:
            return None
        if actor is None:
            return DataScope("", {})
        if action == act.SCHEMA_READ:
            if rules.matching(actor, action, branch) is None:
                return None
            action = act.READ
        return rules.scope(actor, action, branch, catalog)

    def explain(
        self,
        actor: str | None,
        action: str,
        branch: str | None = None,
        target: str | None = None,
        query: str | None = None,
    ) -> PolicyDecision:
        """The decision, with every rule and why it matches or does not."""
        decision = self.decide(actor, action, branch, target, query)
        rules = self._rules
        considered = []
        for rule in sorted(rules.by_id.values(), key=lambda rule: rule.id):
            why = self._unmet(rule, (actor, action, branch, target, query))
            considered.append(ConsideredRule(rule.id, why is None, why or _effect(rule)))
        considered += [
            ConsideredRule(name, name in decision.rules, "written in Cedar")
            for name in sorted(rules.cedar.text_ids)
        ]
        return replace(decision, considered=tuple(considered))

    def who_can(
        self,
        action: str,
        branch: str | None = None,
        target: str | None = None,
        query: str | None = None,
    ) -> list[WhoCan]:
        """The named actors that may do it, and `*` if every other actor may."""
        rules, found = self._rules, []
        for actor in rules.actors:
            decision = rules.decide((actor, action, branch, target, query))
            if decision.allowed:
                found.append(WhoCan(actor, decision.rule))
        stranger = rules.decide((_STRANGER, action, branch, target, query))
        return [*found, WhoCan("*", stranger.rule)] if stranger.allowed else found

    def _unmet(self, rule: PolicyRule, key: _Key) -> str | None:
        """Why the rule does not match; None when it does."""
        actor, action, branch, target, query = key
        implied = action == act.SCHEMA_READ and act.READ in rule.actions
        if action not in rule.actions and not implied:
            return f"it is not about {action}"
        groups = {name: who for b in self._rules.bundles for name, who in b.groups.items()}
        if rule.actors.group is not None and actor not in groups[rule.actors.group]:
            return f"{actor} is not in the group {rule.actors.group}"
        if rule.actors.actor is not None and actor != rule.actors.actor:
            return f"it is about {rule.actors.actor}"
        if rule.queries is not None and query not in rule.queries:
            return "it is about other queries"
        if branch != act.ANYWHERE:
            why = self._unmet_branch(rule.branch_scope, rule.branches, branch, "branch")
            if why is not None:
                return why
        return self._unmet_branch(
            rule.target_branch_scope, rule.target_branches, target, "target branch"
        )

    def _unmet_branch(
        self, scope: str | None, globs: tuple[str, ...] | None, branch: str | None, word: str
    ) -> str | None:
        if scope in (None, "any") and globs is None:
            return None
        if branch is None:
            return f"the request names no {word}"
        protected = self._rules.cedar.is_protected(branch)
        if scope == "protected" and not protected:
            return f"the {word} {branch} is not protected"
        if scope == "unprotected" and protected:
            return f"the {word} {branch} is protected"
        if globs is not None and not any(matches(glob, branch) for glob in globs):
            return f"the {word} {branch} matches none of {', '.join(globs)}"
        return None


PolicySource = Policy | str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""A policy, or the files that it is in."""

_STRANGER = "\N{NULL}"
"""An actor that no policy names."""


def _effect(rule: PolicyRule) -> str:
    if not rule.is_about_data:
        return f"it {rule.effect.value}s the request"
    return f"it {rule.effect.value}s a part of the data"


def _log(decision: PolicyDecision, query: str | None) -> None:
    fields = {
        "actor_id": decision.actor,
        "action": decision.action,
        "branch": decision.branch,
        "target_branch": decision.target_branch,
        "allowed": decision.allowed,
        "matched_rule_id": decision.rule,
    }
    if query is not None:
        fields["query"] = query
    logger.info("policy decision", extra={"fields": fields})


def read_bundles(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    kind: str = BundleKind.GRAPH,
) -> tuple[Bundle, ...]:
    """The bundles of files; raises `PolicyInvalid` for one that cannot be read."""
    paths = [files] if isinstance(files, str | os.PathLike) else list(files)
    found = []
    for path in paths:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            name = os.fspath(path)
            finding = FileFinding(
                "unreadable", Severity.ERROR, "", 1, 1, f"cannot be read: {error}"
            )
            raise invalid_policy([finding], name) from None
        found.append(read_bundle(text, os.fspath(path), kind))
    return tuple(found)


def _require_one_meaning(bundles: Sequence[Bundle]) -> None:
    """Refuse bundles that give one name two meanings."""
    kinds = {bundle.kind for bundle in bundles}
    if len(kinds) > 1:
        raise PolicyInvalid("rules of a graph and of the server are in one policy", diagnostics=[])
    rules: dict[str, str] = {}
    groups: dict[str, tuple[tuple[str, ...], str]] = {}
    for bundle in bundles:
        for rule in bundle.rules:
            if rule.id in rules:
                message = f"the bundle {rules[rule.id]} has a rule with this id, too"
                raise rule_problem(rule, DUPLICATE_RULE, "id", message)
            rules[rule.id] = bundle.file
        for name in cedar_ids(bundle):
            if name in rules:
                told = f"the id {name!r} is taken by a rule of {rules[name]}"
                finding = FileFinding(DUPLICATE_RULE, Severity.ERROR, "", 1, 1, told)
                raise invalid_policy([finding], bundle.file)
            rules[name] = bundle.file
        for name, members in bundle.groups.items():
            known = groups.setdefault(name, (members, bundle.file))
            if set(known[0]) != set(members):
                told = f"the group {name!r} has other members in {known[1]}"
                finding = FileFinding(
                    "duplicate_group", Severity.ERROR, f"groups.{name}", 1, 1, told
                )
                raise invalid_policy([finding], bundle.file)
