"""Which decisions a resource manager is to obey: pure, and the same however they reach it."""

from collections.abc import Collection
from typing import Final, Protocol

from coplace.v1.placement_pb2 import VERDICT_CANCELLED, VERDICT_REJECTED, Verdict

_DROPPED: Final = (VERDICT_CANCELLED, VERDICT_REJECTED)


class Addressed(Protocol):
    """What says whom a decision is for."""

    @property
    def job_id(self) -> str:
        """Return the job."""

    @property
    def cluster(self) -> str:
        """Return where it starts, is withdrawn or is to end; empty: nowhere."""

    @property
    def verdict(self) -> Verdict.ValueType:
        """Return what is decided."""


def is_asked(decision: Addressed, site: str, clusters: Collection[str]) -> bool:
    """Return whether the resource manager of these clusters is to obey a decision. One is on no
    cluster where it is to drop a job of its own that fits nowhere, or was cancelled before it had a
    start."""
    if decision.cluster:
        return decision.cluster in clusters
    return decision.verdict in _DROPPED and is_own(decision.job_id, site, clusters)


def is_own(job_id: str, site: str, clusters: Collection[str]) -> bool:
    """Return whether a job was submitted to the resource manager of these clusters."""
    return job_id.startswith(tuple(f"{site}/{cluster}/" for cluster in clusters))
