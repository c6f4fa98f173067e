"""Wrong input of every kind: a message that names the trouble, an exit code, an untouched graph."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import omnigraph
from omnigraph import Edit, Graph

SCHEMA = """node Person {
  name: String @key
  age: I32?
  kind: enum(a, b)?
  vec: Vector(2)?
  @range(age, 0..150)
}
node Note { text: String  photo: Blob? }
edge Knows: Person -> Person { since: Date? }
"""
GOOD = "query q($n: String) { match { $p: Person { name: $n } } return { $p.age } }"
TWO = """query one() { match { $p: Person } return { $p.name } }
query two($n: I32, $v: Vector(2), $l: [String], $d: Date, $b: Bool) {
  match { $p: Person  $p.age > $n } return { $p.name }
}
"""


class Case(NamedTuple):
    """Words of a command (`{g}` the graph, `{d}` a directory) and a part of its message."""

    words: str
    message: str
    code: int = 1
    stdin: str | None = None


FILES = {
    "good.gq": GOOD,
    "two.gq": TWO,
    "empty.gq": "",
    "blank.gq": "  \n// nothing\n",
    "syntax.gq": "query q() {\n  match { $p: Person }\n  retrun { $p }\n}\n",
    "type.gq": "query q() {\n  match { $p: Persn }\n  return { $p }\n}\n",
    "property.gq": "query q() {\n  match { $p: Person }\n  return { $p.nme }\n}\n",
    "operand.gq": 'query q() {\n  match { $p: Person  $p.age > "x" }\n  return { $p }\n}\n',
    "unbound.gq": "query q() {\n  match { $p: Person }\n  return { $z.name }\n}\n",
    "nolimit.gq": "query q($v: Vector(2)) {\n  match { $p: Person }\n  return { $p.name }\n"
    "  order { nearest($p.vec, $v) }\n}\n",
    "write.gq": 'query q() { insert Person { name: "Eve" } }',
    "mixed.gq": 'query q() {\n  insert Person { name: "E" }\n  delete Person where name = "A"\n}\n',
    "good.pg": SCHEMA,
    "empty.pg": "node {",
    "syntax.pg": "node Person {\n  name String\n}\n",
    "type.pg": "node Person {\n  name: Strng\n}\n",
    "reserved.pg": "node Person {\n  id: String\n}\n",
    "endpoint.pg": "node A { x: I32 }\nedge E: A -> B\n",
    "twice.pg": "node A { x: I32 }\nnode A { y: I32 }\n",
    "params.json": '{"n": 1',
    "list.json": "[1]",
    "file.omni": "I am a file",
}

GOOD_LINE = '{"type":"Person","data":{"name":"New"}}'
BAD_LINES = {
    "json": ('{"type":"Person"', ":2: "),
    "array": ("[1]", ":2: "),
    "unknown_type": ('{"type":"Nope","data":{}}', "Nope"),
    "no_type": ('{"data":{"name":"X"}}', ":2: "),
    "unknown_property": ('{"type":"Person","data":{"name":"X","nme":1}}', "nme"),
    "missing_key": ('{"type":"Person","data":{"age":1}}', "name"),
    "null_key": ('{"type":"Person","data":{"name":null}}', "name"),
    "wrong_type": ('{"type":"Person","data":{"name":"X","age":"old"}}', "age"),
    "fraction": ('{"type":"Person","data":{"name":"X","age":1.5}}', "age"),
    "too_large": ('{"type":"Person","data":{"name":"X","age":99999999999}}', "age"),
    "range": ('{"type":"Person","data":{"name":"X","age":200}}', "age"),
    "enum": ('{"type":"Person","data":{"name":"X","kind":"c"}}', "kind"),
    "width": ('{"type":"Person","data":{"name":"X","vec":[1]}}', "vec"),
    "not_finite": ('{"type":"Person","data":{"name":"X","vec":[1,NaN]}}', ":2: "),
    "twice": ('{"type":"Person","data":{"name":"New"}}', "New"),
    "wrong_id": ('{"type":"Person","data":{"id":"Y","name":"X"}}', "id"),
    "no_target": ('{"edge":"Knows","from":"A","to":"Z"}', "'Z'"),
    "no_end": ('{"edge":"Knows","from":"A"}', "required"),
    "date": ('{"edge":"Knows","from":"A","to":"B","data":{"since":"2020-02-31"}}', "since"),
    "uri_blob": ('{"type":"Note","data":{"text":"x","photo":"http://x/y"}}', "photo"),
    "base64": ('{"type":"Note","data":{"text":"x","photo":"base64:!"}}', "photo"),
}
FILES |= {f"{name}.ndjson": f"{GOOD_LINE}\n{line}\n" for name, (line, _) in BAD_LINES.items()}
FILES |= {
    "p.ndjson": GOOD_LINE,
    "exists.ndjson": GOOD_LINE + '\n{"type":"Person","data":{"name":"A"}}\n',
    "Person.csv": "name,age\nX,1\nY,old\n",
    "staff.csv": "name\nX\n",
    "broken.parquet": "PAR1 or not",
}

BAD_MUTATIONS = {
    'insert Nope { name: "X" }': "error T10",
    'insert Person { nme: "X" }': "error T11",
    "insert Person { age: 1 }": "error T12",
    'insert Person { name: "X", name: "Y" }': "error T13",
    'insert Person { name: "X", age: "old" }': "-e:1:",
    'insert Person { name: "X", age: 200 }': "age",
    'insert Person { name: "X", kind: "c" }': "kind",
    'insert Person { name: "X", vec: [1.0] }': "vec",
    'insert Person { name: "" }  insert Knows { from: "A", to: "Z" }': "'Z'",
    'insert Knows { from: "A" }': "error T12",
    'update Person set { name: "X" } where name = "A"': "-e:1:",
    'update Person set { age: 1 } where nme = "A"': "-e:1:",
    'update Person set { age: 200 } where name = "A"': "age",
    'update Person set { } where name = "A"': "-e:1:",
    "delete Nope where name = 1": "-e:1:",
    "delete Person where name = 1": "-e:1:",
    'delete Person where name = "A"  insert Person { name: "X" }': "-e:1:",
}

MUTATE = "mutate --store {g} "
QUERY = "query --store {g} "
CASES = [
    # addresses
    Case("query -q {d}/good.gq -p n=A --store {d}/nowhere", "no graph at"),
    Case("query -q {d}/good.gq -p n=A --store {d}/file.omni", "is a file"),
    Case("query -q {d}/good.gq -p n=A --store {d}/file.omni/x", "is a file"),
    Case("query -q {d}/good.gq -p n=A --store {d}", "no graph at"),
    Case("query -q {d}/good.gq -p n=A --store ''", "no address given", 2),
    Case("query -q {d}/good.gq -p n=A --store ftp://host/x", "ftp://host/x"),
    Case("query -q {d}/good.gq -p n=A --store s3://", "names no bucket"),
    Case("query -q {d}/good.gq -p n=A --store file://host/x", "names the host"),
    Case("query -q {d}/good.gq -p n=A", "no graph is named", 2),
    Case("snapshot {g} --store {d}/other", "two graphs are named", 2),
    Case("snapshot {d}/nowhere", "no graph at"),
    Case("snapshot", "no graph is named", 2),
    Case("snapshot {g} extra", "unexpected extra argument", 2),
    Case("status {d}/nowhere", "no graph at"),
    Case("commit list {d}/nowhere", "no graph at"),
    Case("tag list {d}/nowhere", "no graph at"),
    Case("branch list {d}/nowhere", "no graph at"),
    Case("schema show {d}/nowhere", "no graph at"),
    Case("recovery list {d}/nowhere", "no graph at"),
    Case("optimize {d}/nowhere", "no graph at"),
    Case("branch create x --store {d}/nowhere", "no graph at"),
    # init
    Case("init --schema {d}/good.pg {g}", "already"),
    Case("init --schema {d}/good.pg {d}/file.omni", "is a file"),
    Case("init --schema {d}/good.pg /proc/nope/g.omni", "/proc/nope"),
    Case("init --schema {d}/good.pg", "no graph is named", 2),
    Case("init {d}/new.omni", "--schema", 2),
    Case("init --schema {d}/missing.pg {d}/new.omni", "missing.pg"),
    Case("init --schema {d} {d}/new.omni", "{d}"),
    Case("init --schema {d}/empty.pg {d}/new.omni", "empty.pg:1:6"),
    Case("init --schema {d}/syntax.pg {d}/new.omni", "syntax.pg:2:3"),
    Case("init --schema {d}/type.pg {d}/new.omni", "did you mean 'String'"),
    Case("init --schema {d}/reserved.pg {d}/new.omni", "reserved.pg:2"),
    Case("init --schema {d}/endpoint.pg {d}/new.omni", "'B'"),
    Case("init --schema {d}/twice.pg {d}/new.omni", "twice.pg:2:6"),
    Case("init --schema {d}/bytes.pg {d}/new.omni", "not UTF-8"),
    Case("init --schema - {d}/new.omni", "<schema>:1:6", 1, "node {"),
    # query texts
    Case(QUERY, "-e TEXT or with --query FILE", 2),
    Case(QUERY + "q", "give its text with -e TEXT or --query FILE"),
    Case(QUERY + "-e 'x' -q {d}/good.gq", "-e TEXT or with --query FILE", 2),
    Case(QUERY + "-q {d}/missing.gq", "missing.gq"),
    Case(QUERY + "-q {d}", "cannot read"),
    Case(QUERY + "-q {d}/bytes.gq", "bytes.gq:1: the text is not UTF-8"),
    Case(QUERY + "-q {d}/empty.gq", "holds no query"),
    Case(QUERY + "-q {d}/blank.gq", "holds no query"),
    Case(QUERY + "-q - ", "holds no query", 1, ""),
    Case(QUERY + "-q -", "<stdin>:2:1: error Q000", 1, "\n}"),
    Case(QUERY + "-e ''", "holds no query"),
    Case(QUERY + "-q {d}/syntax.gq", "syntax.gq:3:3: error Q000"),
    Case(QUERY + "-q {d}/type.gq", "type.gq:2:15: error T1"),
    Case(QUERY + "-q {d}/property.gq", "property.gq:3:15: error T6"),
    Case(QUERY + "-q {d}/operand.gq", "operand.gq:2:23: error T7"),
    Case(QUERY + "-q {d}/unbound.gq", "unbound.gq:3:12: error T6"),
    Case(QUERY + "-q {d}/nolimit.gq", "error T17"),
    Case(QUERY + "-q {d}/write.gq", "omnigraph mutate"),
    Case(QUERY + "-q {d}/mixed.gq", "mixed.gq:3:3"),
    Case(QUERY + "-q {d}/two.gq", "name the one to run: one, two"),
    Case(QUERY + "three -q {d}/two.gq", "the text holds: one, two"),
    Case(QUERY + "-q {d}/good.gq a b", "unexpected extra argument", 2),
    # parameters
    Case(QUERY + "-q {d}/good.gq", "parameter $n: String is missing"),
    Case(QUERY + "-q {d}/good.gq --params '{}'", "parameter $n: String is missing"),
    Case(QUERY + "-q {d}/good.gq --params '{\"n\": null}'", "$n: String is null"),
    Case(QUERY + "-q {d}/good.gq --params '{\"n\": 1}'", "parameter $n: String"),
    Case(QUERY + '-q {d}/good.gq --params \'{"m": "A"}\'', "unknown parameter $m"),
    Case(QUERY + "-q {d}/good.gq -p m=A", "unknown parameter $m"),
    Case(QUERY + "-q {d}/good.gq -p nA", "write it as name=value"),
    Case(QUERY + "-q {d}/good.gq -p =A", "write it as name=value"),
    Case(QUERY + "-q {d}/good.gq -p n=A -p n=B", "$n is given twice"),
    Case(QUERY + '-q {d}/good.gq --params \'{"n": "A"}\' -p n=B', "$n is given twice"),
    Case(QUERY + '-q {d}/good.gq --params \'{"n": "A", "n": "B"}\'', "'n' is given twice"),
    Case(QUERY + "-q {d}/good.gq --params '{'", "--params:1:2: this is not JSON"),
    Case(QUERY + "-q {d}/good.gq --params ''", "--params:1:1: this is not JSON"),
    Case(QUERY + "-q {d}/good.gq --params '[1]'", "parameters are a JSON object"),
    Case(QUERY + "-q {d}/good.gq --params '{\"n\": NaN}'", "NaN is not a number"),
    Case(QUERY + "-q {d}/good.gq --params @{d}/missing.json", "missing.json"),
    Case(QUERY + "-q {d}/good.gq --params @{d}/params.json", "params.json:1:8"),
    Case(QUERY + "-q {d}/good.gq --params @{d}/list.json", "list.json: parameters are"),
    Case(QUERY + "-q {d}/good.gq --params @{d}", "cannot read"),
    Case(QUERY + "two -q {d}/two.gq -p n=x", "parameter $n: I32"),
    Case(QUERY + "two -q {d}/two.gq -p n=1.5", "parameter $n: I32"),
    Case(QUERY + "two -q {d}/two.gq -p n=99999999999", "parameter $n: I32"),
    Case(QUERY + "two -q {d}/two.gq -p n=1 -p v=[1]", "parameter $v: Vector(2)"),
    Case(QUERY + "two -q {d}/two.gq -p n=1 -p v=[1,x]", "parameter $v: Vector(2)"),
    Case(QUERY + "two -q {d}/two.gq -p n=1 -p v=[1,2] -p l=x", "parameter $l: [String]"),
    Case(QUERY + "two -q {d}/two.gq -p n=1 -p v=[1,2] -p l=[1]", "parameter $l: [String]"),
    Case(
        QUERY + "two -q {d}/two.gq -p n=1 -p v=[1,2] -p 'l=[]' -p d=2020-02-31",
        "parameter $d: Date",
    ),
    Case(
        QUERY + "two -q {d}/two.gq -p n=1 -p v=[1,2] -p 'l=[]' -p d=2020-02-01 -p b=maybe",
        "parameter $b: Bool",
    ),
    # targets and formats
    Case(QUERY + "-q {d}/good.gq -p n=A --branch nope", "'nope'"),
    Case(QUERY + "-q {d}/good.gq -p n=A --branch ''", "branch name ''"),
    Case(QUERY + "-q {d}/good.gq -p n=A --at nope", "'nope'"),
    Case(QUERY + "-q {d}/good.gq -p n=A --at 2020-01-01T00:00:00Z", "2020-01-01"),
    Case(QUERY + "-q {d}/good.gq -p n=A --format xml", "'xml'", 2),
    Case(QUERY + "-q {d}/good.gq -p n=A --timeout soon", "--timeout", 2),
    Case(QUERY + "-q {d}/good.gq -p n=A --nonsense", "--nonsense", 2),
    Case("explain --store {g} -q {d}/type.gq", "type.gq:2:15"),
    Case("explain --store {g} -q {d}/write.gq", "omnigraph mutate"),
    Case("profile --store {g} -q {d}/good.gq", "$n: String is missing"),
    Case("profile --store {g} -q {d}/good.gq -p n=A --branch nope", "'nope'"),
    # branches, tags, commits
    Case("branch create --store {g}", "NAME", 2),
    Case("branch create main --store {g}", "main"),
    Case("branch create side --store {g}", "side"),
    Case("branch create x --from nope --store {g}", "'nope'"),
    Case("branch create x --from sdie --store {g}", "did you mean 'side'?"),
    Case("branch create x --from v1 --store {g}", "starts at the head of another"),
    *(
        Case(f"branch create {shlex.quote(name)} --store {{g}}", "is not allowed: segments")
        for name in ("", "a b", "../x", "a/../b", "/a", "a/", "a//b", "__x", "a\nb", "x" * 200)
    ),
    Case("branch delete main --yes --store {g}", "main"),
    Case("branch delete nope --yes --store {g}", "'nope'"),
    Case("branch delete side --store {g}", "add --yes", 2),
    Case("branch diff nope --store {g}", "'nope'"),
    Case("branch diff main nope --store {g}", "'nope'"),
    Case("branch diff side --type Nope --store {g}", "'Nope'"),
    Case("branch diff side --cursor rubbish --store {g}", "cursor"),
    Case("branch diff side --limit 0 --store {g}", "--limit", 2),
    Case("branch merge nope --store {g}", "'nope'"),
    Case("branch merge side --into nope --store {g}", "'nope'"),
    Case("branch merge --store {g}", "SOURCE", 2),
    Case("branch merge side --strategy mine --store {g}", "'mine'", 2),
    Case("branch merge side --resolutions {d}/missing.yaml --store {g}", "missing.yaml"),
    Case("branch merge side --resolutions {d}/params.json --store {g}", "params.json"),
    Case("branch rename nope new --store {g}", "'nope'"),
    Case("branch rename main new --store {g}", "main"),
    Case("branch rename side main --store {g}", "main"),
    Case("branch rename side 'a b' --store {g}", "is not allowed"),
    Case("commit revert nope --store {g}", "'nope'"),
    Case("commit cherry-pick nope --store {g}", "'nope'"),
    Case("commit graph {d}/nowhere", "no graph at"),
    Case("changes poll {g} --cursor rubbish", "cursor"),
    Case("changes poll {g} --start later", "later"),
    Case("changes poll {g} --start after:nope", "nope"),
    Case("changes baseline {g} --type Nope", "'Nope'"),
    Case("changes baseline {g} --branch nope", "'nope'"),
    Case("tag create v1 --store {g}", "v1"),
    Case("tag create x nope --store {g}", "'nope'"),
    Case("tag create 'a b' --store {g}", "is not allowed"),
    Case("tag delete nope --store {g}", "no tag 'nope'"),
    Case("commit show nope --store {g}", "'nope'"),
    Case("commit show --store {g}", "COMMIT", 2),
    Case("commit changes nope --store {g}", "'nope'"),
    Case("commit list {g} --branch nope", "'nope'"),
    Case("commit list {g} --limit 0", "--limit", 2),
    Case("commit list {g} --limit many", "--limit", 2),
    Case("commit list {g} --filter nonsense", "actor=NAME"),
    Case("snapshot {g} --at nope", "'nope'"),
    Case("schema show {g} --branch nope", "'nope'"),
    Case("optimize {g} --type Nope", "'Nope'"),
    Case("optimize {g} --branch nope", "'nope'"),
    # mutate
    Case(MUTATE, "-e TEXT or with --query FILE", 2),
    Case(MUTATE + "-q {d}/good.gq -p n=A", "omnigraph query"),
    Case(MUTATE + "-q {d}/mixed.gq", "mixed.gq:3:3"),
    Case(MUTATE + "-q {d}/write.gq --branch nope", "'nope'"),
    Case(MUTATE + "-q {d}/write.gq --if-commit nope", "nope", 4),
    Case(MUTATE + "-q {d}/write.gq -p n=A", "unknown parameter $n"),
    Case(MUTATE + "three -q {d}/two.gq", "the text holds: one, two"),
    *(
        Case(f"{MUTATE} -e {shlex.quote(f'query q() {{ {body} }}')}", part)
        for body, part in BAD_MUTATIONS.items()
    ),
    # load
    Case("load {g}", "--data", 2),
    Case("load --data {d}/p.ndjson", "no graph is named", 2),
    Case("load --data {d}/p.ndjson {d}/nowhere", "no graph at"),
    Case("load --data {d}/missing.ndjson {g}", "missing.ndjson"),
    Case("load --data '{d}/*.nothing' {g}", "nothing"),
    Case("load --data {d}/good.gq {g}", "good.gq"),
    Case("load --data {d}/p.ndjson --mode replace {g}", "'replace'", 2),
    Case("load --data {d}/p.ndjson --branch nope {g}", "'nope'"),
    Case("load --data {d}/p.ndjson --branch new --from nope {g}", "'nope'"),
    Case("load --data {d}/p.ndjson --branch 'a b' --from main {g}", "is not allowed"),
    Case("load --data {d}/p.ndjson --if-commit nope {g}", "nope", 4),
    Case("load --data {d}/p.ndjson --engine warp {g}", "'warp'", 2),
    Case("load --data {d}/p.ndjson --map x {g}", "COLUMN=PROPERTY", 2),
    Case("load --data {d}/exists.ndjson {g}", "exists.ndjson:2: Person 'A'"),
    *(
        Case(f"load --data {{d}}/{name}.ndjson {{g}}", part)
        for name, (_, part) in BAD_LINES.items()
    ),
    *(
        Case(f"load --data {{d}}/{name}.ndjson --branch new --from main {{g}}", part)
        for name, (_, part) in list(BAD_LINES.items())[:2]
    ),
    Case("load --data {d}/Person.csv {g}", "Person.csv:3"),
    Case("load --data {d}/staff.csv {g}", "staff"),
    Case("load --data {d}/staff.csv --type Nope {g}", "'Nope'"),
    Case("load --data {d}/broken.parquet --type Person {g}", "broken.parquet"),
    # export and blobs
    Case("export {d}/nowhere", "no graph at"),
    Case("export {g} --type Nope", "'Nope'"),
    Case("export {g} --branch nope", "'nope'"),
    Case("export {g} --at nope", "'nope'"),
    Case("export {g} --format parquet", "-o", 2),
    Case("export {g} --format xml", "'xml'", 2),
    Case("export {g} -o {d}/no/such/dir/x.ndjson", "no/such/dir"),
    Case("blob get Person A photo --store {g}", "no blob 'photo'"),
    Case("blob get Nope A photo --store {g}", "'Nope'"),
    Case("blob get Note n9 photo --store {g}", "'n9'"),
    Case("blob stat Note n9 photo --store {g}", "'n9'"),
    Case("blob get Note n9 photo --offset -1 --store {g}", "--offset", 2),
    Case("blob get Note --store {g}", "ID", 2),
    Case("embed {g} --branch nope", "'nope'"),
    Case("embed {g} --type Nope", "'Nope'"),
    # files of the languages
    Case("lint --query {d}/type.gq --schema {d}/good.pg", "type.gq:2:15"),
    Case("lint --query {d}/good.gq --schema {d}/type.pg", "type.pg:2:9"),
    Case("lint --query {d}/good.gq", "--schema", 2),
    Case("lint --query {d}/missing.gq --schema {d}/good.pg", "missing.gq"),
    Case("schema fmt {d}/syntax.pg", "syntax.pg:2:3"),
    Case("schema fmt {d}/missing.pg", "missing.pg"),
    Case("schema fmt", "FILE", 2),
    Case("query fmt {d}/syntax.gq", "syntax.gq:3:3"),
    # words
    Case("nonsense", "No such command 'nonsense'", 2),
    Case("branch nonsense", "No such command 'nonsense'", 2),
    Case("brnch list {g}", "'branch'", 2),
    Case("--nonsense", "--nonsense", 2),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("bad")
    for name, text in FILES.items():
        (found / name).write_text(text, encoding="utf-8")
    for name in ("bytes.gq", "bytes.pg"):
        (found / name).write_bytes(b"query \xff\n")
    return found


@pytest.fixture(scope="module")
def graph(place: Path) -> Graph:
    made = omnigraph.init(place / "people.omni", SCHEMA)
    made.apply({"Person": Edit(insert=[{"name": "A", "age": 1}, {"name": "B"}])})
    made.apply({"Knows": Edit(insert=[{"from": "A", "to": "B"}])})
    made.branches.create("side")
    made.tags.create("v1")
    return made


def everything(graph: Graph) -> str:
    """All that a user can see of a graph."""
    seen: list[object] = [tag.to_dict() for tag in graph.tags.list()]
    for branch in graph.branches.list():
        seen += [branch.to_dict(), [c.to_dict() for c in graph.commits.list(branch.name)]]
        seen += [graph.read(t, branch.name).to_pylist() for t in ("Person", "Note", "Knows")]
    return json.dumps(seen, default=str)


@pytest.fixture
def unchanged(graph: Graph) -> Iterator[None]:
    before = everything(graph)
    yield
    assert everything(graph) == before


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("case", CASES, ids=[case.words for case in CASES])
def test_bad_input(cli, graph: Graph, place: Path, case: Case) -> None:
    files = sorted(place.iterdir())
    words = shlex.split(case.words.replace("{g}", graph.uri).replace("{d}", str(place)))
    answer = cli(*words, input=case.stdin)
    assert answer.code == case.code, answer
    assert case.message.replace("{d}", str(place)) in answer.err + answer.out
    assert "Traceback" not in answer.err
    assert "internal error" not in answer.err
    assert sorted(place.iterdir()) == files
    envelope = cli(*words, "--json", input=case.stdin)
    assert envelope.code in (case.code, 2)
    assert set(envelope.json) >= {"error", "code"}


def test_there_are_enough() -> None:
    assert len(CASES) > 100
