"""What a process and everything below it used: JVMs and Python workers included."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Side:
    """What one process tree used."""

    def __init__(self, process: subprocess.Popen[bytes], temporary: Path) -> None:
        began = time.perf_counter()
        self.cpu = self.peak = self.on_disk = 0.0
        while process.poll() is None:
            cpu, rss = tree(process.pid)
            self.cpu, self.peak = max(self.cpu, cpu), max(self.peak, rss)
            self.on_disk = max(self.on_disk, size_of(temporary))
            time.sleep(0.2)
        self.wall = time.perf_counter() - began
        if process.returncode:
            raise SystemExit(f"a side of the bench failed: {process.args!r}")

    def __str__(self) -> str:
        memory, disk = self.peak / 2**30, self.on_disk / 2**30
        return (
            f"wall {self.wall:.1f} s, CPU {self.cpu:.1f} s, "
            f"peak of the tree {memory:.2f} GiB, temporary files {disk:.2f} GiB"
        )


def tree(root: int) -> tuple[float, float]:
    """(CPU seconds, resident bytes) of a process and everything below it."""
    found, parents = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            process = int(entry.name)
            parents[process] = int(fields[1])
            cpu = sum(map(int, fields[11:15])) / _TICK
            found[process] = (cpu, int(fields[21]) * _PAGE)
    ours = {root}
    while more := {p for p, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(found[p][0] for p in ours if p in found), sum(
        found[p][1] for p in ours if p in found
    )


def size_of(folder: Path) -> int:
    """Bytes in files below a folder, some of which may vanish meanwhile."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(f"{path}/{name}").st_blocks * 512
            except OSError:
                continue
    return total
