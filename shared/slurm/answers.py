"""Slurm's JSON as its releases write it: read field by field, and nothing in it is believed."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def number(value: Any) -> int | None:
    """Return a number of Slurm's JSON, None where it is none; later versions wrap those that may be
    missing or infinite."""
    if isinstance(value, Mapping):
        is_known = value.get("set", True) and not value.get("infinite", False)
        value = value.get("number") if is_known else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return int(value)
    except (ValueError, OverflowError):
        return None


def text(value: Any) -> str:
    """Return a text; empty for what is none."""
    return value if isinstance(value, str) else ""


def iso_time(time_s: int | None) -> str | None:
    """Return a time as ISO 8601 writes it, None where there is none."""
    try:
        return datetime.fromtimestamp(time_s, UTC).isoformat() if time_s else None
    except (ValueError, OverflowError, OSError):
        return "no time"


def mapping(shown: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object in a field; an empty one where there is none."""
    found = shown.get(name)
    return found if isinstance(found, Mapping) else {}


def texts(value: Any) -> list[str]:
    """Return the texts of a list, which earlier versions write with commas between."""
    found = value.split(",") if isinstance(value, str) else value
    if not isinstance(found, list):
        return []
    return [each for each in found if isinstance(each, str) and each]
