"""The site builds offline, without a warning and without a link that leads nowhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_site_builds_strictly_and_asks_the_network_for_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    fetched = re.compile(r'(?:src|href)="(https?:)?//[^"]*\.(?:js|css|woff2?|png|svg)')
    assert [p.name for p in tmp_path.rglob("*.html") if fetched.search(p.read_text())] == []


def test_relative_links_of_the_readme_lead_somewhere() -> None:
    pages = [ROOT / "README.md", *(ROOT / "examples").glob("*/README.md")]
    links = [
        (page, link)
        for page in pages
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    ]
    assert links
    assert [(str(p), link) for p, link in links if not (p.parent / link).exists()] == []
