"""A second evaluator of policies, written from the contract, and random rule sets.

It works on the plain data of a YAML file and knows nothing of Cedar, bundles or caches.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

ACTORS = ("ada", "ben", "cleo", "zed")
"""`zed` is in no group."""
BRANCHES = (None, "main", "release/1", "review/x")
DATA = ("read", "export", "change")
BRANCHED = (*DATA, "schema_read")
TARGETED = ("schema_apply", "branch_create", "branch_delete", "branch_merge")
GRAPH_WIDE = ("admin", "invoke_query")
ACTIONS = (*BRANCHED, *TARGETED, *GRAPH_WIDE)
QUERIES = ("friends", "people")


@dataclass(frozen=True, slots=True)
class Asked:
    """One request."""

    actor: str
    action: str
    branch: str | None = None
    target: str | None = None
    query: str | None = None


def expected(policy: dict[str, Any], asked: Asked) -> tuple[bool, str | None]:
    """Whether the request is allowed, and the first rule by id that says so."""
    if not _is_known(policy, asked.actor):
        return False, None
    denies = _matching(policy, asked, "deny")
    if denies:
        return False, min(denies)
    allows = _matching(policy, asked, "allow")
    if allows:
        return True, min(allows)
    if asked.action == "schema_read":
        return expected(policy, Asked(asked.actor, "read", asked.branch))
    return False, None


def _is_known(policy: dict[str, Any], actor: str) -> bool:
    if any(actor in members for members in policy["groups"].values()):
        return True
    for rule in policy["rules"]:
        about = (rule.get("allow") or rule["deny"])["actors"]
        if about.get("any") or about.get("actor") == actor:
            return True
    return False


def _matching(policy: dict[str, Any], asked: Asked, effect: str) -> list[str]:
    found = []
    for rule in policy["rules"]:
        terms = rule.get(effect)
        if terms is None or (effect == "deny" and is_about_data(terms)):
            continue
        if holds(policy, terms, asked):
            found.append(rule["id"])
    return found


def is_about_data(terms: dict[str, Any]) -> bool:
    return any(key in terms for key in ("types", "properties", "where"))


def holds(policy: dict[str, Any], terms: dict[str, Any], asked: Asked) -> bool:
    who = terms["actors"]
    in_group = "group" in who and asked.actor in policy["groups"][who["group"]]
    if not (in_group or who.get("actor") == asked.actor or who.get("any")):
        return False
    if asked.action not in terms["actions"]:
        return False
    if "queries" in terms and asked.query not in terms["queries"]:
        return False
    protected = policy.get("protected_branches", [])
    return _place(
        terms.get("branch_scope"), terms.get("branches"), asked.branch, protected
    ) and _place(
        terms.get("target_branch_scope"), terms.get("target_branches"), asked.target, protected
    )


def _place(
    scope: str | None, globs: list[str] | None, branch: str | None, protected: list[str]
) -> bool:
    if scope in ("protected", "unprotected"):
        if branch is None:
            return False
        if any(glob_matches(glob, branch) for glob in protected) != (scope == "protected"):
            return False
    if globs is None:
        return True
    return branch is not None and any(glob_matches(glob, branch) for glob in globs)


def glob_matches(glob: str, name: str) -> bool:
    """`*` stands for letters of one segment, `**` for any."""
    if not glob:
        return not name
    if glob.startswith("**"):
        return any(glob_matches(glob[2:], name[i:]) for i in range(len(name) + 1))
    if glob.startswith("*"):
        segment = name.partition("/")[0]
        return any(glob_matches(glob[1:], name[i:]) for i in range(len(segment) + 1))
    return bool(name) and glob[0] == name[0] and glob_matches(glob[1:], name[1:])


def random_policy(rng: random.Random) -> dict[str, Any]:
    """A policy of a few rules about the branches and actors of this module."""
    return {
        "version": 1,
        "groups": {"devs": ["ada", "ben"], "ops": ["cleo", "ada"]},
        "protected_branches": rng.choice([["main"], ["main", "release/*"], ["**"], []]) or ["main"],
        "rules": [_random_rule(rng, number) for number in range(rng.randint(1, 7))],
    }


def _random_rule(rng: random.Random, number: int) -> dict[str, Any]:
    kind = rng.choice((BRANCHED, TARGETED, GRAPH_WIDE, ACTIONS))
    actions = rng.sample(kind, rng.randint(1, len(kind)))
    terms: dict[str, Any] = {
        "actors": rng.choice(
            [{"group": "devs"}, {"group": "ops"}, {"actor": rng.choice(ACTORS)}, {"any": True}]
        ),
        "actions": actions,
    }
    prefix = "" if kind is BRANCHED else "target_" if kind is TARGETED else None
    if prefix is not None and rng.random() < 0.6:
        terms[f"{prefix}branch_scope"] = rng.choice(["any", "protected", "unprotected"])
    if prefix is not None and rng.random() < 0.4:
        terms[f"{prefix}branches"] = rng.sample(
            ["main", "release/*", "review/**", "*", "**", "r*/?".replace("?", "*")],
            rng.randint(1, 2),
        )
    if actions == ["invoke_query"] and rng.random() < 0.5:
        terms["queries"] = [rng.choice(QUERIES)]
    effect = "deny" if rng.random() < 0.25 else "allow"
    return {"id": f"r{rng.randint(0, 9)}-{number}", effect: terms}


def random_request(rng: random.Random) -> Asked:
    action = rng.choice(ACTIONS)
    return Asked(
        rng.choice(ACTORS),
        action,
        rng.choice(BRANCHES),
        rng.choice(BRANCHES),
        rng.choice((None, *QUERIES)) if action == "invoke_query" else None,
    )
