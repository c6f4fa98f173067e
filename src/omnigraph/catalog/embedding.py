"""`@embed("source", model="…")` of a vector property, read from its annotation."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.catalog.model import EntityType, Property


@dataclass(frozen=True, slots=True)
class EmbedRule:
    """`property` holds vectors of the text in `source`; `model` None promises no model."""

    property: str
    source: str
    model: str | None


def embed_rule(declared: Property) -> EmbedRule | None:
    for annotation in declared.annotations:
        if annotation.name == "embed" and annotation.arguments:
            model = dict(annotation.options).get("model")
            return EmbedRule(
                declared.name,
                str(annotation.arguments[0]),
                None if model is None else str(model),
            )
    return None


def embed_rules(entity: EntityType) -> tuple[EmbedRule, ...]:
    found = (embed_rule(p) for p in entity.properties)
    return tuple(rule for rule in found if rule is not None)
