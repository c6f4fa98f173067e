"""Which form of an answer a client prefers: `Accept` and `Accept-Encoding`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

GZIP, ZSTD = "gzip", "zstd"
ENCODINGS = (ZSTD, GZIP)
"""Compressions of bodies, in the order of preference."""

_ANY = "*/*"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One member of a header with its weight."""

    name: str
    weight: float

    def matches(self, offer: str) -> bool:
        if self.name in (_ANY, "*", offer):
            return True
        return self.name.endswith("/*") and offer.startswith(self.name[:-1])


@lru_cache(maxsize=512)
def choose_media(accept: str | None, offers: tuple[str, ...]) -> str | None:
    """The offer with the highest weight; among equal ones the one that the client lists first.

    Without the header, and for `*/*`, it is the first offer. None: the client takes no offer.
    """
    if accept is None or not accept.strip():
        return offers[0]
    wanted = _members(accept)
    refused = {member.name for member in wanted if member.weight == 0}
    for member in sorted(wanted, key=lambda each: -each.weight):  # the sort keeps equal ones
        if member.weight == 0:
            continue
        for offer in offers:
            if member.matches(offer) and offer not in refused:
                return offer
    return None


@lru_cache(maxsize=512)
def choose_encoding(accept: str | None) -> str | None:
    """The compression of an answer; None is no compression."""
    if not accept:
        return None
    wanted = _members(accept)
    named = {member.name: member.weight for member in wanted}
    weights = {name: named.get(name, named.get("*", 0.0)) for name in ENCODINGS}
    best = max(weights.values())
    if best <= 0 or best < named.get("identity", 0.0):
        return None
    return next(name for name in ENCODINGS if weights[name] == best)


def _members(header: str) -> Sequence[_Wanted]:
    found = []
    for member in header.split(","):
        name, *parameters = (part.strip().lower() for part in member.split(";"))
        if name:
            found.append(_Wanted(name, _weight(parameters)))
    return found


def _weight(parameters: Sequence[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return min(1.0, max(0.0, float(value)))
            except ValueError:
                return 0.0
    return 1.0
