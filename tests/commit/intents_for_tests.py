"""Short spellings of intents."""

from __future__ import annotations

from ulid import ULID

from omnigraph.commit.intents import Intent, IntentKind, Resources
from omnigraph.manifest.publication import CommitDraft, Publication, TableMove
from omnigraph.manifest.records import MAIN_REF, TablePin
from omnigraph.values.identifiers import node_table

LEASE = 10.0


def ulid(number: int) -> str:
    return str(ULID.from_int(number))


def pin(name: str = "A", version: int = 5, epoch: str = "e0") -> TablePin:
    return TablePin(node_table(name), f"nodes/{name}", None, version, 1, "main", epoch)


def move(name: str = "A", version: int = 5, uuid: str | None = "mine") -> TableMove:
    before = pin(name, version)
    return TableMove(before, before.changed_to(version + 1, 2, "c1"), uuid)


def intent(
    number: int,
    exclusive: str = "a",
    shared: str = "",
    kind: IntentKind = IntentKind.WRITE,
    operation: int | None = None,
) -> Intent:
    publication = Publication(
        ulid(number), 1, commit=CommitDraft("c1", "apply"), moves=(move(), move("B"))
    )
    return Intent(
        intent_id=ulid(number),
        operation_id=ulid(operation or number),
        kind=kind,
        branch=MAIN_REF,
        resources=Resources(frozenset(exclusive.split()), frozenset(shared.split())),
        lease_seconds=LEASE,
        actor_id="ada",
        publication=publication if kind is IntentKind.WRITE else None,
    )
