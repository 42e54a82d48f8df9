"""A job as placement tracks it, and the bytes in which the changelog keeps it."""

from dataclasses import dataclass
from math import inf
from typing import Any, Self

import orjson

from services.placement.model import Candidate
from shared.domain.job import Job, JobState


@dataclass(slots=True)
class Placed:
    """Where a job was put. Jobs of one `node_set` share all their nodes; its number is the arrival
    number of the job that opened it."""

    cluster: str
    nodes: tuple[int, ...]
    node_set: int
    limit_s: float
    ends_s: float


@dataclass(slots=True)
class Tracked:
    """The newest attempt of a job. Without candidates it waits for its first outcome."""

    job: Job
    arrival: int
    traceparent: str
    state: JobState = JobState.SUBMITTED
    candidates: tuple[Candidate, ...] = ()
    placed: Placed | None = None
    ended_s: float | None = None

    @property
    def waits(self) -> bool:
        """True while it may be started."""
        return self.state is JobState.SUBMITTED and self.placed is None

    def candidate(self, cluster: str) -> Candidate:
        """The one for a cluster."""
        return next(c for c in self.candidates if c.cluster == cluster)

    def to_bytes(self) -> bytes:
        """JSON, in which an infinite number is null."""
        return orjson.dumps(self)

    @classmethod
    def from_bytes(cls, value: bytes) -> Self:
        """The job that `to_bytes` wrote."""
        state: dict[str, Any] = orjson.loads(value)
        state["job"] = Job(**state["job"])
        state["state"] = JobState(state["state"])
        state["candidates"] = tuple(map(_candidate, state["candidates"]))
        if state["placed"]:
            placed = state["placed"]
            state["placed"] = Placed(**{**placed, "nodes": tuple(placed["nodes"])})
        return cls(**state)


def _candidate(fields: dict[str, Any]) -> Candidate:
    if fields["part_eff"] is None:
        fields["part_eff"] = inf
    return Candidate(**fields)
