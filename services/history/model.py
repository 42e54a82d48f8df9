"""Facts about runs, folded into one row an attempt. Pure.

The rows are the same whatever the order in which topics are read: facts of one topic come in its
order, and of what several topics say the one of the highest rank counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from typing import Final, NamedTuple

from coplace.v1.history_service_pb2 import (
    RUN_STATE_CANCELLED,
    RUN_STATE_COMPLETED,
    RUN_STATE_DECIDED,
    RUN_STATE_FAILED,
    RUN_STATE_REJECTED,
    RUN_STATE_REQUEUED,
    RUN_STATE_RUNNING,
    RUN_STATE_TIMED_OUT,
    RUN_STATE_WAITING,
    RunState,
)
from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_CANCELLED,
    JOB_OUTCOME_COMPLETED,
    JOB_OUTCOME_FAILED,
    JOB_OUTCOME_TIMED_OUT,
    JobFinished,
    JobRequeued,
    JobStarted,
    JobSubmitted,
)
from coplace.v1.placement_pb2 import (
    VERDICT_ACTION,
    VERDICT_CANCELLED,
    VERDICT_REJECTED,
    VERDICT_START,
    PlacementDecided,
)

from coplace_client.errors import RejectedError
from services.history.charges import ChargeRow
from shared.domain.array_tasks import TaskIndices, as_task, parse_tasks
from shared.domain.hostlist import expand

RunFact = JobSubmitted | JobStarted | JobFinished | JobRequeued | PlacementDecided | ChargeRow
# Its job and the number of the attempt.
RunKey = tuple[str, int]

_ENDS: Final[Mapping[int, RunState.ValueType]] = {
    JOB_OUTCOME_COMPLETED: RUN_STATE_COMPLETED,
    JOB_OUTCOME_FAILED: RUN_STATE_FAILED,
    JOB_OUTCOME_TIMED_OUT: RUN_STATE_TIMED_OUT,
    JOB_OUTCOME_CANCELLED: RUN_STATE_CANCELLED,
}
_VERDICTS: Final[Mapping[int, RunState.ValueType]] = {
    VERDICT_CANCELLED: RUN_STATE_CANCELLED,
    VERDICT_REJECTED: RUN_STATE_REJECTED,
    VERDICT_START: RUN_STATE_DECIDED,
}


class OwnerRank(IntEnum):
    """Who says whose a run is; the attempt before where nobody says it of this one."""

    INHERITED = 0
    CHARGED = 1
    SUBMITTED = 2
    FINISHED = 3


class ClusterRank(IntEnum):
    """Who says where a run is."""

    UNKNOWN = 0
    SUBMITTED = 1
    DECIDED = 2
    CHARGED = 3
    STARTED = 4
    FINISHED = 5


class RunRow(NamedTuple):
    """One attempt of a job, as in the table `runs`; what is not known is empty or 0."""

    job_id: str
    attempt: int
    state: int = RUN_STATE_WAITING
    owner_rank: int = OwnerRank.INHERITED
    user: str = ""
    account: str = ""
    app_id: str = ""
    submitted_at_us: int = 0
    place_rank: int = ClusterRank.UNKNOWN
    cluster: str = ""
    nodes: int = 0
    freq_ghz: float = 0.0
    started_at_us: int = 0
    node_names: str = ""
    verdict: int = 0
    decided_at_us: int = 0
    reason: str = ""
    requeued_at_us: int = 0
    requeue_reason: str = ""
    outcome: int = 0
    ended_at_us: int = 0
    energy_j: float = 0.0
    revision: int = 0
    price_micro_su: int = 0
    in_full_micro_su: int = 0
    ended_as: str = ""
    exit_code: int = 0
    signal: int = 0

    @property
    def key(self) -> RunKey:
        """Return what identifies the run."""
        return self.job_id, self.attempt

    @property
    def is_finished(self) -> bool:
        """Return whether its resource manager said how it ended."""
        return self.place_rank == ClusterRank.FINISHED


def fold_runs(known: Iterable[RunRow], facts: Sequence[RunFact]) -> dict[RunKey, RunRow]:
    """Return all runs of some jobs after more facts; `known` are all that were known of these."""
    rows = {row.key: row for row in known}
    for fact in facts:
        if isinstance(fact, JobRequeued):
            _requeue(rows, fact)
            continue
        row = _row(rows, fact.job_id, fact.attempt)
        rows[row.key] = _fold(row, fact)
        if isinstance(fact, PlacementDecided) and fact.array_job_id:
            array = _row(rows, fact.array_job_id, 1)
            rows[row.key] = _owned_as(rows[row.key], array)
    _own_tasks(rows, facts)
    owners: dict[str, RunRow] = {}
    for key in sorted(rows):
        rows[key] = _settled(rows[key], owners)
    return rows


def tasks_of(facts: Iterable[RunFact]) -> dict[str, TaskIndices]:
    """Return the arrays that were submitted, with their tasks."""
    arrays: dict[str, TaskIndices] = {}
    for fact in facts:
        if isinstance(fact, JobSubmitted) and fact.array:
            with suppress(RejectedError):
                arrays[fact.job_id] = parse_tasks(fact.array)
    return arrays


def _own_tasks(rows: dict[RunKey, RunRow], facts: Iterable[RunFact]) -> None:
    """Note whose the tasks are of arrays that were submitted: these were decided before it was
    read."""
    arrays = tasks_of(facts)
    if not arrays:
        return
    for key, row in rows.items():
        named = as_task(row.job_id)
        tasks = arrays.get(named[0]) if named else None
        if named and tasks and tasks.ordinal(named[1]) is not None:
            rows[key] = _owned_as(row, _row(rows, named[0], 1))


def _row(rows: Mapping[RunKey, RunRow], job_id: str, attempt: int) -> RunRow:
    return rows.get((job_id, attempt)) or RunRow(job_id, attempt)


def _requeue(rows: dict[RunKey, RunRow], fact: JobRequeued) -> None:
    """Note on the attempt before that the next one goes on."""
    following = _row(rows, fact.job_id, fact.attempt)
    rows[following.key] = following
    if fact.attempt < 2:
        return
    row = _row(rows, fact.job_id, fact.attempt - 1)
    if not row.requeued_at_us:
        row = row._replace(requeued_at_us=fact.requeued_at_us, requeue_reason=fact.reason)
    rows[row.key] = row


def _fold(row: RunRow, fact: RunFact) -> RunRow:
    match fact:
        case JobSubmitted():
            return _submitted(row, fact)
        case JobStarted():
            return _started(row, fact)
        case JobFinished():
            return _finished(row, fact)
        case PlacementDecided():
            return _decided(row, fact)
        case ChargeRow():
            return _charged(row, fact)
        case _:
            raise TypeError(f"no fact about a run: {type(fact)}")


def _submitted(row: RunRow, fact: JobSubmitted) -> RunRow:
    if row.owner_rank < OwnerRank.SUBMITTED:
        row = row._replace(
            owner_rank=OwnerRank.SUBMITTED,
            user=fact.user,
            account=fact.account,
            app_id=fact.app_id,
            submitted_at_us=fact.submitted_at_us,
        )
    if row.place_rank < ClusterRank.SUBMITTED:
        row = row._replace(place_rank=ClusterRank.SUBMITTED, nodes=fact.nodes)
    return row


def _decided(row: RunRow, fact: PlacementDecided) -> RunRow:
    """The latest decision counts. An action is done to a run that goes on, and what is void is
    about another run."""
    says_nothing = fact.is_void or fact.verdict == VERDICT_ACTION
    if says_nothing or fact.decided_at_us < row.decided_at_us:
        return row
    row = row._replace(verdict=fact.verdict, decided_at_us=fact.decided_at_us, reason=fact.reason)
    if fact.verdict == VERDICT_START and row.place_rank <= ClusterRank.DECIDED:
        row = row._replace(
            place_rank=ClusterRank.DECIDED,
            cluster=fact.cluster,
            nodes=len(fact.node_indices),
            freq_ghz=fact.freq_ghz,
        )
    return row


def _started(row: RunRow, fact: JobStarted) -> RunRow:
    if not row.node_names:
        row = row._replace(node_names="\n".join(fact.nodes))
    if row.place_rank < ClusterRank.STARTED:
        row = row._replace(
            place_rank=ClusterRank.STARTED,
            cluster=fact.cluster,
            nodes=sum(map(_count, fact.nodes)),
            freq_ghz=fact.freq_ghz,
            started_at_us=fact.started_at_us,
        )
    return row


def _count(hosts: str) -> int:
    """Return how many nodes a host list names; an invalid one counts as one."""
    try:
        return len(expand(hosts))
    except RejectedError:
        return 1


def _finished(row: RunRow, fact: JobFinished) -> RunRow:
    if row.is_finished:
        return row
    row = row._replace(
        ended_as=fact.ended_as,
        exit_code=fact.exit_code,
        signal=fact.signal,
        node_names="\n".join(fact.node_names) or row.node_names,
    )
    return _ended(row, fact, OwnerRank.FINISHED, ClusterRank.FINISHED)


def _charged(row: RunRow, charge: ChargeRow) -> RunRow:
    """Note the price by the latest revision; and how it ended, where its finish is not kept."""
    if charge.revision <= row.revision:
        return row
    row = row._replace(
        revision=charge.revision,
        price_micro_su=charge.price_micro_su,
        in_full_micro_su=charge.in_full_micro_su,
    )
    if row.is_finished:
        return row
    return _ended(row, charge.finished, OwnerRank.CHARGED, ClusterRank.CHARGED)


def _ended(row: RunRow, fact: JobFinished, owner: OwnerRank, place: ClusterRank) -> RunRow:
    row = row._replace(outcome=fact.outcome, ended_at_us=fact.ended_at_us, energy_j=fact.energy_j)
    if row.owner_rank <= owner:
        row = row._replace(
            owner_rank=owner,
            user=fact.user,
            account=fact.account,
            app_id=fact.app_id,
            submitted_at_us=fact.submitted_at_us,
        )
    if row.place_rank <= place:
        row = row._replace(
            place_rank=place,
            cluster=fact.cluster,
            nodes=fact.nodes,
            freq_ghz=fact.freq_ghz,
            started_at_us=fact.started_at_us,
        )
    return row


def _settled(row: RunRow, owners: dict[str, RunRow]) -> RunRow:
    """Return a row with what follows from it and from the attempts before, which come first."""
    if row.owner_rank == OwnerRank.INHERITED:
        if owner := owners.get(row.job_id):
            row = _owned_as(row, owner)
    else:
        owners[row.job_id] = row
    return row._replace(state=_state(row))


def _owned_as(row: RunRow, owner: RunRow) -> RunRow:
    """Return the row of another attempt, or of a task of an array, with whose it is, where nobody
    said so of itself."""
    if row.owner_rank != OwnerRank.INHERITED or not owner.user:
        return row
    return row._replace(
        user=owner.user,
        account=owner.account,
        app_id=owner.app_id,
        submitted_at_us=owner.submitted_at_us,
    )


def _state(row: RunRow) -> RunState.ValueType:
    if row.ended_at_us:
        return _ENDS.get(row.outcome, RUN_STATE_COMPLETED)
    if row.requeued_at_us:
        return RUN_STATE_REQUEUED
    if row.place_rank == ClusterRank.STARTED:
        return RUN_STATE_RUNNING
    return _VERDICTS.get(row.verdict, RUN_STATE_WAITING)
