"""The public surface: names, types of results, fields of errors, and the pages that list them."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import pickle
import re
import sys
from pathlib import Path

import pytest

import omnigraph
from omnigraph import errors

SRC = Path(omnigraph.__file__).parent
PAGE = SRC.parents[1] / "docs" / "python-api.md"
ERRORS = {
    name: cls
    for name, cls in vars(errors).items()
    if isinstance(cls, type) and issubclass(cls, errors.OmnigraphError)
}
DOORS = (
    omnigraph.Graph,
    omnigraph.Branches,
    omnigraph.Tags,
    omnigraph.Commits,
    omnigraph.Schema,
)
WIRING = {"Access", "DataScope", "Engine", "ExternalBases", "KeptForms", "LateRows"}
"""Types that `Graph` shows to other packages of the product and not to users."""


def test_public_names_resolve_and_are_sorted() -> None:
    assert omnigraph.__all__ == sorted(omnigraph.__all__)
    assert all(getattr(omnigraph, name) is not None for name in omnigraph.__all__)
    assert set(ERRORS) <= set(omnigraph.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Grpah'"):
        _ = omnigraph.Grpah  # type: ignore[attr-defined]


def test_every_type_that_a_method_returns_is_public() -> None:
    """Types of fields of results count too: a caller may annotate what it takes out of one."""
    waiting = list(DOORS)
    seen: set[type] = set()
    missing: dict[str, str] = {}
    while waiting:
        kind = waiting.pop()
        if kind in seen:
            continue
        seen.add(kind)
        for name, annotation in annotations_of(kind):
            for found in types_in(annotation, kind):
                if found.__name__ in WIRING:
                    continue
                if getattr(omnigraph, found.__name__, None) is not found:
                    missing[found.__name__] = f"{kind.__name__}.{name}"
                waiting.append(found)
    assert missing == {}


def annotations_of(kind: type) -> list[tuple[str, str]]:
    """Return types of the public methods, and the types of the fields of a dataclass."""
    found = [
        (name, str(getattr(member, "fget", member).__annotations__.get("return", "")))
        for name, member in inspect.getmembers(kind)
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    ]
    if dataclasses.is_dataclass(kind):
        found += [(f.name, str(f.type)) for f in dataclasses.fields(kind)]
    return found


def types_in(annotation: str, owner: type) -> list[type]:
    """Classes of the product that an annotation names, found through the imports of its module."""
    names = imports_of(owner.__module__)
    found = []
    for word in set(re.findall(r"\b[A-Z]\w+", annotation)):
        module = names.get(word, owner.__module__)
        value = getattr(importlib.import_module(module), word, None) if module else None
        if isinstance(value, type) and value.__module__.startswith("omnigraph."):
            found.append(value)
    return found


def imports_of(module: str) -> dict[str, str]:
    tree = ast.parse(Path(str(sys.modules[module].__file__)).read_text(encoding="utf-8"))
    return {
        alias.asname or alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def test_the_reference_page_lists_the_public_names() -> None:
    """Errors have a page of their own, which tests/docs/test_errors_page.py compares."""
    listed = re.findall(r"^::: (omnigraph[\w.]*)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    public = {
        f"{value.__module__}.{value.__qualname__}"
        for value in (getattr(omnigraph, name) for name in omnigraph.__all__)
        if not (isinstance(value, type) and issubclass(value, errors.OmnigraphError))
    }
    apart = ("omnigraph.spark.", "omnigraph.aio.")
    assert {name for name in listed if not name.startswith(apart)} == public
    assert len(listed) == len(set(listed))


def test_every_error_has_a_code_of_its_own_and_survives_pickling() -> None:
    codes = [cls.code for cls in ERRORS.values()]
    assert len(set(codes)) == len(codes)
    for cls in ERRORS.values():
        fields = dict.fromkeys(cls.declared, "x")
        copy = pickle.loads(pickle.dumps(cls("message", **fields)))
        assert (type(copy), copy.message, copy.fields) == (cls, "message", fields)
        assert all(getattr(copy, name) == "x" for name in cls.declared)


def test_an_error_refuses_fields_that_its_class_does_not_declare() -> None:
    with pytest.raises(TypeError, match="'tabel'"):
        errors.ExpectedVersionMismatch("message", tabel="node:X", expected=1, actual=2)
    with pytest.raises(TypeError, match="needs the field 'intents'"):
        errors.Contention("message")
    assert errors.NotFound("message", branch="x").tag is None


def test_errors_are_made_with_declared_fields() -> None:
    """A wrong field name would hide the error behind a TypeError, so every call is looked at."""
    wrong = []
    for path in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name not in ERRORS:
                continue
            given = {keyword.arg for keyword in node.keywords}
            open_ended = None in given
            missing = set() if open_ended else ERRORS[name].required - given
            if given - {None} - ERRORS[name].declared or missing:
                wrong.append(f"{path.relative_to(SRC)}:{node.lineno} {name}")
    assert wrong == []
