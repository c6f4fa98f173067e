"""A part of an object that is made when it is first asked for, and once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Part = TypeVar("Part")

_making = threading.RLock()  # parts are made of other parts


class built_once(Generic[Part]):
    """`functools.cached_property` with the lock that Python 3.12 took out of it."""

    def __init__(self, make: Callable[[Any], Part]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    def __get__(self, owner: Any, kind: type | None = None) -> Part:
        with _making:
            if self._name not in owner.__dict__:
                owner.__dict__[self._name] = self._make(owner)
            part: Part = owner.__dict__[self._name]
            return part
