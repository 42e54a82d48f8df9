"""Logs as JSON lines on standard output, as all processes of Coplace write them."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final

# What every record has: the rest is what the logging call adds to the event.
_COMMON: Final = frozenset({*vars(logging.makeLogRecord({})), "message", "taskName"})


class JsonFormatter(logging.Formatter):
    """A record as a JSON object."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one line."""
        at = datetime.fromtimestamp(record.created, UTC)
        line = {
            **{name: value for name, value in vars(record).items() if name not in _COMMON},
            "event": record.getMessage(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "timestamp": at.isoformat().replace("+00:00", "Z"),
            "service": self._service,
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=repr)


def configure_logging(service: str, level: str) -> None:
    """Send what is logged to one JSON stream."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonFormatter(service))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
