"""Whose pod it is, by its labels."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from shared.kubernetes.names import GRANT
from shared.kubernetes.objects import is_number, mapping_of, texts_of
from shared.kueue.names import WORKLOAD


class RunId(NamedTuple):
    """The uid of a Workload, and the grant that its pods run under."""

    uid: str
    grant: int


def run_of(pod: Mapping[str, Any]) -> RunId | None:
    """Return whose pod it is; None where it is not of a Workload that Coplace started."""
    labels = texts_of(mapping_of(mapping_of(pod).get("metadata")).get("labels"))
    uid, grant = labels.get(WORKLOAD, ""), labels.get(GRANT, "")
    return RunId(uid, int(grant)) if uid and is_number(grant) else None
