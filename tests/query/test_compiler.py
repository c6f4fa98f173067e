from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from omnigraph.errors import InvalidArgument, NotFound, ParseError, TypeCheckError
from omnigraph.query import compiler
from omnigraph.query.compiler import clear_cache, compile_all, compile_query
from omnigraph.schema.build import catalog_from_text

FIXTURES = Path(__file__).parent.parent / "fixtures"
PEOPLE = catalog_from_text((FIXTURES / "people.pg").read_text(encoding="utf-8"))
TWO = """
query a($n: String) @description("who") @instruction("ask") {
  match { $p: Person { name: $n }  optional { $p worksAt $c } }
  return { $p, $p.status, $c.name as company, count($c) as n, collect($p.tags) as t }
}
query b() { match { $p: Person } return { $p.name, $p.bio_vec, $p.tags } }
"""
TWO = TWO.replace(", collect($p.tags) as t", "")


def test_the_only_query_needs_no_name() -> None:
    assert compile_query("query q() { delete City where true }", PEOPLE).name == "q"


def test_several_queries_need_a_name() -> None:
    with pytest.raises(InvalidArgument, match="2 queries, name the one to run: a, b"):
        compile_query(TWO, PEOPLE)
    with pytest.raises(InvalidArgument, match="no query"):
        compile_query("// nothing", PEOPLE)
    with pytest.raises(NotFound, match="did you mean 'a'"):
        compile_query(TWO, PEOPLE, "aa")
    assert compile_query(TWO, PEOPLE, "b").name == "b"


def test_other_queries_of_the_text_need_not_fit() -> None:
    text = "query a() { match { $x: Nope } return { $x } } query b() { delete City where true }"
    assert compile_query(text, PEOPLE, "b").name == "b"
    with pytest.raises(TypeCheckError):
        compile_query(text, PEOPLE, "a")
    with pytest.raises(TypeCheckError):
        compile_all(text, PEOPLE)


def test_descriptor() -> None:
    operation = compile_query(TWO, PEOPLE, "a").operation.to_dict()
    assert operation == {
        "name": "a",
        "kind": "read",
        "description": "who",
        "instruction": "ask",
        "parameters": [{"name": "n", "type": "String", "optional": False}],
        "fields": [
            {"name": "p", "kind": "node", "type": "Person", "nullable": False},
            {
                "name": "p.status",
                "kind": "enum",
                "type": "enum(active, left, on-leave)",
                "nullable": False,
            },
            {"name": "company", "kind": "scalar", "type": "String", "nullable": True},
            {"name": "n", "kind": "scalar", "type": "I64", "nullable": False},
        ],
        "reads": ["edge:WorksAt", "node:Company", "node:Person"],
        "writes": [],
    }
    kinds = [f.kind for f in compile_query(TWO, PEOPLE, "b").operation.fields]
    assert kinds == ["scalar", "vector", "list"]


def test_equal_text_and_schema_compile_once() -> None:
    clear_cache()
    text = "query q() { match { $p: Person } return { $p.name } }"
    first = compile_query(text, PEOPLE)
    same_schema = catalog_from_text((FIXTURES / "people.pg").read_text(encoding="utf-8"))
    assert compile_query(text, same_schema) is first
    other = catalog_from_text("node Person { name: String? }")
    assert compile_query(text, other) is not first
    assert compile_query(text, other).operation.fields[0].nullable


def test_the_cache_is_bounded() -> None:
    clear_cache()
    compiled = compile_query("query q() { delete City where true }", PEOPLE)
    for number in range(compiler.CACHE_ENTRIES + 20):
        compiler._cache.put(("schema", str(number), None), compiled)
    compile_query("query r() { delete City where true }", PEOPLE)
    assert len(compiler._cache) == compiler.CACHE_ENTRIES
    clear_cache()


def test_threads_share_the_compiler() -> None:
    clear_cache()
    texts = [
        f"query q() {{ match {{ $p: Person $p.age = {n % 7} }} return {{ $p.name }} }}"
        for n in range(60)
    ]
    plans: dict[int, str] = {}

    def work(number: int) -> None:
        plans[number] = compile_query(texts[number], PEOPLE).text()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(f"($p#0.age = {n % 7})" in plans[n] for n in range(60))


def test_errors_name_the_file() -> None:
    with pytest.raises(ParseError, match=r"^people\.gq:1:7: "):
        compile_query("query (", PEOPLE, file="people.gq")


def test_the_compiler_needs_no_storage_and_no_arrow() -> None:
    code = (
        "import sys, omnigraph.query.compiler, omnigraph.schema.build, omnigraph.schema.evolve;"
        "bad = {'lance', 'pyspark', 'pyarrow', 'obstore', 'typer', 'rich'} & set(sys.modules);"
        "sys.exit(str(bad) if bad else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


BODIES = [
    "match { $p: Person } return { $p.name } order { $p.name desc } limit 3",
    'match { $p: Person { name: "x" } optional { $p worksAt $c } } return distinct { $c.name }',
    'insert City { title: "Rome" }\ninsert City { title: "Bern" } on match skip',
    'update City set { title: "Rom" } where title = "Rome"',
    "delete City where true",
    "match { $p: Person  not { $p worksAt $_ } } delete $p",
]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("before", ["", "// a note\n", " \n\t/* two\nlines */ "])
def test_one_query_needs_no_declaration(body: str, before: str) -> None:
    bare = compile_query(before + body, PEOPLE)
    declared = compile_query(f"query ad_hoc() {{ {body} }}", PEOPLE)
    assert bare == declared


def test_errors_of_a_bare_text_name_places_in_it() -> None:
    with pytest.raises(TypeCheckError) as e:
        compile_query("match { $p: Person }\nreturn { $p.nam }", PEOPLE, file="-e")
    assert "-e:2:13: error T6: Person has no property 'nam'" in e.value.message
    assert "2 | return { $p.nam }" in e.value.message
    for text, place, found in [
        ("match { $p: Person } return { $p.name } }", (1, 41), "unexpected '}'"),
        ("match { $p: Person", (1, 19), "unexpected end of the text"),
        ("match { $p: Person }\n\n  retrun { $p }", (3, 3), "did you mean 'return'"),
        ('delete City where name = "x', (1, 26), "never closed"),
    ]:
        with pytest.raises(ParseError) as wrong:
            compile_query(text, PEOPLE)
        first = wrong.value.diagnostics[0]
        assert (first["line"], first["column"]) == place, text
        assert found in wrong.value.message


def test_a_bare_text_is_one_query_without_parameters() -> None:
    with pytest.raises(NotFound, match="there is no query 'x'"):
        compile_query(BODIES[0], PEOPLE, "x")
    with pytest.raises(TypeCheckError, match=r"\$n is not bound"):
        compile_query("match { $p: Person { name: $n } } return { $p.name }", PEOPLE)
    with pytest.raises(ParseError, match="unexpected 'match'"):
        compile_query(f"{BODIES[0]} {BODIES[0]}", PEOPLE)
    with pytest.raises(ParseError, match="expected 'query'"):
        compile_all(BODIES[0], PEOPLE)
