"""Decisions that were published before the state was restored: replayed, not decided again.

A state that is older than the decisions reads rounds again that it has decided. It might decide
them otherwise: what a clock refused then is believed now, and the other way about. Resource
managers have acted on what was published, so that holds: in these rounds nothing starts, is
rejected or is asked but what was.
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

from coplace.v1.jobs_pb2 import (
    JobActionDone,
    JobActionRefused,
    JobDeclined,
    JobFinished,
    JobStarted,
)
from coplace.v1.placement_pb2 import (
    PREDICTION_BASIS_FIRST_RUN,
    VERDICT_ACTION,
    VERDICT_CANCELLED,
    VERDICT_REJECTED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    PlacementDecided,
)
from coplace.v1.placement_pb2 import Candidate as CandidateMessage
from google.protobuf.message import Message

from shared.catalogue.event import Event
from shared.domain.job import JobFact, JobState, next_state
from shared.placement.decide.interactive_jobs import NEVER, too_late
from shared.placement.decide.passing import Passing
from shared.placement.evaluate.misfits import misfits
from shared.placement.state.actions import KINDS, Action, ActionCause, ActionKind, CauseKind
from shared.placement.state.announcements import SOURCE
from shared.placement.state.candidate import draw_mw, nameplate_mw
from shared.placement.state.grants import WithdrawalKind, WithdrawalReason
from shared.placement.state.job_allocation import JobAllocation
from shared.placement.state.job_record import JobRecord
from shared.placement.state.job_table import JobTable
from shared.placement.state.model_store import ModelStore
from shared.streams.stages.stage import Round
from shared.streams.stages.unit_state import PUBLISHED_THROUGH
from shared.streams.state.state import SingleRow, State, Table

_TABLE: Final = "published"
# What somebody may have acted on; that a job waits, and why, is published anew.
_BINDING: Final = frozenset(
    {VERDICT_START, VERDICT_WITHDRAWN, VERDICT_CANCELLED, VERDICT_REJECTED, VERDICT_ACTION}
)
_OF_GRANTS: Final = (JobStarted, JobDeclined, JobFinished, JobActionDone, JobActionRefused)
_What = tuple[str, int, int, int, str, int]


def recalled(
    restored: Mapping[str, bytes], told: Iterable[Event], next_round: int
) -> Mapping[str, bytes | None]:
    """Return the changes that keep in a state what was published after it.

    `next_round` is its first round that is not closed. Of two decisions on one start the first
    counts: the other was decided by a state that was restored when nothing was recalled yet.
    """
    found: dict[_What, tuple[str, PlacementDecided]] = {}
    state = State(restored)
    rows, kept_last = _kept_in(state)
    last = _round_of(kept_last)
    for event in told:
        decided = event.payload
        if not isinstance(decided, PlacementDecided) or event.source != SOURCE:
            continue
        if decided.round >= next_round:
            last = max(last, decided.round)
            if decided.verdict in _BINDING:
                found.setdefault(_what(decided), (event.id, decided))
    for name, decided in found.values():
        rows.put(name, _shortened(decided))
    if last >= next_round:
        kept_last.put(last)
    return state.changes()


def _kept_in(state: State) -> tuple[Table[PlacementDecided], SingleRow[int]]:
    """Return the decisions that are not replayed yet, and the last round of a published one."""
    return state.table(_TABLE, PlacementDecided), state.value(PUBLISHED_THROUGH, int)


class PublishedDecisions:
    """Decisions that were published and are not replayed yet, of a restored state; else empty.

    What was published on a job is replayed at the end of its round, or before an answer to it is
    taken in. What concerns a job or a cluster that is not known stays until it is.
    """

    def __init__(
        self, kept: State, job_table: JobTable, models: ModelStore, passing: Passing
    ) -> None:
        self._job_table, self._models, self._passing = job_table, models, passing
        self._rows, self._kept_last = _kept_in(kept)
        self._last = _round_of(self._kept_last)
        self._round = -1
        self._left: dict[str, dict[str, PlacementDecided]] = {}
        self._what: set[_What] = set()
        for key, decided in sorted(self._rows.items(), key=lambda one: (*_order(one[1]), one[0])):
            self._left.setdefault(decided.job_id, {})[key] = decided
            self._what.add(_what(decided))

    def covers(self, ended: Round) -> bool:
        """Return whether a round was decided before: nothing else follows from it."""
        return ended.number <= self._last

    @property
    def is_played(self) -> bool:
        """Return whether the last published round has ended: the next one decides what is left."""
        return 0 <= self._last <= self._round

    def has(self, decided: PlacementDecided) -> bool:
        """Return whether a decision is yet to be replayed: then it need not be published."""
        return _what(decided) in self._what

    def play(self, ended: Round) -> None:
        """Apply what was published up to a round."""
        if self._last < ended.number and self._last >= 0:
            self._last = -1
            self._kept_last.drop()
        self._round = ended.number
        left = list(chain.from_iterable(found.items() for found in self._left.values()))
        due = [(key, decided) for key, decided in left if decided.round <= ended.number]
        for key, decided in sorted(due, key=lambda one: _order(one[1])):
            self._play(key, decided)

    def play_before(self, answer: Message) -> None:
        """Apply what a resource manager answers to: it was published, but its round is still
        open."""
        if isinstance(answer, _OF_GRANTS) and answer.job_id in self._left:
            for key, decided in list(self._left[answer.job_id].items()):
                if _is_answered(decided, answer):
                    self._play(key, decided)

    def _play(self, key: str, decided: PlacementDecided) -> None:
        job = self._job_table.named(decided.job_id)
        if job is None or job.job.attempt < decided.attempt:
            return
        if job.job.attempt == decided.attempt and not self._came_true(job, decided):
            return
        self._what.discard(_what(decided))
        self._rows.drop(key)
        del self._left[decided.job_id][key]
        if not self._left[decided.job_id]:
            del self._left[decided.job_id]

    def _came_true(self, job: JobRecord, decided: PlacementDecided) -> bool:
        """Apply a decision; return False while its cluster is not declared as it was."""
        match decided.verdict:
            case _ if decided.verdict == VERDICT_START:
                return self._start(job, decided)
            case _ if decided.verdict == VERDICT_REJECTED:
                self._reject(job)
            case _ if decided.verdict == VERDICT_ACTION:
                self._act(job, decided)
            case _ if decided.grant and decided.grant == job.grants.newest and not decided.is_void:
                if job.life.state is JobState.GRANTED and not job.grants.withdrawn:
                    job.grants.withdrawn = WithdrawalReason(
                        WithdrawalKind.PUBLISHED, text=decided.reason
                    )
        if decided.verdict != VERDICT_ACTION and not decided.is_void:
            job.notice.verdict, job.notice.reason = decided.verdict, ""
        self._job_table.revisit(job)
        return True

    def _start(self, job: JobRecord, decided: PlacementDecided) -> bool:
        if decided.grant <= job.grants.newest:
            return True
        if not job.waits:  # it began, or ended, by another word
            job.grants.newest = decided.grant
        elif not self._has_nodes(decided):
            self._job_table.keep_for(job, decided.cluster)
            return False
        else:
            job.life.state, job.grants.newest = (
                next_state(job.life.state, JobFact.GRANTED),
                decided.grant,
            )
            job.evaluated.admitted, job.grants.missed, job.run.runs_on, job.evaluated.misfits = (
                True,
                False,
                "",
                (),
            )
            job.notice.verdict, job.notice.reason = decided.verdict, ""
            placed = self._placed(job, decided)
            self._job_table.allocations.hold(job, placed)
            if decided.predicted_runtime_s:
                at_s = decided.decided_at_us / 1e6
                self._passing.take(placed, job.arrival, at_s, decided.predicted_runtime_s)
            job.guarantee.slowdown_ratio = decided.promised_slowdown_ratio
        self._job_table.revisit(job)
        return True

    def _has_nodes(self, decided: PlacementDecided) -> bool:
        cluster = self._models.declared.get(decided.cluster)
        return cluster is not None and max(decided.node_indices, default=-1) < cluster.nodes

    def _placed(self, job: JobRecord, decided: PlacementDecided) -> JobAllocation:
        nodes, units = tuple(decided.node_indices), tuple(decided.node_units)
        chosen = next((c for c in decided.candidates if c.cluster == decided.cluster), None)
        power_unknown = chosen is not None and _is_power_unknown(chosen)
        drawn_mw = None
        if chosen is not None and chosen.planned_time_s > 0:
            power_w = chosen.planned_energy_j / chosen.planned_time_s
            cluster, count = self._models.declared[decided.cluster], sum(units) or len(nodes)
            drawn_mw = draw_mw(job.job, cluster, power_w, count)
            if power_unknown and cluster.most_node_w:
                drawn_mw = nameplate_mw(job.job, cluster, count)
        own = decided.instead_of.freq_ghz if decided.HasField("instead_of") else decided.freq_ghz
        return JobAllocation(
            decided.cluster,
            nodes,
            decided.walltime_s,
            decided.decided_at_us / 1e6 + decided.boot_s + decided.walltime_s,
            decided.grant,
            drawn_mw,
            units,
            decided.freq_ghz,
            decided.plan_round if decided.HasField("plan_round") else None,
            own,
            power_sd=chosen.power_sd if chosen and chosen.HasField("power_sd") else None,
            power_unknown=power_unknown,
            boot_s=decided.boot_s,
            partitions=_partitions(decided),
        )

    def _reject(self, job: JobRecord) -> None:
        if job.waits:
            lacks = misfits(job.job, self._models.declared.values())
            if job.job.starts_within_s and job.evaluated.admitted:
                lacks = (too_late(job, NEVER),)
            self._job_table.reject(job, lacks)

    def _act(self, job: JobRecord, decided: PlacementDecided) -> None:
        asked, placed = decided.action, job.run.allocation
        if placed is None or decided.grant != placed.grant or asked.number <= job.run.asked_actions:
            return
        kind = KINDS[asked.kind]
        cause = ActionCause(CauseKind.PUBLISHED, decided.reason.partition(": ")[2])
        is_suspended = kind is ActionKind.SUSPEND
        sets_pstate = kind is ActionKind.SET_PSTATE
        drawn_mw = round(asked.draw_w * 1000) if sets_pstate else placed.draw_mw or 0
        mode = asked.freq_ghz, drawn_mw, asked.walltime_s
        at_s = decided.decided_at_us / 1e6
        self._job_table.ask(job, Action(asked.number, kind, *mode, is_suspended, at_s, cause))


def _round_of(kept_last: SingleRow[int]) -> int:
    last = kept_last.get()
    return -1 if last is None else last


def _what(decided: PlacementDecided) -> _What:
    """Return what identifies a decision; only a void start may be published again."""
    of = decided.job_id, decided.attempt, decided.verdict, decided.grant
    cluster = decided.cluster if decided.verdict == VERDICT_WITHDRAWN else ""
    return *of, cluster, decided.action.number


def _order(decided: PlacementDecided) -> tuple[int, int, int]:
    return decided.round, decided.grant, decided.action.number


def _shortened(decided: PlacementDecided) -> PlacementDecided:
    """Return a decision with the candidate that it starts on alone."""
    kept = PlacementDecided()
    kept.CopyFrom(decided)
    kept.ClearField("candidates")
    kept.ClearField("misfits")
    kept.candidates.extend(c for c in decided.candidates if c.cluster == decided.cluster)
    return kept


def _is_answered(decided: PlacementDecided, answer: Message) -> bool:
    """Return whether an answer names this start or action, or one after it."""
    assert isinstance(answer, _OF_GRANTS)
    if decided.attempt != answer.attempt or decided.verdict not in (VERDICT_START, VERDICT_ACTION):
        return False
    number = answer.number if isinstance(answer, JobActionDone | JobActionRefused) else 0
    is_start = decided.verdict == VERDICT_START
    return decided.grant <= answer.grant if is_start else decided.action.number <= number


def _partitions(decided: PlacementDecided) -> tuple[str, ...]:
    of_parts = tuple(part.partition for part in decided.parts)
    return of_parts or ((decided.partition,) if decided.partition else ())


def _is_power_unknown(chosen: CandidateMessage) -> bool:
    """Return whether neither a signature nor a similar job said what a job would draw."""
    return chosen.basis == PREDICTION_BASIS_FIRST_RUN and not chosen.HasField("power_sd")
