"""Events of Kubernetes, by which users read what becomes of an object."""

from collections.abc import Mapping
from typing import Any, Final

_MOST_NAME: Final = 50
_MOST_MESSAGE: Final = 1024


def user_event(
    about: Mapping[str, str], reason: str, message: str, at: str, *, is_warning: bool
) -> Mapping[str, Any]:
    """Return an event about an object (`apiVersion`, `kind`, `name`, `namespace`, `uid`) as
    Kubernetes wants it; `at` is the time as ISO 8601 writes it."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "generateName": f"{about['name'][:_MOST_NAME]}.",
            "namespace": about["namespace"],
        },
        "involvedObject": dict(about),
        "reason": reason,
        "message": message[:_MOST_MESSAGE],
        "type": "Warning" if is_warning else "Normal",
        "source": {"component": "coplace"},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
