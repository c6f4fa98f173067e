"""The wheel holds the product and nothing else, and the README's shell story runs from it.

No network is needed. `hatchling` of the dev environment builds the wheel, and pip installs it into
an empty environment. A `.pth` file adds the site-packages of the dev environment, for the
dependencies. Python does not read the `.pth` files in a folder that a `.pth` file adds, so the
editable install of the checkout is not visible.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from page_runner import PageRun

ROOT = Path(__file__).parents[2]
WHERE = """
import importlib.util, json, omnigraph, omnigraph.spark, pyspark_omnigraph
kit = importlib.util.find_spec("omnigraph_testing")
print(json.dumps([omnigraph.__file__, pyspark_omnigraph.__file__, kit and kit.origin]))
"""


def run(*command: str | Path, cwd: Path) -> str:
    """The output of a process that sees neither the checkout nor this environment's variables."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "OMNIGRAPH_CONFIG", "OMNIGRAPH_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment | {"HOME": str(cwd / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of an environment with the wheel and what it depends on."""
    place = tmp_path_factory.mktemp("user") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    python = place / "bin" / "python"
    install = ["install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), *install], check=True)
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place / "bin"


def test_the_wheel_holds_the_product(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    packages = {name.split("/")[0] for name in names}
    assert {p for p in packages if not p.endswith(".dist-info")} == {
        "omnigraph",
        "pyspark_omnigraph",
    }
    assert "omnigraph/py.typed" in names
    sources = {str(file.relative_to(ROOT / "src")) for file in (ROOT / "src").rglob("*.py")}
    kit = {name for name in sources if name.startswith("omnigraph_testing/")}
    assert kit
    assert {name for name in names if name.endswith(".py")} == sources - kit


def test_the_wheel_is_what_the_environment_imports(environment: Path, tmp_path: Path) -> None:
    printed = run(environment / "python", "-c", WHERE, cwd=tmp_path)
    inside = environment.parent / "lib"
    product, format_package, kit = json.loads(printed)
    assert Path(product).is_relative_to(inside)
    assert Path(format_package).is_relative_to(inside)
    assert kit is None


def test_the_shell_story_of_the_readme(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    story, _, _ = page.partition("\n## From Python\n")
    assert "## From the shell" in story

    def installed(words: list[str]) -> str:
        return run(environment / "omnigraph", *words, cwd=tmp_path)

    followed = PageRun("README.md", tmp_path, run_command=installed)
    assert followed.follow(story) == 1
    assert followed.commands > 5
