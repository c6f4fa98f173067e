"""Physical operators that the language does not have: how to do less for the same answer.

A physical plan is an IR tree in which these may stand wherever a read operator may.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from omnigraph.ir.reads import Expand, ReadOp


@dataclass(frozen=True, slots=True)
class Keep:
    """Forget every binding but these: nobody above asks for the others."""

    input: PhysicalOp
    variables: frozenset[int]


@dataclass(frozen=True, slots=True)
class Weigh:
    """Count the edges of an Expand instead of following them.

    Each row stands for as many as the Expand would make of it; rows without an edge go.
    """

    input: PhysicalOp
    expand: Expand


@dataclass(frozen=True, slots=True)
class DistinctOn:
    """Rows that differ in these variables: above, only the set matters."""

    input: PhysicalOp
    variables: frozenset[int]


PhysicalOp = ReadOp | Keep | Weigh | DistinctOn


def with_input(op: Any, new: PhysicalOp) -> Any:
    """The operator on another input."""
    return op if op.input is new else replace(op, input=new)
