"""The drawing of entities and edges that a viewer explores, at most 1,000 entities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from omnigraph.console.arrangement import arranged, sunflower
from omnigraph.console.facts import EntityName, label_of

MOST_ENTITIES = 1000
_ROUNDS_FOR_FEW, _FEW = 25, 250
_ROUNDS_FOR_MANY = 12
_COLOURS = (
    *("#4c6ef5", "#12b886", "#f59f00", "#e64980", "#15aabf", "#7950f2"),
    *("#82c91e", "#fd7e14", "#868e96", "#e03131"),
)


@dataclass(slots=True)
class DrawnEntity:
    """An entity in the drawing."""

    name: EntityName
    label: str
    x: float
    y: float
    pinned: bool = False


@dataclass(slots=True)
class Canvas:
    """Entities and edges by name, in the order in which they were added."""

    entities: dict[EntityName, DrawnEntity] = field(default_factory=dict)
    edges: dict[EntityName, tuple[EntityName, EntityName]] = field(default_factory=dict)
    hidden_types: set[str] = field(default_factory=set)

    @property
    def room(self) -> int:
        return MOST_ENTITIES - len(self.entities)

    def add(self, type_name: str, entity: Mapping[str, Any], near: EntityName | None) -> EntityName:
        """Put an entity into the drawing, beside another one if that is given."""
        name = EntityName(type_name, str(entity["id"]))
        if name not in self.entities:
            number = len(self.entities)
            spot = sunflower(number + 1)[number] * 0.6
            if near is not None and near in self.entities:
                around = self.entities[near]
                spot = spot / max(1.0, float(np.linalg.norm(spot))) * 1.5 + (around.x, around.y)
            self.entities[name] = DrawnEntity(
                name, label_of(entity), float(spot[0]), float(spot[1])
            )
        return name

    def link(self, edge: EntityName, source: EntityName, target: EntityName) -> None:
        self.edges[edge] = (source, target)

    def remove(self, name: EntityName) -> None:
        self.entities.pop(name, None)
        self.edges = {e: ends for e, ends in self.edges.items() if name not in ends}

    def arrange(self, fixed: Iterable[EntityName] = ()) -> None:
        """Give every entity a place that is neither fixed nor pinned."""
        names = list(self.entities)
        index = {name: i for i, name in enumerate(names)}
        still = set(fixed)
        places = np.array([(d.x, d.y) for d in self.entities.values()], dtype=np.float64)
        held = [self.entities[n].pinned or n in still for n in names]
        links = [(index[a], index[b]) for a, b in self.edges.values() if a in index and b in index]
        rounds = _ROUNDS_FOR_FEW if len(names) <= _FEW else _ROUNDS_FOR_MANY
        for name, (x, y) in zip(
            names, arranged(places.reshape(-1, 2), links, held, rounds), strict=True
        ):
            self.entities[name].x, self.entities[name].y = float(x), float(y)

    def options(self, chosen: EntityName | None = None) -> dict[str, Any]:
        """The drawing for the chart."""
        types = sorted({name.type for name in self.entities})
        colour = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(types)}
        shown = {n: d for n, d in self.entities.items() if n.type not in self.hidden_types}
        key = {name: str(i) for i, name in enumerate(self.entities)}
        few = len(shown) <= 150
        return {
            "animation": False,
            "tooltip": {"show": False},
            "series": [
                {
                    "type": "graph",
                    "layout": "none",
                    "roam": True,
                    "edgeSymbol": ["none", "arrow"],
                    "edgeSymbolSize": 6,
                    "label": {"show": few, "position": "right", "formatter": "{b}"},
                    "data": [
                        {
                            "id": key[name],
                            "name": drawn.label,
                            "value": 0,
                            "x": drawn.x * 60,
                            "y": drawn.y * 60,
                            "symbolSize": 26 if name == chosen else 16,
                            "itemStyle": {
                                "color": colour[name.type],
                                "borderWidth": 3 if drawn.pinned else 0,
                                "borderColor": "#000",
                            },
                        }
                        for name, drawn in shown.items()
                    ],
                    "links": [
                        {"source": key[a], "target": key[b]}
                        for a, b in self.edges.values()
                        if a in shown and b in shown
                    ],
                }
            ],
        }

    def at(self, key: str) -> EntityName:
        """The entity that the chart calls `key`."""
        return list(self.entities)[int(key)]
