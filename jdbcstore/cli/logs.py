"""The log of a process that serves, on stderr: as pairs or as JSON, and the audit log."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

_STANDARD_FIELDS = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
"""Attributes of every log record; all others come from ``extra``."""


class _Formatter(logging.Formatter):
    def fields(self, record: logging.LogRecord) -> dict[str, object]:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields: dict[str, object] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= {name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return fields


class JsonFormatter(_Formatter):
    """One JSON object per line, in ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(self.fields(record), default=str)


class TextFormatter(_Formatter):
    """``name=value`` pairs; a value that is not one plain word is quoted as JSON."""

    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{name}={_word(str(value))}" for name, value in self.fields(record).items())


def _word(text: str) -> str:
    plain = text.isprintable() and text and not {*text} & {*' "='}
    return text if plain else json.dumps(text)


def log_to_stderr(log_format: str, *, debug: bool) -> None:
    """Log to stderr at level INFO, and with ``debug`` this library at level DEBUG."""
    from jdbcstore.broker.management.audit import AUDIT_LOG

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("jdbcstore").setLevel(logging.DEBUG if debug else logging.INFO)
    audit = logging.StreamHandler(sys.stderr)  # its lines are JSON already
    logging.getLogger(AUDIT_LOG).addHandler(audit)
    logging.getLogger(AUDIT_LOG).propagate = False
