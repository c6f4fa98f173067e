"""The annotations that have a meaning, read from the catalog."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.catalog.model import Annotation, Literal, Property


@dataclass(frozen=True, slots=True)
class Embedding:
    """`@embed("bio", model="…")`: which property a vector is made from, and by which model."""

    source: str
    model: str | None


def find_annotation(annotations: tuple[Annotation, ...], name: str) -> Annotation | None:
    return next((annotation for annotation in annotations if annotation.name == name), None)


def default_of(declared: Property) -> Literal:
    """The literal of `@default`, None when there is none: NULL is the default then anyway."""
    found = find_annotation(declared.annotations, "default")
    return found.arguments[0] if found else None


def renamed_from(annotations: tuple[Annotation, ...]) -> str | None:
    """The name of `@rename_from`."""
    found = find_annotation(annotations, "rename_from")
    return str(found.arguments[0]) if found and found.arguments else None


def embedding_of(declared: Property) -> Embedding | None:
    found = find_annotation(declared.annotations, "embed")
    if found is None:
        return None
    model = dict(found.options).get("model")
    return Embedding(str(found.arguments[0]), None if model is None else str(model))
