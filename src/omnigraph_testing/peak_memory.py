"""How much memory a piece of work takes: anonymous pages, because mapped files can be dropped."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from types import TracebackType

_STATUS = Path("/proc/self/status")
_ANONYMOUS = re.compile(r"RssAnon:\s+(\d+) kB")
_SECONDS_BETWEEN_LOOKS = 0.005


class PeakMemory:
    """Looks again and again while the `with` lasts."""

    def __init__(self) -> None:
        self._before = self._peak = 0
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._before = self._peak = _anonymous_bytes()
        self._watcher.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._watcher.join()

    @property
    def growth(self) -> int:
        return self._peak - self._before

    def _watch(self) -> None:
        while not self._stop.wait(_SECONDS_BETWEEN_LOOKS):
            self._peak = max(self._peak, _anonymous_bytes())


def _anonymous_bytes() -> int:
    found = _ANONYMOUS.search(_STATUS.read_text())
    assert found is not None
    return int(found.group(1)) * 1024
