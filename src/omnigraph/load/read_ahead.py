"""Let the next block be parsed while this one is checked."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def read_ahead(blocks: Iterator[T]) -> Iterator[T]:
    """The same items; one of them is made in another thread meanwhile."""
    with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as pool:
        waiting = pool.submit(next, blocks, None)
        while (block := waiting.result()) is not None:
            waiting = pool.submit(next, blocks, None)
            yield block
