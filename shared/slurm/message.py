"""One JSON message of the plugin, read field by field.

What describes a job is cleaned, cut or left out where it is not as it must be, and its field noted
in `repaired`: it is no reason to lose a start or an end. What identifies a job must be right.
"""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson

from coplace_client.errors import RejectedError
from shared.domain.printable import MOST_PRINTABLE, printable

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UINT32_END: Final = 2**32
# Slurm's NO_VAL and INFINITE: numbers that say that there is none.
_NO_NUMBERS: Final = frozenset({2**32 - 2, 2**32 - 1})
# As Slurm says that a job has no nodes.
NO_NODES: Final = frozenset({"", "(null)", "None", "None assigned"})
_NO_TIMES: Final = frozenset({"", "Unknown", "None"})


class Message:
    """A message's fields. Methods whose name begins with `needed` raise RejectedError, which names
    the field; `repaired` has the fields of which something was left out, in no order."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields
        self.repaired: set[str] = set()

    @classmethod
    def parse(cls, data: bytes | None, max_message_bytes: int) -> "Message":
        """Parse the message in a record's value; bytes that are not UTF-8 are replaced. Raises
        RejectedError for what is no JSON object."""
        if data is None or len(data) > max_message_bytes:
            size = "none" if data is None else len(data)
            raise RejectedError("value", f"must have 1 to {max_message_bytes} bytes, has {size}")
        fields = _json(data)
        if not isinstance(fields, dict):
            raise RejectedError("value", "must be a JSON object")
        return cls(fields)

    def but(self, **fields: Any) -> "Message":
        """Return a message that has these fields, and all others as they are."""
        return Message({**self._fields, **fields})

    def has(self, field: str) -> bool:
        """Return whether the message holds anything in a field."""
        return self._fields.get(field) is not None

    def text(self, field: str, most: int = MOST_PRINTABLE) -> str:
        """Return up to `most` printable characters; empty where it is null, missing or no text."""
        value = self._fields.get(field)
        if value is None:
            return ""
        if not isinstance(value, str):
            self.repaired.add(field)
            return ""
        cleaned = printable(value, most)
        if cleaned != value:
            self.repaired.add(field)
        return cleaned

    def raw(self, field: str) -> str:
        """Return a text that is read and not shown, as it is; empty where it is none."""
        value = self._fields.get(field)
        if isinstance(value, str):
            return value
        if value is not None:
            self.repaired.add(field)
        return ""

    def number(self, field: str) -> int | None:
        """Return a whole number of 32 bits; None where it is null, missing, Slurm's "no value" or
        no such number."""
        value = self._fields.get(field)
        if value is None:
            return None
        if type(value) is not int or not 0 <= value < _UINT32_END:
            self.repaired.add(field)
            return None
        return None if value in _NO_NUMBERS else value

    def needed_number(self, field: str) -> int:
        """Return a whole number above 0."""
        value = self._fields.get(field)
        found = self.number(field)
        if not found:
            raise RejectedError(
                field, f"must be a number from 1 to {_UINT32_END - 3}, got {value!r:.40}"
            )
        return found

    def time_us(self, field: str) -> int:
        """Return a time, UTC unless it says another offset; 0 where it is null, missing, unknown or
        no time."""
        try:
            return self._time_us(field)
        except RejectedError:
            self.repaired.add(field)
            return 0

    def needed_time_us(self, field: str) -> int:
        """Return a time."""
        found = self._time_us(field)
        if not found:
            raise RejectedError(field, "is missing: it must be a time")
        return found

    def _time_us(self, field: str) -> int:
        value = self._fields.get(field)
        if value is None:
            return 0
        try:
            if value.strip() in _NO_TIMES:
                return 0
            moment = datetime.fromisoformat(value)
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=UTC)
            return (moment - _EPOCH) // timedelta(microseconds=1)
        except (AttributeError, ValueError, OverflowError):
            raise RejectedError(field, f"must be an ISO 8601 time, got {value!r:.40}") from None


def _json(data: bytes) -> Any:
    """Slurm writes bytes of users as they are, and signs that JSON does not allow in a text."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(data.decode(errors="replace"), strict=False)
    except (ValueError, RecursionError) as error:
        raise RejectedError("value", f"must be JSON: {str(error)[:200]!r}") from None
