"""Wakes requests that wait for the next commit of a branch.

Other processes commit, too, so the head is looked up again and again. One look serves all who wait
for the same branch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import Executor

from omnigraph.errors import OmnigraphError

_LOOK_SECONDS = 0.1
_UNKNOWN = ""


class HeadWatch:
    """The branches that requests of this process wait for."""

    def __init__(self) -> None:
        self._watched: dict[Hashable, _Watched] = {}

    async def moved(
        self,
        key: Hashable,
        look: Callable[[], str],
        pool: Executor,
        known: str,
        seconds: float,
    ) -> bool:
        """Whether the head, which `look` returns, is another than `known` within so long."""
        watched = self._watched.get(key)
        if watched is None:
            watched = self._watched[key] = _Watched()
            watched.task = asyncio.ensure_future(self._follow(key, watched, look, pool))
        watched.waiting += 1
        try:
            async with asyncio.timeout(seconds):
                while watched.head in (_UNKNOWN, known):
                    await watched.changed.wait()
            return True
        except TimeoutError:
            return False
        finally:
            watched.waiting -= 1

    async def _follow(
        self, key: Hashable, watched: _Watched, look: Callable[[], str], pool: Executor
    ) -> None:
        loop = asyncio.get_running_loop()
        idle = 0
        try:
            while watched.waiting or idle < 2:
                idle = idle + 1 if watched.waiting == 0 else 0
                try:
                    head = await loop.run_in_executor(pool, look)
                except OmnigraphError:
                    head = "gone"  # the next page tells the caller why
                if head != watched.head:
                    watched.tell(head)
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            del self._watched[key]
            watched.tell("gone")


class _Watched:
    def __init__(self) -> None:
        self.head = _UNKNOWN
        self.changed = asyncio.Event()
        self.waiting = 0
        self.task: asyncio.Future[None] | None = None

    def tell(self, head: str) -> None:
        self.head = head
        self.changed.set()
        self.changed = asyncio.Event()
