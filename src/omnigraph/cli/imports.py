"""Which packages a short command leaves out, because their import is most of its time."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any


class _WithoutPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is left out of this command", name=fullname)
        return None


def leave_pandas_out() -> None:
    """Let pyarrow work without pandas in this process.

    pyarrow imports pandas, if it is installed, at its first conversion of a Python value, and
    remembers the outcome. This first conversion is made here, while pandas cannot be found.
    A process that has imported pyarrow already stays as it is, because it may use pandas.
    """
    if "pyarrow" in sys.modules:
        return
    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa

        pa.scalar(True)
    finally:
        sys.meta_path.remove(finder)
