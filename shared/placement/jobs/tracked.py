"""A job as placement tracks it, and the bytes in which the changelog keeps it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from math import inf
from operator import attrgetter
from typing import Any, Final, Self

import orjson

from shared.domain.job import Condition, Dependency, Job, JobState
from shared.placement.candidates.candidate import Candidate, SlowerMode
from shared.placement.candidates.misfits import Misfit
from shared.placement.jobs.actions import Action, ActionKind, Refused
from shared.placement.jobs.grants import Void

# Characters of somebody's reason that are kept: each decision on the job repeats it.
MOST_TEXT: Final = 256


class GuaranteeState(StrEnum):
    """What shutters said of a promised slowdown."""

    UNMEASURED = "unmeasured"
    KEPT = "kept"
    BROKEN = "broken"


@dataclass(slots=True)
class Placed:
    """Where a job was put: `units` of it on each of the nodes, one where there are none. `grant` is
    0 where a resource manager started it by itself. `draw_mw` is what the job draws there beyond
    idle; None until it was estimated. `freq_ghz` is 0 where placement did not choose it, and
    `plan_round` is that of the plan which it started by, None without. `power_sd` is how far its
    power may be off, as a share: None where its prediction did not say. `silent_units` of it are on
    nodes whose meters are silent, and `nameplate_mw` is what it counts for at least meanwhile.
    `predicted_mw` is what it draws as it was predicted, whatever meters show since."""

    cluster: str
    nodes: tuple[int, ...]
    limit_s: float
    ends_s: float
    grant: int = 0
    draw_mw: int | None = None
    units: tuple[int, ...] = ()
    freq_ghz: float = 0.0
    plan_round: int | None = None
    wanted_ghz: float = 0.0
    mode_limit_s: float = 0.0
    suspended_s: float | None = None
    power_sd: float | None = None
    silent_units: int = 0
    nameplate_mw: int = 0
    predicted_mw: int | None = None

    @property
    def walltime_s(self) -> float:
        """The limit of a whole run at the present P-state."""
        return self.mode_limit_s or self.limit_s

    @property
    def counted_mw(self) -> int:
        """What it draws beyond idle when it runs: by nameplate where meters are silent."""
        return max(self.draw_mw or 0, self.nameplate_mw)

    @property
    def left_s(self) -> float:
        """What is left of the limit of one that is suspended, a second at least."""
        assert self.suspended_s is not None
        return max(self.ends_s - self.suspended_s, 1.0)

    def run_on(self, now_s: float) -> None:
        """It runs again: the time in which it was suspended counts for no limit."""
        if self.suspended_s is not None:
            self._prolong(max(now_s - self.suspended_s, 0.0))
            self.suspended_s = None

    def change(self, freq_ghz: float, draw_mw: int, walltime_s: float, now_s: float) -> None:
        """It runs at another P-state: what is left of its limit stretches as a whole run's does."""
        self._prolong(self.stretched_s(walltime_s, now_s))
        self.freq_ghz, self.draw_mw, self.mode_limit_s = freq_ghz, draw_mw, walltime_s
        self.predicted_mw = draw_mw

    def stretched_s(self, walltime_s: float, now_s: float) -> float:
        """By how much its end moves where a whole run may take so long from now on."""
        from_s = now_s if self.suspended_s is None else self.suspended_s
        return max(self.ends_s - from_s, 0.0) * (walltime_s / self.walltime_s - 1)

    def _prolong(self, by_s: float) -> None:
        self.mode_limit_s = self.walltime_s
        self.limit_s, self.ends_s = self.limit_s + by_s, self.ends_s + by_s

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
    it does not. `weighed` is the number of the updates that its candidates are of. `isolated` is a
    held one that is not even weighed, since deciding on it failed. `actions` are those on its run
    that were not answered, `asked_actions` how many were asked of this attempt, `done_action` the
    newest that was done, `refusals` what was refused; `suspend` is the reason why an operator
    suspends it, `suspend_asked` the time and id of the newest word on that. `requeue` is why an
    operator wants this attempt put back, None where nobody does, `requeue_asked` the time and id of
    the newest word on that. `runs_on` is the cluster on which this attempt runs as the resource
    manager there says, while that is not declared. `ran` is for what share of its limit it ran,
    None where it did not, or nobody says. `promised` is T_co / T_solo that no neighbour may make it
    exceed, 0 where nothing was promised, and `promise` what came of it so far. `priority_asked` is
    the time and id of the newest word on its priority.
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
    actions: tuple[Action, ...] = ()
    asked_actions: int = 0
    done_action: int = 0
    refusals: tuple[Refused, ...] = ()
    suspend: str | None = None
    suspend_asked: tuple[int, str] = (0, "")
    requeue: str | None = None
    requeue_asked: tuple[int, str] = (0, "")
    runs_on: str = ""
    ran: float | None = None
    promised: float = 0.0
    promise: GuaranteeState = GuaranteeState.UNMEASURED
    priority_asked: tuple[int, str] = (0, "")

    @property
    def is_suspended(self) -> bool:
        """True while it stands still."""
        return self.placed is not None and self.placed.suspended_s is not None

    @property
    def awaited(self) -> Action | None:
        """What was asked last, until it is answered. Of those before it none is answered any more:
        resource managers obey the newest alone. So whether they were done is not known where that
        was refused."""
        last = self.actions[-1] if self.actions else None
        return last if last and last.number == self.asked_actions else None

    @property
    def will_be_suspended(self) -> bool:
        """The same when what was asked last is done."""
        return self.awaited.is_suspended if self.awaited else self.is_suspended

    @property
    def drawn_mw(self) -> int:
        """What it draws beyond idle on its nodes: the most of how it is and may be by now."""
        assert self.placed is not None
        now_mw = 0 if self.is_suspended else self.placed.counted_mw
        return max([now_mw, *map(self.drawn_after_mw, self.actions)])

    def drawn_after_mw(self, action: Action) -> int:
        """What it draws beyond idle once an action is done: no P-state lowers what counts by
        nameplate."""
        assert self.placed is not None
        return 0 if action.stops else max(action.draw_mw, self.placed.nameplate_mw)

    @property
    def releases_s(self) -> float:
        """When it gives its nodes back at the latest: the latest of how it is and may be by now."""
        placed = self.placed
        assert placed is not None
        ends_s = [placed.ends_s]
        for action in self.actions:
            if action.is_suspended:
                continue
            later_s = placed.stretched_s(action.walltime_s, action.asked_s)
            from_s = action.asked_s if placed.suspended_s is None else placed.suspended_s
            ends_s.append(placed.ends_s + later_s + action.asked_s - from_s)
        return max(ends_s)

    def is_refused(self, kind: ActionKind, since_s: float) -> bool:
        """Whether its resource manager refused such an action since then."""
        return any(one.kind is kind and one.since_s > since_s for one in self.refusals)

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
        """JSON of all but the candidates, in which an infinite number is null and nodes are runs.
        Candidates are three quarters of a job, and stay the same while it comes and goes."""
        state = dict(zip(_SAVED, _of_tracked(self), strict=True))
        if self.placed:
            placed = dict(zip(_OF_PLACED, _of_placed(self.placed), strict=True))
            state["placed"] = {**placed, "nodes": runs_of(self.placed.nodes)}
        state["refusals"] = [[*refused] for refused in self.refusals]
        return orjson.dumps(state)

    @classmethod
    def from_bytes(cls, value: bytes) -> Self:
        """The job that `to_bytes` wrote. One of before candidates were kept apart has them."""
        state: dict[str, Any] = orjson.loads(value)
        state["job"] = Job.restored(state["job"])
        state["state"] = JobState(state["state"])
        state["candidates"] = tuple(map(candidate_of, state.get("candidates", ())))
        state["awaits"] = tuple(
            Dependency(d["job_id"], Condition(d["condition"])) for d in state["awaits"]
        )
        state["asked"] = tuple(state["asked"])
        state["promise"] = GuaranteeState(state.get("promise", GuaranteeState.UNMEASURED))
        for name in ("suspend_asked", "requeue_asked", "priority_asked"):
            state[name] = tuple(state.get(name, (0, "")))
        state["actions"] = tuple(map(_action, state.get("actions", ())))
        refusals = state.get("refusals", ())
        state["refusals"] = tuple(Refused(ActionKind(kind), since_s) for kind, since_s in refusals)
        for name in ("void", "seized"):
            state[name] = tuple(Void(**fields) for fields in state[name])
        # A state of before jobs were rejected holds only those that fit.
        state.setdefault("admitted", True)
        state["misfits"] = tuple(map(Misfit.restored, state.get("misfits", ())))
        if state["placed"]:
            state["placed"] = _placed(state["placed"])
        return cls(**state)

    def candidates_to_bytes(self) -> bytes | None:
        """JSON of its candidates and the attempt that they are of; None where there are none."""
        if not self.candidates:
            return None
        return orjson.dumps([self.job.attempt, [*map(row_of, self.candidates)]])

    def restore_candidates(self, value: bytes) -> None:
        """Take what that wrote, if it is of this attempt."""
        attempt, candidates = orjson.loads(value)
        if attempt == self.job.attempt and not self.ended:
            self.candidates = tuple(map(candidate_of, candidates))


_SAVED: Final = tuple([each.name for each in fields(Tracked) if each.name != "candidates"])
_OF_PLACED: Final = tuple([each.name for each in fields(Placed)])
_of_tracked: Final = attrgetter(*_SAVED)
_of_placed: Final = attrgetter(*_OF_PLACED)


def _action(fields: dict[str, Any]) -> Action:
    return Action(**{**fields, "kind": ActionKind(fields["kind"])})


def _placed(fields: dict[str, Any]) -> Placed:
    """A state of before units were kept has the number of a set of nodes instead."""
    known = {name: value for name, value in fields.items() if name in _OF_PLACED}
    nodes, units = tuple(nodes_of(fields["nodes"])), tuple(fields.get("units", ()))
    return Placed(**{**known, "nodes": nodes, "units": units})


_OF_CANDIDATE: Final = tuple([each.name for each in fields(Candidate)])
_row: Final = attrgetter(*_OF_CANDIDATE)


def row_of(candidate: Candidate) -> tuple[Any, ...]:
    """A candidate as JSON keeps it: its fields by their place, which is half of the time and of the
    bytes that names take."""
    row: tuple[Any, ...] = _row(candidate)
    return row


def candidate_of(kept: dict[str, Any] | list[Any]) -> Candidate:
    """The candidate whose row went through JSON: a shorter one is of before there were the last
    fields, one by names of before there were rows."""
    fields = kept if isinstance(kept, dict) else dict(zip(_OF_CANDIDATE, kept, strict=False))
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
