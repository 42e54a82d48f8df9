"""A job as placement tracks it, and the bytes in which the changelog keeps it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Self

import orjson

from shared.domain.job import Condition, Dependency, Job, JobState
from shared.placement.grants import Void
from shared.placement.misfits import Misfit
from shared.placement.model import Candidate, SlowerMode


@dataclass(slots=True)
class Placed:
    """Where a job was put: `units` of it on each of the nodes, one where there are none. `grant` is
    0 where a resource manager started it by itself. `draw_mw` is what the job draws there beyond
    idle; None until it was estimated. `freq_ghz` is 0 where placement did not choose it, and
    `plan_round` is that of the plan which it started by, None without."""

    cluster: str
    nodes: tuple[int, ...]
    limit_s: float
    ends_s: float
    grant: int = 0
    draw_mw: int | None = None
    units: tuple[int, ...] = ()
    freq_ghz: float = 0.0
    plan_round: int | None = None

    @property
    def since_s(self) -> float:
        """When its resource manager started it; until it has said so, when that was decided."""
        return self.ends_s - self.limit_s


@dataclass(slots=True)
class Tracked:
    """The newest attempt of a job. Without candidates it was not weighed yet.

    `held` and `cancelled` are the reasons that somebody gave; `asked` is the time and id of the
    newest such event. `awaits` are the dependencies that were not met yet. `grant` numbers its
    starts over all attempts; `asked_back` is why the last one was, `missed` says that it was since
    nobody answered in time, and `missed_starts` counts those that were then declined. `requeues`
    counts how often it was put back since it was released last, and `put_back` is why it was.
    Holders of `void` starts are to be told; those of `seized` ones have not answered. `announced`
    is the last verdict on it, `told` what the reason was; before `settles_s` one that comes and
    goes with what runs is not told anew. `ended_s` is the end of the round that brought its end.
    `admitted` says that it was found to fit on a declared cluster when it came; `misfits` are why
    it does not. `weighed` is the number of the news that its candidates are of. `isolated` is a
    held one that is not even weighed, since deciding on it failed.
    """

    job: Job
    arrival: int
    traceparent: str
    state: JobState = JobState.SUBMITTED
    candidates: tuple[Candidate, ...] = ()
    placed: Placed | None = None
    ended_s: float | None = None
    completed: bool = False
    awaits: tuple[Dependency, ...] = ()
    held: str | None = None
    cancelled: str | None = None
    asked: tuple[int, str] = (0, "")
    grant: int = 0
    asked_back: str = ""
    missed: bool = False
    missed_starts: int = 0
    requeues: int = 0
    put_back: str = ""
    void: tuple[Void, ...] = ()
    seized: tuple[Void, ...] = ()
    announced: int = 0
    told: str = ""
    settles_s: float = 0.0
    isolated: bool = False
    admitted: bool = False
    weighed: int = 0
    misfits: tuple[Misfit, ...] = ()

    @property
    def waits(self) -> bool:
        """True while it may be started."""
        return self.state is JobState.SUBMITTED

    @property
    def ended(self) -> bool:
        """True when no start of it is expected any more."""
        return self.state in (JobState.FINISHED, JobState.CANCELLED, JobState.REJECTED)

    @property
    def lacks_slower_modes(self) -> bool:
        """True where nobody looked at lower P-states since it was weighed."""
        return any(candidate.slower is None for candidate in self.candidates)

    def candidate(self, cluster: str) -> Candidate:
        """The one for a cluster."""
        return next(c for c in self.candidates if c.cluster == cluster)

    def to_bytes(self) -> bytes:
        """JSON, in which an infinite number is null and nodes are runs."""
        state = {name: getattr(self, name) for name in self.__slots__}
        if self.placed:
            placed = {name: getattr(self.placed, name) for name in Placed.__slots__}
            state["placed"] = {**placed, "nodes": runs_of(self.placed.nodes)}
        return orjson.dumps(state)

    @classmethod
    def from_bytes(cls, value: bytes) -> Self:
        """The job that `to_bytes` wrote."""
        state: dict[str, Any] = orjson.loads(value)
        state["job"] = Job.restored(state["job"])
        state["state"] = JobState(state["state"])
        state["candidates"] = tuple(map(candidate_of, state["candidates"]))
        state["awaits"] = tuple(
            Dependency(d["job_id"], Condition(d["condition"])) for d in state["awaits"]
        )
        state["asked"] = tuple(state["asked"])
        for name in ("void", "seized"):
            state[name] = tuple(Void(**fields) for fields in state[name])
        # A state of before jobs were rejected holds only those that fit.
        state.setdefault("admitted", True)
        state["misfits"] = tuple(map(Misfit.restored, state.get("misfits", ())))
        if state["placed"]:
            state["placed"] = _placed(state["placed"])
        return cls(**state)


def _placed(fields: dict[str, Any]) -> Placed:
    """A state of before units were kept has the number of a set of nodes instead."""
    known = {name: value for name, value in fields.items() if name in Placed.__slots__}
    nodes, units = tuple(nodes_of(fields["nodes"])), tuple(fields.get("units", ()))
    return Placed(**{**known, "nodes": nodes, "units": units})


def candidate_of(fields: dict[str, Any]) -> Candidate:
    """The candidate whose fields went through JSON."""
    if fields["part_eff"] is None:
        fields["part_eff"] = inf
    slower = fields.get("slower")
    modes = None if slower is None else tuple(SlowerMode(**mode) for mode in slower)
    return Candidate(**{**fields, "slower": modes})


def runs_of(nodes: Sequence[int]) -> list[int]:
    """First and count of each run of indices that follow one another, one after the other: a job on
    all nodes of the largest cluster takes no more than one on a few."""
    runs: list[int] = []
    for node in nodes:
        if runs and node == runs[-2] + runs[-1]:
            runs[-1] += 1
        else:
            runs += [node, 1]
    return runs


def nodes_of(runs: Sequence[int]) -> Iterator[int]:
    """The indices that `runs_of` wrote."""
    for first, count in zip(runs[::2], runs[1::2], strict=True):
        yield from range(first, first + count)
