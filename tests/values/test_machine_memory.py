from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph.settings.models import LoadSettings, ReadSettings
from omnigraph.values import machine_memory as memory

GIB = 1024**3


def limits(folder: Path, membership: str, files: dict[str, str]) -> list[int]:
    (folder / "membership").write_text(membership)
    for name, text in files.items():
        path = folder / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return list(memory._container_limits(folder / "membership", folder / "cgroup"))


@pytest.mark.parametrize(
    ("membership", "files", "expected"),
    [
        ("0::/\n", {"memory.max": "max\n"}, []),
        ("0::/\n", {"memory.max": "1024\n"}, [1024]),
        ("0::/a/b\n", {"memory.max": "9\n", "a/memory.max": "5", "a/b/memory.max": "7"}, [7, 5, 9]),
        ("0::/docker/not/mounted\n", {"memory.max": "9\n"}, [9]),
        ("0::/../../x\n", {"memory.max": "9\n"}, [9]),
        ("4:memory:/p\n3:cpu:/\n", {"memory/p/memory.limit_in_bytes": "3\n"}, [3]),
        ("4:cpu,memory:/\n", {"memory/memory.limit_in_bytes": "4\n"}, [4]),
        ("rubbish\n\n:::\n", {"memory.max": "nonsense"}, []),
        ("", {}, []),
    ],
)  # fmt: skip
def test_limits_of_containers(tmp_path: Path, membership: str, files, expected) -> None:
    assert limits(tmp_path, membership, files) == expected


def test_no_control_groups_no_limits(tmp_path: Path) -> None:
    assert list(memory._container_limits(tmp_path / "none", tmp_path)) == []


def test_this_machine_has_some() -> None:
    assert 64 * 1024**2 < memory.machine_memory() <= memory._installed()


@pytest.mark.parametrize(
    ("total", "query", "cache", "load"),
    [
        (64 * GIB, 8 * GIB, 4 * GIB, 2 * GIB),
        (6 * GIB, 2 * GIB, GIB, GIB),
        (64 * 1024**2, 64 * 1024**2, 64 * 1024**2, 64 * 1024**2),
    ],
)
def test_defaults_follow_the_machine(
    total: int, query: int, cache: int, load: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "machine_memory", lambda: total)
    read = ReadSettings()
    assert (read.memory_bytes, read.cache_bytes, LoadSettings().memory_bytes) == (
        query,
        cache,
        load,
    )
    assert ReadSettings(memory_bytes=5).memory_bytes == 5


BLOCKS = """
import resource
from omnigraph.values.machine_memory import keep_freed_blocks
import numpy as np

def new_pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.empty(4 << 20, np.uint8)[::4096] = 1
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

keep_freed_blocks()
print(new_pages(), new_pages())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told to keep blocks")
def test_a_freed_block_is_used_again_without_new_pages() -> None:
    """Without `keep_freed_blocks` both blocks would have about 1,024 new pages."""
    run = subprocess.run([sys.executable, "-c", BLOCKS], capture_output=True, text=True, check=True)
    first, second = map(int, run.stdout.split())
    assert first > 500
    assert second < 100
