"""The identity of a process, for objects that outlive it: whether it still runs can be asked later.

The number of a process says nothing by itself, because numbers are used again, and containers count
their own. So an identity also names the boot of the machine, the namespaces in which the number and
the start time count, and the start time.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

_SEPARATOR = "/"


def this_process() -> str:
    """The identity of this process; an empty text where the system does not tell it."""
    machine, started = _machine(os.getpid()), _start_of(os.getpid())
    if not machine or started is None:
        return ""
    return _SEPARATOR.join((machine, str(os.getpid()), started))


def has_ended(process: str) -> bool | None:
    """Whether a process has ended; None for one that this process cannot see."""
    place, _, started = process.rpartition(_SEPARATOR)
    machine, _, number = place.rpartition(_SEPARATOR)
    if not machine or machine != _machine(os.getpid()) or not number.isdigit():
        return None
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass  # it runs for another user, or it is no number of a process
    found = _start_of(int(number))
    # A process of another user may be hidden, and then nothing is known about its start.
    return found is not None and found != started


@cache
def _machine(process_id: int) -> str:
    """Boot and namespaces of this process; empty if they, or its own number, are not to be read.

    The argument is the number of this process, because a forked child may have other namespaces.
    """
    try:
        if Path("/proc/self").readlink().name != str(process_id):
            return ""  # /proc shows the processes of another namespace
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        numbers = Path("/proc/self/ns/pid").readlink().name
        clock = Path("/proc/self/ns/time")
        times = clock.readlink().name if clock.is_symlink() else ""
    except OSError:
        return ""
    return f"{boot}{_SEPARATOR}{numbers}{_SEPARATOR}{times}" if boot and numbers else ""


def _start_of(process_id: int) -> str | None:
    """When a process began, in ticks since the boot."""
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
