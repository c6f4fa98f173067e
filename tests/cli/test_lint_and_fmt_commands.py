"""`lint`, `schema fmt`, `query fmt` and `version` as people meet them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from omnigraph.cli.commands import query as query_commands
from omnigraph.cli.commands.query import DefaultCommandGroup
from omnigraph.cli.main import app

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person\n"
GOOD = """query q($n: String) {
  match { $p: Person { name: $n }  $p knows $f }
  return { $f.age }
}
"""

runner = CliRunner()


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    texts = {
        "s.pg": SCHEMA,
        "good.gq": GOOD,
        "bad.gq": "query q() { match { $p: Persn } return { $p } }",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return {name: tmp_path / name for name in texts}


def lint(files: dict[str, Path], query: str, *more: str) -> tuple[int, str, str]:
    arguments = ["lint", "--query", str(files[query]), "--schema", str(files["s.pg"]), *more]
    result = runner.invoke(app, arguments)
    return result.exit_code, result.stdout, result.stderr


def test_lint_of_a_good_file(files: dict[str, Path]) -> None:
    code, out, err = lint(files, "good.gq")
    assert (code, out) == (0, "")
    assert "1 query, 0 errors, 0 warnings" in err


def test_lint_prints_findings_on_stdout_and_the_summary_on_stderr(files: dict[str, Path]) -> None:
    code, out, err = lint(files, "bad.gq")
    assert code == 1
    assert "bad.gq:1:25: error T1: there is no node type 'Persn'" in out
    assert "did you mean 'Person'?" in out
    assert "1 error" in err


def test_lint_as_json(files: dict[str, Path]) -> None:
    code, out, _ = lint(files, "good.gq", "--json")
    report = json.loads(out)
    assert code == 0
    assert report["queries"][0]["fields"] == [
        {"name": "f.age", "kind": "scalar", "type": "I32", "nullable": True}
    ]
    assert report["findings"] == []


def test_json_of_errors_is_the_error_envelope(files: dict[str, Path]) -> None:
    code, out, _ = lint(files, "bad.gq", "--json")
    envelope = json.loads(out)
    assert code == 1
    assert envelope["code"] == "type_check_error"
    assert envelope["error"].startswith(str(files["bad.gq"]))
    assert envelope["findings"][0]["line"] == 1
    assert envelope["errors"] == 1


def test_text_that_does_not_parse(files: dict[str, Path]) -> None:
    files["bad.gq"].write_text("query q {", encoding="utf-8")
    code, out, err = lint(files, "bad.gq")
    assert (code, out) == (1, "")
    assert "error Q000" in err
    code, out, _ = lint(files, "bad.gq", "--json")
    assert json.loads(out)["code"] == "parse_error"


def test_warnings_fail_only_when_strict(files: dict[str, Path]) -> None:
    files["good.gq"].write_text(GOOD.replace("$n: String", "$n: String, $x: I32"), encoding="utf-8")
    assert lint(files, "good.gq")[0] == 0
    assert "code" not in json.loads(lint(files, "good.gq", "--json")[1])
    assert lint(files, "good.gq", "--strict")[0] == 1
    body = json.loads(lint(files, "good.gq", "--strict", "--json")[1])
    assert (body["code"], body["warnings"]) == ("lint_warnings", 1)
    assert body["error"].endswith("good.gq: 1 warning")


def test_warnings_about_the_schema_are_shown(files: dict[str, Path]) -> None:
    files["s.pg"].write_text(SCHEMA.replace("@key", "@key @indx"), encoding="utf-8")
    code, out, err = lint(files, "good.gq")
    assert code == 0
    assert "s.pg:1:33: warning L101: @indx has no meaning here" in out
    assert "did you mean '@index'?" in out
    assert "1 warning" in err
    assert json.loads(lint(files, "good.gq", "--json")[1])["warnings"] == 1


def test_missing_files_and_bytes_that_are_no_text(files: dict[str, Path]) -> None:
    missing = dict(files, **{"bad.gq": Path("nope.gq")})
    code, out, _ = lint(missing, "bad.gq", "--json")
    assert code == 1
    assert json.loads(out)["code"] == "not_found"
    files["bad.gq"].write_bytes(b"query \xff")
    code, _, err = lint(files, "bad.gq")
    assert code == 1
    assert "not UTF-8" in err


def test_usage_errors_exit_2() -> None:
    assert runner.invoke(app, ["lint"]).exit_code == 2
    assert runner.invoke(app, ["nonsense"]).exit_code == 2
    assert runner.invoke(app, ["query", "nonsense"]).exit_code == 2


@pytest.mark.parametrize("kind", ["schema", "query"])
def test_fmt_rewrites_in_place_and_is_stable(kind: str, tmp_path: Path) -> None:
    text = (
        "node P{a:I32 // note\n}"
        if kind == "schema"
        else "query q(){match{$p:P// note\n}return{$p}}"
    )
    file = tmp_path / "x"
    file.write_text(text, encoding="utf-8")
    assert runner.invoke(app, [kind, "fmt", "--check", str(file)]).exit_code == 1
    for name, given in ((str(file), None), ("-", text)):
        checked = runner.invoke(app, [kind, "fmt", "--check", "--json", name], input=given)
        body = json.loads(checked.stdout)
        assert (checked.exit_code, body["code"]) == (1, "not_formatted")
        assert (body["error"], body["changed"]) == (f"not formatted: {name}", [name])
    assert file.read_text(encoding="utf-8") == text
    assert runner.invoke(app, [kind, "fmt", str(file)]).exit_code == 0
    once = file.read_text(encoding="utf-8")
    assert "// note" in once
    result = runner.invoke(app, [kind, "fmt", "--check", "--json", str(file)])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"files": [str(file)], "changed": [], "checked": True}
    assert runner.invoke(app, [kind, "fmt", "--stdout", str(file)]).stdout == once
    assert runner.invoke(app, [kind, "fmt", "-"], input=text).stdout == once


def test_fmt_leaves_a_broken_file_alone(tmp_path: Path) -> None:
    file = tmp_path / "x.pg"
    file.write_text("node {", encoding="utf-8")
    result = runner.invoke(app, ["schema", "fmt", str(file)])
    assert result.exit_code == 1
    assert "x.pg:1:6: error S000" in result.stderr
    assert file.read_text(encoding="utf-8") == "node {"


def test_version() -> None:
    assert runner.invoke(app, ["version"]).stdout.startswith("omnigraph ")
    assert "version" in json.loads(runner.invoke(app, ["version", "--json"]).stdout)


def test_json_also_stands_before_the_command() -> None:
    assert "version" in json.loads(runner.invoke(app, ["--json", "version"]).stdout)


def test_a_run_command_can_join_the_query_group() -> None:
    """`omnigraph query NAME -e …` must stay possible beside `omnigraph query fmt`."""
    group = typer.Typer(cls=DefaultCommandGroup)
    seen: list[tuple[str | None, str | None]] = []

    @group.command("fmt")
    def fmt(file: str) -> None:
        seen.append(("fmt", file))

    @group.command(query_commands.DEFAULT_COMMAND)
    def run(
        name: str | None = typer.Argument(None), source: str | None = typer.Option(None, "-e")
    ) -> None:
        seen.append((name, source))

    outer = typer.Typer()
    outer.add_typer(group, name="query")
    for words in (["friends", "-e", "x"], ["-e", "y"], ["fmt", "f"], ["run", "fmt"]):
        assert runner.invoke(outer, ["query", *words]).exit_code == 0
    assert seen == [("friends", "x"), (None, "y"), ("fmt", "f"), ("fmt", None)]
    assert runner.invoke(outer, ["query", "--help"]).exit_code == 0


def test_the_library_does_not_import_the_terminal() -> None:
    code = "import sys, omnigraph; sys.exit(bool({'typer', 'rich', 'click'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_lint_at_the_severity_that_is_asked_for(files: dict[str, Path]) -> None:
    text = files["s.pg"].read_text()
    files["s.pg"].write_text(text + "\nnode Odd @owner(me) {}\n")
    assert "OG-NM-101" in lint(files, "good.gq")[1]
    assert "OG-NM-101" not in lint(files, "good.gq", "--severity", "OG-NM-101=off")[1]
    code, out, _ = lint(files, "good.gq", "--severity", "OG-NM-101=error", "--json")
    body = json.loads(out)
    assert (code, body["code"], body["errors"]) == (1, "type_check_error", 1)
    assert body["diagnostics"][0]["file"] == str(files["s.pg"])
    assert json.loads(out)["findings"][0]["severity"] == "error"
    code, _, err = lint(files, "good.gq", "--severity", "OG-NM-101=never")
    assert code != 0
    assert "error, warn, off" in err


def test_warnings_about_queries_have_severities_too(files: dict[str, Path]) -> None:
    files["good.gq"].write_text(GOOD.replace("$n: String", "$n: String, $x: I32"), encoding="utf-8")
    assert "L203" in lint(files, "good.gq")[1]
    code, out, err = lint(files, "good.gq", "--severity", "L203=off", "--strict")
    assert (code, out) == (0, "")
    assert "0 errors, 0 warnings" in err
    code, out, err = lint(files, "good.gq", "--severity", "L203=error")
    assert code == 1
    assert "error L203: parameter $x is never used" in out
    assert "1 error, 0 warnings" in err


def test_errors_keep_their_severity(files: dict[str, Path]) -> None:
    code, _, err = lint(files, "bad.gq", "--severity", "T1=off")
    assert code == 1
    assert "there is no code 'T1' with a severity" in err


def test_a_new_schema_tells_which_queries_break(files: dict[str, Path]) -> None:
    renamed = SCHEMA.replace("age: I32?", 'years: I32? @rename_from("age")')
    files["s.pg"].write_text(renamed, encoding="utf-8")
    code, out, _ = lint(files, "good.gq")
    assert code == 1
    assert "good.gq:3:" in out
    assert "'age'" in out
