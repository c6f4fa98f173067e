"""The values of `@default(now())` and `@default(uuid())`.

A write makes them for new entities whose rows leave the property out. A write that replaces a
stored entity keeps the stored value instead, so that writing the same input again changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EntityType, GeneratedDefault, Property, generated_defaults

_MILLIS_PER_DAY = 24 * 60 * 60 * 1000
_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint8)
_DASHES = (8, 13, 18, 23)
_UUID_LENGTH = 36
_UUID_BYTES = 16


def generated_column(
    default: GeneratedDefault, kind: pa.DataType, rows: int, now_millis: int
) -> pa.Array:
    """New values for so many rows: the moment or day of the write, or one uuid for each row."""
    if default.function == "uuid":
        return uuids_of(os.urandom(rows * _UUID_BYTES))
    moment = now_millis // _MILLIS_PER_DAY if pa.types.is_date(kind) else now_millis
    return pa.repeat(pa.scalar(moment, kind), rows)


def fill_generated(
    entity: EntityType,
    table: pa.Table,
    left_out: Callable[[str], npt.NDArray[np.bool_]],
    now_millis: int,
) -> pa.Table:
    """New values for the rows that leave a property out; `left_out` says which rows do."""
    for name, default in generated_defaults(entity).items():
        mask = pa.array(left_out(name))
        if not mask.true_count:
            continue
        place = table.schema.get_field_index(name)
        field = table.schema.field(place)
        made = generated_column(default, field.type, mask.true_count, now_millis)
        filled = pc.replace_with_mask(table.column(place).combine_chunks(), mask, made)
        table = table.set_column(place, field, filled)
    return table


def derived_column(
    default: GeneratedDefault,
    declared: Property,
    kind: pa.DataType,
    ids: pa.ChunkedArray,
    now_millis: int,
) -> pa.Array:
    """Values for rows of a table that does not have the property.

    A uuid is a hash of the property and the id, so that all sides of a merge agree about it. The
    moment is that of the merge.
    """
    if default.function == "uuid":
        texts = (f"{declared.identity}:{entity_id}" for entity_id in ids.to_pylist())
        return uuids_of(
            b"".join(blake2b(t.encode(), digest_size=_UUID_BYTES).digest() for t in texts)
        )
    return generated_column(default, kind, len(ids), now_millis)


def uuids_of(random: bytes) -> pa.Array:
    """16 bytes for each uuid of version 4, as lower-case text."""
    numbers = np.frombuffer(random, np.uint8).reshape(-1, _UUID_BYTES).copy()
    numbers[:, 6] = numbers[:, 6] & 0x0F | 0x40
    numbers[:, 8] = numbers[:, 8] & 0x3F | 0x80
    digits = _HEX.reshape(256, 2)[numbers].reshape(-1, 2 * _UUID_BYTES)
    texts = np.full((len(numbers), _UUID_LENGTH), ord("-"), np.uint8)
    places = np.delete(np.arange(_UUID_LENGTH), _DASHES)
    texts[:, places] = digits
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * _UUID_LENGTH
    return pa.StringArray.from_buffers(
        len(numbers), pa.py_buffer(offsets.tobytes()), pa.py_buffer(texts.tobytes())
    )
