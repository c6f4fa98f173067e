"""What a load does with rejected rows, and the file that gets them.

With `on_error="skip"` a load goes on without these rows. With `rejects=PATH` it writes them as
NDJSON, also when it fails.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from omnigraph.catalog.model import Catalog
from omnigraph.errors import InvalidArgument, StorageFailure
from omnigraph.integrity.violations import Place
from omnigraph.load.prepare_rows import MOST_REJECTED, RejectedRow
from omnigraph.manifest.records import StreamBatch
from omnigraph.scoping.shown_records import may_name, quiet_message
from omnigraph.values.json_values import finite, json_form

SKIPPED_BY_DEFAULT = 1000
"""With `on_error="skip"` and no `max_errors`: a load with more rejected rows fails."""
_READ_AT_LEAST = 10_000
"""With so many rejected rows, or violations if rows are not kept, the input is still read."""


@dataclass(frozen=True, slots=True)
class RejectRules:
    """What a load does with rejected rows."""

    skip: bool = False
    most: int = MOST_REJECTED
    """A load that skips fails if more rows are rejected."""
    path: Path | None = None
    always_written: bool = True
    """Also if no row is rejected. False for streams, which would leave a file for every batch."""
    named: Catalog | None = None
    """For a writer that sees a part of the graph: reasons name nothing else, and tell nothing
    about stored entities. None: everything.
    """

    @property
    def keeps_rows(self) -> bool:
        return self.skip or self.path is not None

    def is_hopeless(self, rejected: int, violations: int) -> bool:
        """So much is wrong with rows by themselves that the rest of the input is not read.

        Reading goes on beyond `most`, because the file should list what is to be corrected.
        """
        if not self.keeps_rows:
            return violations > _READ_AT_LEAST
        return rejected > max(self.most, _READ_AT_LEAST)

    def write(self, rejected: Mapping[Place, RejectedRow]) -> None:
        """Write the file whole or not at all; a file of an earlier load is replaced."""
        if self.path is None:
            return
        if not rejected and not self.always_written:
            self.path.unlink(missing_ok=True)
            return
        try:
            _write_whole(
                self.path, (_line(place, row, self.named) for place, row in rejected.items())
            )
        except OSError as error:
            raise StorageFailure(
                f"{self.path}: the rejected rows cannot be written: {error.strerror or error}",
                file=str(self.path),
            ) from error


def dead_letter_file(folder: str | os.PathLike[str], batch: StreamBatch) -> Path:
    """The file for rejected rows of one batch; a batch that is repeated writes the same file."""
    place = Path(os.fspath(folder).removeprefix("file://")).expanduser()
    if "://" in os.fspath(folder) and not os.fspath(folder).startswith("file://"):
        raise InvalidArgument(
            f"{folder}: rejected rows of a stream are written to a local folder",
            file=str(folder),
            option="dead_letter",
        )
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgument(
            f"{folder}: the folder for rejected rows cannot be made: {error.strerror or error}",
            file=str(folder),
            option="dead_letter",
        ) from error
    return place / f"{quote(batch.stream, safe='')}-{batch.batch:06}.ndjson"


def usable_path(given: str | os.PathLike[str]) -> Path:
    """The path of a file of rejected rows; refuses one that cannot be written."""
    text = os.fspath(given)
    if "://" in text and not text.startswith("file://"):
        raise InvalidArgument(
            f"{text}: rejected rows are written to a local file", file=text, option="rejects"
        )
    path = Path(text.removeprefix("file://")).expanduser()
    if path.is_dir():
        raise InvalidArgument(
            f"{path} is a directory; name the file of rejected rows",
            file=str(path),
            option="rejects",
        )
    if not path.parent.is_dir():
        raise InvalidArgument(
            f"{path}: the directory of the file of rejected rows does not exist",
            file=str(path),
            option="rejects",
        )
    return path


def _line(place: Place, rejected: RejectedRow, named: Catalog | None) -> str:
    first = rejected.violations[0]
    reasons = [
        {"rule": v.rule, "property": v.property, "message": v.message}
        for v in rejected.violations
        if named is None or may_name(named, v.row_type(), v.property)
    ]
    if named is not None:
        for reason in reasons:
            reason["message"] = quiet_message(str(reason["rule"]), reason["message"] or "")
    return json.dumps(
        {
            "file": place.file,
            "line": place.line,
            "type": first.row_type(),
            "rule": first.rule,
            "message": "; ".join(str(reason["message"]) for reason in reasons),
            "violations": reasons,
            "row": finite(rejected.row),
        },
        default=json_form,
        ensure_ascii=False,
    )


def _write_whole(path: Path, lines: Iterable[str]) -> None:
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with beside.open("x", encoding="utf-8", errors="replace") as file:
            file.writelines(f"{line}\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
