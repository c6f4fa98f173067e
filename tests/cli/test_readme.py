"""README.md says what happens."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import omnigraph

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
ULID = re.compile(r"\b01[0-9A-Z]{24}\b")


def block(language: str) -> str:
    return re.search(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)[1]


def test_the_quickstart(cli, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, language in (("people.pg", "pg"), ("people.gq", "gq"), ("people.ndjson", "json")):
        Path(name).write_text(block(language), encoding="utf-8")
    Path("wrong.ndjson").write_text('{"type":"Person","data":{"name":"Eve","age":200}}\n')
    for step in block("console").split("$ omnigraph ")[1:]:
        command, _, shown = step.partition("\n")
        answer = cli(*shlex.split(command), "--quiet")
        seen = (answer.out or answer.err).replace(f"{tmp_path}/", "")
        assert ULID.sub("ID", seen) == ULID.sub("ID", shown), command

    names = {"omnigraph": omnigraph, "QUERIES": block("gq")}
    lines = block("python").split("\n\n", 1)[1].splitlines()
    exec(lines[0], names)
    shown = None
    for line in lines[1:]:
        if line.startswith("# "):
            assert repr(shown) == line.removeprefix("# ")
        elif line.startswith("w = "):
            exec(line, names)
        else:
            shown = eval(line, names)
