"""Policy files: what they may say, and every mistake with its place."""

from __future__ import annotations

import pytest

from omnigraph.errors import PolicyInvalid
from omnigraph.policy.bundle import Bundle, BundleKind, Effect, read_bundle

WHOLE = """
version: 1
groups:
  devs: [ada, ben]
  team: [cleo]
protected_branches: [main, release/*]
rules:
  - id: devs-read
    allow:
      actors: {group: devs}
      actions: [read, export]
      branch_scope: any
  - id: devs-change
    allow:
      actors: {group: devs}
      actions: [change]
      branch_scope: unprotected
      branches: [review/**, "feature/*"]
  - id: merges
    allow:
      actors: {actor: cleo}
      actions: [branch_merge, branch_create]
      target_branch_scope: protected
      target_branches: [main]
  - id: ask
    allow:
      actors: {any: true}
      actions: [invoke_query]
      queries: [friends, people]
  - id: cleo-rows
    allow:
      actors: {group: team}
      actions: [read]
      types: [Person, Knows]
      properties: {Person: [name, age]}
      where: {Person: "name = $actor"}
  - id: never
    deny:
      actors: {any: true}
      actions: [branch_delete]
      target_branches: ["release/*"]
"""


def mistakes(text: str, kind: str = "graph") -> list[dict]:
    with pytest.raises(PolicyInvalid) as caught:
        read_bundle(text, "rules.yaml", kind)
    return list(caught.value.diagnostics)


def test_a_bundle_with_every_part():
    bundle = read_bundle(WHOLE, "rules.yaml", "graph")
    assert isinstance(bundle, Bundle)
    assert bundle.actors == ("ada", "ben", "cleo")
    assert [rule.id for rule in bundle.rules] == [
        "devs-read",
        "devs-change",
        "merges",
        "ask",
        "cleo-rows",
        "never",
    ]
    rows = bundle.rules[4]
    assert rows.where == {"Person": "name = $actor"}
    assert rows.properties == {"Person": ("name", "age")}
    assert rows.types == ("Person", "Knows")
    assert (rows.line, rows.effect) == (30, Effect.ALLOW)
    assert bundle.rules[5].effect is Effect.DENY
    assert bundle.warnings == ()


def test_a_cedar_file_keeps_its_text():
    bundle = read_bundle("permit(principal, action, resource);", "rules.cedar", "server")
    assert bundle.cedar == "permit(principal, action, resource);"
    assert bundle.kind is BundleKind.SERVER


@pytest.mark.parametrize(
    ("old", "new", "path", "line"),
    [
        ("version: 1", "versions: 1", "versions", 2),
        ("groups:", "group:", "group", 3),
        ("protected_branches:", "protected_branch:", "protected_branch", 6),
        ("  - id: devs-read\n", "  - id: devs-read\n    note: x\n", "rules[0].note", 9),
        ("    allow:\n", "    allows:\n", "rules[0].allows", 9),
        ("      actions: [read, export]\n", "      action: [read]\n", "rules[0].allow.action", 11),
        ("{group: devs}", "{groups: devs}", "rules[0].allow.actors.groups", 10),
        ("      branch_scope: any", "      branch_scopes: any", "rules[0].allow.branch_scopes", 12),
    ],
)
def test_a_typo_at_each_level_is_refused_with_its_place(old, new, path, line):
    found = mistakes(WHOLE.replace(old, new, 1))
    (typo,) = [each for each in found if each["code"] == "unknown_key"]
    assert (typo["path"], typo["line"], typo["severity"]) == (path, line, "error")
    assert typo["column"] > 0
    assert "did you mean" in typo["message"] or "known here" in typo["message"]


RULE = """
version: 1
groups: {{devs: [ada]}}
rules:
  - id: one
    {effect}:
      actors: {actors}
      actions: {actions}
{parts}
"""


def rule(parts: str = "", actions: str = "[read]", actors: str = "{group: devs}") -> str:
    indented = "\n".join(f"      {line}" for line in parts.splitlines())
    return RULE.format(effect="allow", actors=actors, actions=actions, parts=indented)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("groups: {}", "missing_key", "`version`"),
        ("version: 2", "wrong_value", "must be 1"),
        ("version: true", "wrong_value", "must be 1"),
        ("version: 1\nversion: 1", "duplicate_key", "twice"),
        ("version: 1\n  x: [", "syntax", ""),
        ("", "wrong_value", "pairs"),
        ("[]", "wrong_value", "pairs"),
        ("version: 1\ngroups: {devs: []}", "wrong_value", "empty list"),
        ("version: 1\ngroups: {devs: [' ']}", "wrong_value", "blank"),
        ("version: 1\ngroups: {devs: [ada, ada]}", "wrong_value", "twice"),
        ("version: 1\ngroups: {devs: [42]}", "wrong_value", "must be a text"),
        ("version: 1\ngroups: {' ': [ada]}", "wrong_value", "name of a group"),
        ("version: 1\ngroups: {1: [ada]}", "wrong_value", "keys are texts"),
        ("version: 1\nprotected_branches: ['a b']", "wrong_value", "no name or pattern"),
        ("version: 1\nprotected_branches: [' main ']", "wrong_value", "blanks around"),
        ("version: 1\nrules: [{id: a}]", "missing_key", "exactly one of `allow`, `deny`"),
        ("version: 1\nrules: [{id: ' ', allow: {}}]", "wrong_value", "blank"),
        (rule(actors="{group: ops}"), "unknown_group", "'ops'"),
        (rule(actors="{group: devs, any: true}"), "missing_key", "exactly one"),
        (rule(actors="{}"), "missing_key", "exactly one"),
        (rule(actors="{any: false}"), "wrong_value", "must be true"),
        (rule(actors="devs"), "wrong_value", "pairs"),
        (rule(actions="[]"), "wrong_value", "empty list"),
        (rule(actions="read"), "wrong_value", "must be a list"),
        (rule(actions="[raed]"), "unknown_action", "did you mean 'read'"),
        (rule(actions="[read, read]"), "wrong_value", "twice"),
        (rule(actions="[graph_list]"), "wrong_action", "server bundle"),
        (rule("branch_scope: all"), "wrong_value", "must be one of"),
        (rule("branch_scope: any", actions="[branch_create]"), "wrong_action", "goes only with"),
        (rule("branch_scope: any", actions="[read, admin]"), "wrong_action", "admin"),
        (rule("target_branch_scope: any"), "wrong_action", "goes only with"),
        (rule("target_branches: [main]", actions="[invoke_query]"), "wrong_action", "goes only"),
        (rule("branch_scope: any\ntarget_branch_scope: any"), "wrong_value", "beside"),
        (rule("queries: [a]"), "wrong_action", "invoke_query"),
        (rule("queries: []", actions="[invoke_query]"), "wrong_value", "empty list"),
        (rule("types: [Person]", actions="[branch_merge]"), "wrong_action", "goes only with"),
        (rule("types: []"), "wrong_value", "empty list"),
        (rule("types: [Person]\nwhere: {Doc: 'a = 1'}"), "wrong_value", "leaves out"),
        (rule("types: [Person]\nproperties: {Doc: [a]}"), "wrong_value", "leaves out"),
        (rule("where: {Person: 1}"), "wrong_value", "must be a text"),
        (rule("where: {}"), "wrong_value", "empty"),
        (rule("properties: {Person: name}"), "wrong_value", "must be a list"),
    ],
)
def test_a_wrong_value_is_refused(text, code, said):
    found = mistakes(text)
    assert any(each["code"] == code and said in each["message"] for each in found), found
    assert all(each["line"] >= 1 and each["column"] >= 1 for each in found)


def test_rule_ids_are_unique_in_a_file():
    twice = WHOLE.replace("id: devs-change", "id: devs-read")
    (found,) = mistakes(twice)
    assert (found["code"], found["path"]) == ("duplicate_rule", "rules[1]")


def test_a_server_bundle_has_only_rules_about_the_server():
    text = """
version: 1
groups: {ops: [olga]}
rules:
  - id: list
    allow: {actors: {group: ops}, actions: [graph_list, admin, config_manage]}
"""
    assert read_bundle(text, "server.yaml", "server").rules[0].actions[0] == "graph_list"
    (found,) = mistakes(text.replace("config_manage", "read"), "server")
    assert found["code"] == "wrong_action"
    assert "graph bundle" in found["message"]


def test_all_mistakes_come_at_once_in_the_order_of_the_file():
    text = WHOLE.replace("version: 1", "version: 3").replace("queries:", "querys:")
    text = text.replace("actions: [branch_delete]", "actions: [branch_delet]")
    found = mistakes(text)
    assert [each["line"] for each in found] == sorted(each["line"] for each in found)
    assert len(found) == 3


def test_a_group_that_no_rule_names_is_a_warning():
    bundle = read_bundle("version: 1\ngroups: {devs: [ada]}", "rules.yaml", "graph")
    (warning,) = bundle.warnings
    assert warning.to_dict()["severity"] == "warning"
    assert (warning.path, warning.line) == ("groups.devs", 2)
