"""Options that belong together: a dataclass whose fields are declared like options.

A handler takes the dataclass as one parameter; on the command line its fields stand where it does.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Sequence
from typing import Any, get_type_hints


@dataclasses.dataclass(frozen=True, slots=True)
class Gathered:
    """A parameter of a handler that is made of several options."""

    name: str
    kind: type
    fields: tuple[str, ...]

    def gather(self, given: dict[str, Any]) -> None:
        """Replace the options by the object they make."""
        given[self.name] = self.kind(**{field: given.pop(field) for field in self.fields})


def spread(parameters: Sequence[inspect.Parameter]) -> Iterator[inspect.Parameter]:
    """The parameters of a handler as options, in order."""
    for parameter in parameters:
        made = _dataclass_of(parameter)
        if made is None:
            yield parameter
            continue
        types = get_type_hints(made, include_extras=True)
        for field in dataclasses.fields(made):
            missing = field.default is dataclasses.MISSING
            default = inspect.Parameter.empty if missing else field.default
            kind = inspect.Parameter.KEYWORD_ONLY
            yield inspect.Parameter(field.name, kind, default=default, annotation=types[field.name])


def gathered(parameters: Sequence[inspect.Parameter]) -> tuple[Gathered, ...]:
    return tuple(
        Gathered(parameter.name, made, tuple(field.name for field in dataclasses.fields(made)))
        for parameter in parameters
        if (made := _dataclass_of(parameter)) is not None
    )


def _dataclass_of(parameter: inspect.Parameter) -> Any:
    return parameter.annotation if dataclasses.is_dataclass(parameter.annotation) else None
