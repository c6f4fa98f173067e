"""One line for each request, and the log of the server, as text or JSON on stderr."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any, TextIO

from omnigraph.values.temporal import write_micros


class LineFormatter(logging.Formatter):
    """A record with its fields: `time level logger message key=value …`, or one JSON object."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = getattr(record, "fields", {})
        moment = write_micros(int(record.created * 1_000_000))
        text = record.getMessage()
        trouble = self.formatException(record.exc_info) if record.exc_info else None
        if self._as_json:
            line = {"time": moment, "level": record.levelname.lower(), "logger": record.name}
            found = {**line, "message": text, **fields}
            if trouble:
                found["exception"] = trouble
            return json.dumps(found, ensure_ascii=False, default=str)
        shown = " ".join(f"{key}={_shown(value)}" for key, value in fields.items())
        head = f"{moment} {record.levelname.lower()} {text}"
        line_text = f"{head} {shown}" if shown else head
        return f"{line_text}\n{trouble}" if trouble else line_text


def _shown(value: Any) -> str:
    text = "-" if value is None else str(value)
    return json.dumps(text, ensure_ascii=False) if " " in text or '"' in text else text


def configure_logging(log_format: str, level: str, stream: TextIO | None = None) -> None:
    """Send the log of this process to stderr. Stdout has the ready line only."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(LineFormatter(as_json=log_format == "json"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    known = logging.getLevelNamesMapping()
    logging.getLogger("omnigraph").setLevel(known.get(level.upper(), logging.INFO))


def log_event(logger: logging.Logger, text: str, **fields: Any) -> None:
    """One line about the server itself."""
    logger.info(text, extra={"fields": fields})
