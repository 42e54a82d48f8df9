"""Objects of an API server, of which users write most: each field is read as what it may be, and
one of another type counts as missing."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from coplace_client.errors import RejectedError

_LATEST_US: Final = 4_102_444_800_000_000
_MOST_DIGITS: Final = 18
# The API server gives the id, and takes no other names.
_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
_UID: Final = re.compile(r"[0-9A-Za-z](?:[-0-9A-Za-z.]{0,126}[0-9A-Za-z])?")
_IDENTITY: Final = (("namespace", _NAME), ("name", _NAME), ("uid", _UID))
_UID_LENGTH: Final = 8


class ApiObject:
    """What all objects in a namespace have, by the `fields` that an API server shows."""

    __slots__ = ()
    fields: Mapping[str, Any]

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Return its metadata."""
        return mapping_of(self.fields.get("metadata"))

    @property
    def spec(self) -> Mapping[str, Any]:
        """Return what was asked for."""
        return mapping_of(self.fields.get("spec"))

    @property
    def status(self) -> Mapping[str, Any]:
        """Return its status, as the API server has it."""
        return mapping_of(self.fields.get("status"))

    @property
    def uid(self) -> str:
        """Return the id of this object: another one of its name has another one."""
        return str(self.metadata["uid"])

    @property
    def local_id(self) -> str:
        """Return what distinguishes it from all of its kind on its API server, also those of its
        name in the same second."""
        named = self.metadata
        return f"{named['namespace']}/{named['name']}/{self.uid[:_UID_LENGTH]}"

    @property
    def resource_version(self) -> str:
        """Return the version of what is shown: an update that names it changes nothing newer."""
        return str(self.metadata.get("resourceVersion", ""))

    @property
    def labels(self) -> Mapping[str, str]:
        """Return its labels."""
        return texts_of(self.metadata.get("labels"))

    @property
    def annotations(self) -> Mapping[str, str]:
        """Return its annotations."""
        return texts_of(self.metadata.get("annotations"))

    @property
    def finalizers(self) -> Sequence[str]:
        """Return the finalizers that have to be removed before it is deleted."""
        told = self.metadata.get("finalizers")
        return [each for each in told if isinstance(each, str)] if isinstance(told, list) else []

    @property
    def created_at_us(self) -> int:
        """Return when it was created, to the second."""
        return time_us(self.metadata.get("creationTimestamp"))

    @property
    def deleted_at_us(self) -> int:
        """Return when somebody deleted it; 0 where nobody did, or nobody knows when."""
        return time_us(self.metadata.get("deletionTimestamp"))


def time_us(text: object) -> int:
    """Parse a time of the API into microseconds; 0 where there is none."""
    try:
        found = round(datetime.fromisoformat(str(text)).timestamp() * 1e6) if text else 0
    except (ValueError, OverflowError, OSError):
        return 0
    return found if 0 < found < _LATEST_US else 0


def unmanaged(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object without what says who wrote which field: nobody reads it, and it is half of
    the object."""
    metadata = mapping_of(found.get("metadata"))
    if "managedFields" not in metadata:
        return found
    kept = {name: value for name, value in metadata.items() if name != "managedFields"}
    return {**found, "metadata": kept}


def mapping_of(value: object) -> Mapping[str, Any]:
    """Return a mapping; an empty one where it is none."""
    return value if isinstance(value, Mapping) else {}


def mappings_of(value: object) -> list[Mapping[str, Any]]:
    """Return the mappings of a list; none where it is no list."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def whole_of(value: object) -> int | None:
    """Return a whole number; None where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def texts_of(value: object) -> Mapping[str, str]:
    """Return the texts of a mapping by their names."""
    return {name: text for name, text in mapping_of(value).items() if isinstance(text, str)}


def conditions_of(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the conditions of a status."""
    yield from mappings_of(status.get("conditions"))


def condition_of(status: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """Return the condition of a name that is true; None where none is."""
    for found in conditions_of(status):
        if found.get("type") == name and found.get("status") == "True":
            return found
    return None


def require_identity(metadata: Mapping[str, Any]) -> None:
    """Raise RejectedError for metadata without the identity that an API server gives."""
    for name, form in _IDENTITY:
        told = metadata.get(name)
        if not isinstance(told, str) or not form.fullmatch(told):
            raise RejectedError(f"metadata.{name}", f"must be a name, got {str(told)[:40]!r}")
    if not time_us(metadata.get("creationTimestamp")):
        raise RejectedError("metadata.creationTimestamp", "must be a time")


def is_number(text: str) -> bool:
    """Return whether a text is a number in decimal digits."""
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS


def is_older(version: str, than: str) -> bool:
    """Return whether a version of an object is older: versions are numbers that grow with each
    write of an API server (etcd's revision)."""
    both = (version, than)
    return all(map(is_number, both)) and int(version) < int(than)
