"""`cluster.yaml`: every validation code, with its place; digests see meaning and not form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnigraph.cluster import commands
from omnigraph_testing.cluster_kit import BY_NAME, PEOPLE, POLICY, call, codes, declare, write

GRAPH = "graphs:\n  people: {schema: people.pg}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(
        tmp_path,
        people_pg=PEOPLE,
        people_gq=BY_NAME,
        twice_gq=BY_NAME,
        broken_gq="query nothing( {",
        wrong_gq="query wrong() { match { $p: Nobody } return { $p.name } }",
        broken_pg="node {",
        wrong_pg="node A { x: Nothing }",
        policy_yaml=POLICY,
        second_yaml=POLICY,
        bad_yaml="version: 1\nrule: []\n",
    )
    (tmp_path / "empty").mkdir()
    return tmp_path


def provider(text: str) -> str:
    return f"providers:\n  embedding:\n    p: {text}\n{GRAPH}"


def graph(text: str) -> str:
    return f"graphs:\n  people: {{schema: people.pg, {text}}}"


def policies(text: str) -> str:
    return f"{GRAPH}\npolicies:\n  {text}"


MOCK = "providers: {embedding: {p: {kind: mock}}}\n"
CASES = {
    "unsupported_cluster_config_version": ("graphs: {}", 1),
    "duplicate_yaml_key": ("version: 1\nversion: 1", 2),
    "invalid_cluster_yaml": ("version: 1\ngraf: {}", 2),
    "empty_metadata_name": ('version: 1\nmetadata: {name: ""}', 2),
    "unsupported_state_backend": ("version: 1\nstate: {backend: postgres}", 2),
    "state_lock_disabled": ("version: 1\nstate: {lock: false}", 2),
    "invalid_storage_root": ("version: 1\nstorage: s3://", 2),
    "future_phase_field": ("version: 1\nui: {}", 2),
    "invalid_embedding_provider": ("version: 1\n" + provider("{kind: cohere, api_key: '${K}'}"), 4),
    "embedding_api_key_inline": (f"version: 1\n{provider('{api_key: sk-123}')}", 4),
    "embedding_api_key_required": (f"version: 1\n{provider('{model: m}')}", 4),
    "invalid_resource_id": ("version: 1\ngraphs:\n  my_graph: {schema: people.pg}", 3),
    "dangling_embedding_provider_reference": (
        f"version: 1\n{MOCK}{graph('embedding_provider: q')}",
        4,
    ),
    "wrong_kind_reference": (f"version: 1\n{MOCK}{graph('embedding_provider: policy.p')}", 4),
    "schema_file_missing": ("version: 1\ngraphs: {people: {schema: gone.pg}}", None),
    "schema_parse_error": ("version: 1\ngraphs: {people: {schema: broken.pg}}", 1),
    "schema_catalog_error": ("version: 1\ngraphs: {people: {schema: wrong.pg}}", 1),
    "query_file_missing": (f"version: 1\n{graph('queries: gone.gq')}", None),
    "query_dir_empty": (f"version: 1\n{graph('queries: empty')}", None),
    "query_parse_error": (f"version: 1\n{graph('queries: broken.gq')}", 1),
    "duplicate_query_name": (f"version: 1\n{graph('queries: [people.gq, twice.gq]')}", None),
    "query_key_mismatch": (f"version: 1\n{graph('queries: {other: {file: people.gq}}')}", None),
    "query_typecheck_error": (f"version: 1\n{graph('queries: wrong.gq')}", 1),
    "query_typecheck_skipped": (
        "version: 1\ngraphs: {people: {schema: wrong.pg, queries: people.gq}}",
        None,
    ),
    "policy_file_missing": (f"version: 1\n{policies('p: {file: no, applies_to: [people]}')}", None),
    "policy_invalid": (f"version: 1\n{policies('p: {file: bad.yaml, applies_to: [people]}')}", 2),
    "policy_missing_applies_to": (f"version: 1\n{policies('p: {file: policy.yaml}')}", 5),
    "policy_mixed_binding_kinds": (
        f"version: 1\n{policies('p: {file: policy.yaml, applies_to: [cluster, people]}')}",
        5,
    ),
    "duplicate_policy_binding": (
        f"version: 1\n{policies('p: {file: policy.yaml, applies_to: [people]}')}\n"
        "  q: {file: second.yaml, applies_to: [graph.people]}",
        4,
    ),
    "dangling_graph_reference": (
        f"version: 1\n{policies('p: {file: policy.yaml, applies_to: [peple]}')}",
        5,
    ),
    "invalid_external_blob_base": (
        f"version: 1\n{graph('external_blobs: {allow: [{base: x/../y, scope: embedded_only}]}')}",
        3,
    ),
    "invalid_external_blob_policy": (
        "version: 1\n"
        + graph('external_blobs: {allow: [{base: "file:///data", scope: server_safe}]}'),
        3,
    ),
    "seed_file_missing": (f"version: 1\n{graph('data: {seed: [gone.ndjson]}')}", None),
}
WARNINGS = {"state_lock_disabled", "query_dir_empty", "query_typecheck_skipped"}


@pytest.mark.parametrize("code", CASES)
def test_every_mistake_has_its_code_and_place(folder: Path, code: str) -> None:
    text, line = CASES[code]
    write(folder, cluster_yaml=text + "\n")
    report = commands.validate(call(folder))
    found = [each for each in report.diagnostics if each.code == code]
    assert found, [str(each) for each in report.diagnostics]
    assert found[0].line == line
    assert found[0].severity == ("warning" if code in WARNINGS else "error")
    assert report.ok is (not any(each.severity == "error" for each in report.diagnostics))
    assert {"code", "severity", "path", "message"} <= found[0].to_dict().keys()


def test_an_api_key_in_the_file_is_not_repeated(folder: Path) -> None:
    write(folder, cluster_yaml=f"version: 1\n{provider('{api_key: sk-123}')}\n")
    assert "sk-123" not in str(commands.validate(call(folder)).to_dict())


def test_blobs_by_address_are_denied_by_default(folder: Path) -> None:
    write(folder, blobs_pg="node Doc {\n  name: String @key\n  body: Blob?\n}\n")
    declare(folder, "graphs: {docs: {schema: blobs.pg}}")
    report = commands.validate(call(folder))
    assert codes(report) == ["external_blob_ingress_default_deny"]
    assert report.ok


def test_a_directory_of_queries_that_cannot_be_listed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, cluster_yaml=f"version: 1\n{graph('queries: empty')}\n")

    def refuse(self: Path) -> None:
        raise PermissionError(13, "no access")

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert codes(commands.validate(call(folder))) == ["query_dir_unreadable"]


def test_a_missing_directory_and_a_missing_file(tmp_path: Path) -> None:
    assert codes(commands.validate(call(tmp_path / "no"))) == ["config_dir_not_found"]
    assert codes(commands.validate(call(tmp_path))) == ["cluster_config_read_error"]


def test_json_is_read_and_form_does_not_matter(folder: Path) -> None:
    whole = {
        "version": 1,
        "metadata": {"name": "demo"},
        "providers": {"embedding": {"p": {"provider": "mock", "model": "m"}}},
        "graphs": {
            "people": {
                "schema": "people.pg",
                "queries": {"by_name": {"file": "people.gq", "expose": False, "tool_name": "find"}},
                "embedding_provider": "provider.embedding.p",
                "external_blobs": {"allow": [{"base": "s3://b/x", "scope": "server_safe"}]},
                "schema_migration": {"allow_data_loss": "never", "backfill": {"Person.age": 1}},
            },
            "docs": {"schema": "people.pg"},
        },
        "policies": {"p": {"file": "policy.yaml", "applies_to": ["graph.people", "docs"]}},
        "approvals": {"required": 2, "distinct": True},
    }
    (folder / "cluster.json").write_text(json.dumps(whole, indent="\t"))
    first = commands.plan(call(folder), commands.ApplyTerms())
    assert first.ok, codes(first)
    (folder / "cluster.json").write_text(json.dumps(dict(reversed(whole.items()))))
    second = commands.plan(call(folder), commands.ApplyTerms())
    assert first.body["desired_revision"] == second.body["desired_revision"]
    whole["metadata"] = {"name": "other"}
    (folder / "cluster.json").write_text(json.dumps(whole))
    third = commands.plan(call(folder), commands.ApplyTerms())
    assert first.body["desired_revision"] != third.body["desired_revision"]
    needs = {(each["from"], each["to"]) for each in first.body["dependencies"]}
    assert needs == {
        ("schema.people", "graph.people"),
        ("schema.docs", "graph.docs"),
        ("query.people.by_name", "graph.people"),
        ("query.people.by_name", "schema.people"),
        ("policy.p", "graph.people"),
        ("policy.p", "graph.docs"),
        ("graph.people", "provider.embedding.p"),
    }


def test_variables_in_the_storage_root(folder: Path) -> None:
    declare(folder, GRAPH, storage='"${PLACE}/root/"')
    assert codes(commands.validate(call(folder, environment={}))) == ["invalid_storage_root"]
    found = commands.status(call(folder, environment={"PLACE": str(folder / "there")}))
    assert found.body["state_observations"]["state_path"].startswith(f"{folder}/there/root/")
