"""The options of a reader, writer or stream, checked and typed.

Spark gives every option as text, with its name in lower case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from omnigraph.errors import InvalidArgument
from omnigraph.lance_store.reads.scan import ROWS_PER_TASK
from omnigraph.values.identifiers import MAIN
from omnigraph.values.known_names import did_you_mean

_RULES = ("actor", "policy")
_READ = ("path", "type", "branch", "commit", "tag", "columns", "filter", *_RULES)
_READ_TUNING = ("rows_per_partition",)
_FEED = ("path", "changes", "branch", "type", "start", "max_commits", *_RULES)
MAX_COMMITS = 1000
_WRITE = ("path", "type", "branch", "write_mode", "message", "config", *_RULES)
_WRITE_ONCE = ("if_commit", "idempotency_key", "on_error", "max_errors", "rejects")
_WRITE_STREAM = ("dead_letter", "max_errors")
_SPARKS_OWN = ("checkpointlocation", "queryname")
_FLAGS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class TableRequest:
    """One type of one graph at one state."""

    uri: str
    type_name: str
    branch: str = MAIN
    at: str | None = None
    """A commit id or a tag; None is the head of the branch."""
    columns: tuple[str, ...] | None = None
    filter_text: str | None = None
    rows_per_partition: int = ROWS_PER_TASK
    actor: str | None = None
    policy: str | None = None
    """A file with rules, which every process of Spark can read; None: no rules."""


def table_request(options: Mapping[str, str]) -> TableRequest:
    check_names(options, (*_READ, *_READ_TUNING))
    at = [name for name in ("commit", "tag") if options.get(name)]
    if len(at) == 2 or (at and options.get("branch")):
        given = [n for n in ("branch", "commit", "tag") if options.get(n)]
        raise InvalidArgument(f"give one of branch, commit, tag: {' and '.join(given)} are given")
    columns = options.get("columns")
    return TableRequest(
        uri=address(options),
        type_name=required(options, "type", 'the type: .option("type", "Person")'),
        branch=options.get("branch") or MAIN,
        at=options[at[0]] if at else None,
        columns=tuple(c.strip() for c in columns.split(",")) if columns else None,
        filter_text=options.get("filter") or None,
        rows_per_partition=number(options, "rows_per_partition", ROWS_PER_TASK),
        actor=options.get("actor") or None,
        policy=options.get("policy") or None,
    )


@dataclass(frozen=True, slots=True)
class ChangesRequest:
    """The changes of one branch as a stream."""

    uri: str
    branch: str
    type_name: str | None
    """One type, with images as structs; None is all types, with images as JSON."""
    start: str
    max_commits: int
    actor: str | None = None
    policy: str | None = None


def asks_for_changes(options: Mapping[str, str]) -> bool:
    return flag(options, "changes")


def feed_request(options: Mapping[str, str]) -> ChangesRequest:
    check_names(options, _FEED)
    if not asks_for_changes(options):
        raise InvalidArgument(
            'a stream reads changes, not rows: add .option("changes", "true")', option="changes"
        )
    return ChangesRequest(
        uri=address(options),
        branch=options.get("branch") or MAIN,
        type_name=options.get("type") or None,
        start=options.get("start") or "now",
        max_commits=number(options, "max_commits", MAX_COMMITS),
        actor=options.get("actor") or None,
        policy=options.get("policy") or None,
    )


@dataclass(frozen=True, slots=True)
class SaveRequest:
    """Where and how a frame, or a batch of a stream, is written."""

    uri: str
    type_name: str
    branch: str
    mode: str
    actor: str | None
    message: str | None
    config: str | None = None
    """A config file whose settings apply; None is the default settings."""
    policy: str | None = None
    if_commit: str | None = None
    idempotency_key: str | None = None
    on_error: str = "fail"
    max_errors: int | None = None
    rejects: str | None = None
    """A file of the driver that gets rejected rows."""
    dead_letter: str | None = None
    """Streams: a folder of the driver that gets a file for each batch with rejected rows."""


def save_request(options: Mapping[str, str], *, overwrite: bool) -> SaveRequest:
    check_names(options, (*_WRITE, *_WRITE_ONCE))
    found = _save_request(options, overwrite=overwrite)
    return replace(
        found,
        if_commit=options.get("if_commit") or None,
        idempotency_key=options.get("idempotency_key") or None,
        on_error=options.get("on_error") or "fail",
        max_errors=_most(options),
        rejects=options.get("rejects") or None,
    )


def sink_request(options: Mapping[str, str], *, overwrite: bool) -> SaveRequest:
    """The request of a stream.

    It has no `if_commit` and no `idempotency_key`, because a stream writes every batch once by its
    number.
    """
    check_names(options, (*_WRITE, *_WRITE_STREAM, *_SPARKS_OWN))
    folder = options.get("dead_letter") or None
    if folder is None and "max_errors" in options:
        raise InvalidArgument(
            "max_errors limits the rows that go to a folder; give dead_letter, too",
            option="max_errors",
        )
    return replace(
        _save_request(options, overwrite=overwrite),
        on_error="skip" if folder else "fail",
        max_errors=_most(options),
        dead_letter=folder,
    )


def _most(options: Mapping[str, str]) -> int | None:
    """0 is a million, None is the default."""
    text = options.get("max_errors")
    if text is None:
        return None
    if not text.isdecimal():
        raise InvalidArgument(f"option max_errors: {text!r} is not a number", option="max_errors")
    return int(text)


def _save_request(options: Mapping[str, str], *, overwrite: bool) -> SaveRequest:
    said = options.get("write_mode")
    if overwrite and said not in (None, "overwrite"):
        raise InvalidArgument(
            f'.mode("overwrite") contradicts write_mode {said!r}: use .mode("append") and '
            "write_mode",
            option="write_mode",
        )
    return SaveRequest(
        uri=address(options),
        type_name=required(options, "type", 'the type: .option("type", "Person")'),
        branch=options.get("branch") or MAIN,
        mode="overwrite" if overwrite else said or "append",
        actor=options.get("actor") or None,
        message=options.get("message") or None,
        config=options.get("config") or None,
        policy=options.get("policy") or None,
    )


def address(options: Mapping[str, str]) -> str:
    return required(options, "path", "the address of the graph: .load(URI) or .save(URI)")


def required(options: Mapping[str, str], name: str, what: str) -> str:
    value = options.get(name)
    if not value:
        raise InvalidArgument(f"give {what}", option=name)
    return value


def number(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    if not text.isdecimal() or int(text) < 1:
        raise InvalidArgument(f"option {name}: {text!r} is not a positive number", option=name)
    return int(text)


def flag(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "false").lower()
    if text not in _FLAGS:
        raise InvalidArgument(f"option {name}: {text!r} is neither true nor false", option=name)
    return _FLAGS[text]


def check_names(options: Mapping[str, str], known: Iterable[str]) -> None:
    """Refuse unknown options, because Spark ignores a misspelt name silently."""
    known = list(known)
    for name in options:
        if name not in known:
            hint = did_you_mean(name, (k for k in known if k != "path"))
            raise InvalidArgument(
                f"the omnigraph format has no option {name!r}; {hint}", option=name
            )
