"""Decisions against the second evaluator, and what a policy says about them."""

from __future__ import annotations

import itertools
import json
import logging
import random

import pytest

from omnigraph import PolicyDenied, PolicyInvalid
from omnigraph.policy.bundle import read_bundle
from omnigraph.policy.policy import Policy
from omnigraph_testing.policy_reference import (
    ACTIONS,
    ACTORS,
    BRANCHES,
    QUERIES,
    Asked,
    expected,
    random_policy,
    random_request,
)

FIXED = {
    "version": 1,
    "groups": {"devs": ["ada", "ben"], "ops": ["cleo"]},
    "protected_branches": ["main", "release/*"],
    "rules": [
        {"id": "a-read", "allow": {"actors": {"group": "devs"}, "actions": ["read", "export"]}},
        {
            "id": "b-change",
            "allow": {
                "actors": {"group": "devs"},
                "actions": ["change"],
                "branch_scope": "unprotected",
            },
        },
        {
            "id": "c-protected",
            "allow": {
                "actors": {"actor": "cleo"},
                "actions": ["read", "change"],
                "branch_scope": "protected",
            },
        },
        {
            "id": "d-targets",
            "allow": {
                "actors": {"group": "ops"},
                "actions": ["schema_apply", "branch_create", "branch_delete", "branch_merge"],
                "target_branch_scope": "protected",
            },
        },
        {
            "id": "e-globs",
            "allow": {
                "actors": {"group": "devs"},
                "actions": ["branch_create", "branch_merge"],
                "target_branches": ["review/*"],
            },
        },
        {"id": "f-admin", "allow": {"actors": {"group": "ops"}, "actions": ["admin"]}},
        {
            "id": "g-queries",
            "allow": {
                "actors": {"group": "devs"},
                "actions": ["invoke_query"],
                "queries": ["friends"],
            },
        },
        {
            "id": "h-never",
            "deny": {
                "actors": {"actor": "ben"},
                "actions": ["export", "branch_merge"],
            },
        },
    ],
}


def policy_of(rules: dict) -> Policy:
    return Policy([read_bundle(json.dumps(rules), "rules.yaml")])


def check(rules: dict, policy: Policy, asked: Asked) -> None:
    request = (asked.actor, asked.action, asked.branch, asked.target, asked.query)
    allowed, rule = expected(rules, asked)
    for decision in (policy.decide(*request), policy.explain(*request)):
        assert (decision.allowed, decision.rule) == (allowed, rule), (asked, rules)
    explained = policy.explain(*request)
    matched = [each.rule for each in explained.considered if each.matched]
    if rule is not None:
        assert rule in matched
    assert policy.allows(*request) is allowed
    if allowed:
        policy.require(*request)
    else:
        with pytest.raises(PolicyDenied) as denied:
            policy.require(*request)
        told = denied.value
        assert (told.action, told.actor_id, told.rule) == (asked.action, asked.actor, rule)
        assert (told.branch, told.target_branch) == (asked.branch, asked.target)


def test_the_truth_table():
    policy = policy_of(FIXED)
    for actor, action, branch, target in itertools.product(ACTORS, ACTIONS, BRANCHES, BRANCHES):
        queries = (None, *QUERIES) if action == "invoke_query" else (None,)
        for query in queries:
            check(FIXED, policy, Asked(actor, action, branch, target, query))


@pytest.mark.parametrize("seed", range(60))
def test_random_rule_sets(seed):
    compare_random_rules(seed, requests=40)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_a_thousand_random_rule_sets(block):
    for seed in range(block * 100, (block + 1) * 100):
        compare_random_rules(10_000 + seed, requests=60)


def compare_random_rules(seed: int, requests: int) -> None:
    rng = random.Random(seed)
    rules = random_policy(rng)
    policy = policy_of(rules)
    for _ in range(requests):
        check(rules, policy, random_request(rng))
    for action in ACTIONS[:6]:
        can = {each.actor for each in policy.who_can(action, "main", "main")}
        for actor in policy.actors:
            assert (actor in can) == expected(rules, Asked(actor, action, "main", "main"))[0]


def test_somewhere_means_some_branch():
    policy = policy_of(FIXED)
    assert policy.decide("cleo", "read", "*").allowed
    assert not policy.decide("cleo", "read", None).allowed
    assert not policy.decide("zed", "read", "*").allowed
    assert policy.decide("cleo", "schema_read", "*").rule == "c-protected"


def test_no_actor_and_unknown_actors_are_refused_in_other_words():
    policy = policy_of(FIXED)
    assert "has no actor" in policy.decide(None, "read", "main").message
    assert "does not know this actor" in policy.decide("zed", "read", "main").message
    assert "no rule allows it" in policy.decide("ada", "admin").message
    assert "rule 'h-never' denies it" in policy.decide("ben", "export", "main").message


def test_every_decision_is_logged_with_its_rule(caplog):
    policy = policy_of(FIXED)
    with caplog.at_level(logging.INFO, "omnigraph.policy"):
        policy.decide("ada", "read", "main")
        policy.decide("ben", "branch_merge", "main", "release/1")
        policy.allows("ada", "read", "main")
    assert [record.fields for record in caplog.records] == [
        {
            "actor_id": "ada",
            "action": "read",
            "branch": "main",
            "target_branch": None,
            "allowed": True,
            "matched_rule_id": "a-read",
        },
        {
            "actor_id": "ben",
            "action": "branch_merge",
            "branch": "main",
            "target_branch": "release/1",
            "allowed": False,
            "matched_rule_id": "h-never",
        },
    ]


def test_other_rules_have_other_decisions():
    policy = policy_of(FIXED)
    assert policy.decide("ada", "read", "main").allowed
    less = {**FIXED, "rules": FIXED["rules"][1:]}
    policy.replace([read_bundle(json.dumps(less), "rules.yaml")])
    assert not policy.decide("ada", "read", "main").allowed


def test_a_cedar_file_beside_rules():
    text = """
@id("cedar-read")
permit(principal in Omnigraph::Group::"ops", action == Omnigraph::Action::"read", resource)
  when { context.has_branch && context.branch like "review/*" };
@id("cedar-never")
forbid(principal == Omnigraph::Actor::"ada", action, resource == Omnigraph::Graph::"people")
  when { context.branch_is_protected };
"""
    bundles = [
        read_bundle(json.dumps(FIXED), "rules.yaml"),
        read_bundle(text, "rules.cedar"),
    ]
    policy = Policy(bundles, "people")
    assert policy.decide("cleo", "read", "review/x").rule == "cedar-read"
    assert policy.decide("ada", "read", "main").rule == "cedar-never"
    assert policy.decide("ada", "read", "review/x").allowed
    assert Policy(bundles, "other").decide("ada", "read", "main").allowed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("permit(principal, action", "unexpected"),
        ('permit(principal, action == Omnigraph::Action::"raed", resource);', "raed"),
        ("permit(principal, action, resource) when { context.brunch };", "brunch"),
        ("permit(principal == ?principal, action, resource);", "template"),
    ],
)
def test_a_wrong_cedar_file_is_refused(text, said):
    with pytest.raises(PolicyInvalid) as caught:
        Policy([read_bundle(text, "rules.cedar")])
    assert said in str(caught.value)


def test_bundles_of_one_scope_are_merged():
    one = read_bundle(json.dumps(FIXED), "one.yaml")
    other = {
        "version": 1,
        "protected_branches": ["hot/*"],
        "rules": [{"id": "x", "allow": {"actors": {"actor": "zed"}, "actions": ["read"]}}],
    }
    policy = Policy([one, read_bundle(json.dumps(other), "two.yaml")])
    assert policy.decide("zed", "read", "main").rule == "x"
    assert not policy.decide("ada", "change", "hot/1").allowed
    with pytest.raises(PolicyInvalid, match="has a rule with this id, too") as clash:
        Policy([one, read_bundle(json.dumps(FIXED), "two.yaml")])
    assert clash.value.diagnostics[0]["code"] == "duplicate_rule"
    groups = {"version": 1, "groups": {"devs": ["zed"]}}
    with pytest.raises(PolicyInvalid, match="other members"):
        Policy([one, read_bundle(json.dumps(groups), "two.yaml")])
