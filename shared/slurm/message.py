"""One JSON message of the plugin, read field by field with its types checked."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson

from coplace_client.errors import RejectedError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UINT32_END: Final = 2**32
# Slurm's NO_VAL and INFINITE: numbers that say that there is none.
_NO_NUMBERS: Final = frozenset({2**32 - 2, 2**32 - 1})
_NO_TIMES: Final = frozenset({"", "Unknown", "None"})


class Message:
    """A message's fields. Every reader raises RejectedError, which names the field."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    @classmethod
    def parse(cls, data: bytes | None, max_message_bytes: int) -> "Message":
        """Parse the message in a record's value."""
        if data is None or len(data) > max_message_bytes:
            size = "none" if data is None else len(data)
            raise RejectedError("value", f"must have 1 to {max_message_bytes} bytes, has {size}")
        try:
            fields = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise RejectedError("value", f"must be JSON in UTF-8: {error}") from None
        if not isinstance(fields, dict):
            raise RejectedError("value", "must be a JSON object")
        return cls(fields)

    def text(self, field: str) -> str:
        """Return a string; empty when it is null or missing."""
        value = self._fields.get(field)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise RejectedError(field, f"must be a string, got {value!r:.40}")
        return value

    def number(self, field: str) -> int | None:
        """Return a whole number of 32 bits; None when it is null, missing or Slurm's "no value"."""
        value = self._fields.get(field)
        if value is None:
            return None
        if type(value) is not int or not 0 <= value < _UINT32_END:
            raise RejectedError(field, f"must be from 0 to {_UINT32_END - 1}, got {value!r:.40}")
        return None if value in _NO_NUMBERS else value

    def needed_number(self, field: str) -> int:
        """Return a whole number above 0."""
        value = self.number(field)
        if not value:
            raise RejectedError(field, "must be a number above 0")
        return value

    def time_us(self, field: str) -> int:
        """Parse a time, UTC unless it says another offset; 0 when it is null, missing or
        unknown."""
        value = self.text(field)
        if value in _NO_TIMES:
            return 0
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise RejectedError(field, f"must be an ISO 8601 time, got {value[:40]!r}") from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(microseconds=1)
