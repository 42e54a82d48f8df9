"""What events say that a webhook may hear of. Pure.

An event has a name of its own, by natural keys: copies, also by other sources, have the same one.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final, NamedTuple

from coplace.v1.accounts_pb2 import AllocationDeclared
from coplace.v1.history_service_pb2 import (
    RUN_STATE_CANCELLED,
    RUN_STATE_COMPLETED,
    RUN_STATE_FAILED,
    RUN_STATE_REJECTED,
    RUN_STATE_RUNNING,
    RUN_STATE_TIMED_OUT,
    Run,
    RunState,
)
from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_CANCELLED,
    JOB_OUTCOME_COMPLETED,
    JOB_OUTCOME_FAILED,
    JOB_OUTCOME_TIMED_OUT,
    JobFinished,
    JobStarted,
    JobSubmitted,
)
from coplace.v1.placement_pb2 import VERDICT_CANCELLED, VERDICT_REJECTED, PlacementDecided
from coplace.v1.pricing_pb2 import ChargeMade
from google.protobuf.message import Message

from coplace_client.checks import require_count, require_text
from coplace_client.errors import RejectedError
from coplace_client.numbers import amount
from shared.catalogue.schemas import names_of
from shared.catalogue.webhook_types import JOB_ENDED, JOB_REJECTED, JOB_STARTED
from shared.domain.hostlist import expand
from shared.domain.money import micro_units

TOPICS: Final = ("jobs.events", "placement.decisions", "prices.charges", "billing")
KINDS: Final = frozenset(
    name.encode()
    for name in names_of(
        *(JobSubmitted, JobStarted, JobFinished, PlacementDecided, ChargeMade, AllocationDeclared)
    )
)
# As pricing has it: more than any job costs, and a number of 64 bits.
_MOST_SU: Final = Decimal(10**12)
_ENDS: Final[Mapping[int, RunState.ValueType]] = {
    JOB_OUTCOME_COMPLETED: RUN_STATE_COMPLETED,
    JOB_OUTCOME_FAILED: RUN_STATE_FAILED,
    JOB_OUTCOME_TIMED_OUT: RUN_STATE_TIMED_OUT,
    JOB_OUTCOME_CANCELLED: RUN_STATE_CANCELLED,
}


class JobOwner(NamedTuple):
    """Whose a job is, and what else its submission says."""

    user: str
    account: str
    app_id: str
    nodes: int
    submitted_at_us: int

    @classmethod
    def from_submission(cls, job: JobSubmitted) -> "JobOwner":
        """Return what a submission says."""
        return cls(job.user, job.account, job.app_id, job.nodes, job.submitted_at_us)


class JobEvent(NamedTuple):
    """Something that happened to a job: the name of the event, its type, when, and the run as far
    as it is known by that."""

    event_id: str
    type: str
    at_us: int
    run: Run

    def completed(self, owner: JobOwner | None) -> "JobEvent | None":
        """Return the event with what the job's submission says; None where nobody says whose the
        job is. Who submitted a job has it, whoever says something else later."""
        if owner is None:
            return self if self.run.user else None
        run = Run()
        run.CopyFrom(self.run)
        run.user = owner.user
        run.account = run.account or owner.account
        run.app_id = run.app_id or owner.app_id
        run.nodes = run.nodes or owner.nodes
        run.submitted_at_us = run.submitted_at_us or owner.submitted_at_us
        return self._replace(run=run)


def job_event(payload: Message) -> JobEvent | None:
    """Return what an event says happened to a job, None where nobody hears of it."""
    match payload:
        case JobStarted():
            return _started(payload)
        case JobFinished():
            return _finished(payload)
        case PlacementDecided() if not payload.is_void:
            return _decided(payload)
        case _:
            return None


def _started(payload: JobStarted) -> JobEvent:
    run = Run(
        job_id=payload.job_id,
        attempt=payload.attempt,
        state=RUN_STATE_RUNNING,
        cluster=payload.cluster,
        nodes=sum(map(_count, payload.nodes)),
        node_names=payload.nodes,
        freq_ghz=payload.freq_ghz,
        started_at_us=payload.started_at_us,
    )
    return JobEvent(_name(JOB_STARTED, run), JOB_STARTED, payload.started_at_us, run)


def _finished(payload: JobFinished) -> JobEvent:
    run = Run(
        job_id=payload.job_id,
        attempt=payload.attempt,
        state=_ENDS.get(payload.outcome, RUN_STATE_COMPLETED),
        user=payload.user,
        account=payload.account,
        app_id=payload.app_id,
        cluster=payload.cluster,
        nodes=payload.nodes,
        freq_ghz=payload.freq_ghz,
        submitted_at_us=payload.submitted_at_us,
        started_at_us=payload.started_at_us,
        ended_at_us=payload.ended_at_us,
        energy_j=payload.energy_j,
    )
    return JobEvent(_name(JOB_ENDED, run), JOB_ENDED, payload.ended_at_us, run)


def _decided(payload: PlacementDecided) -> JobEvent | None:
    """A job that fits nowhere, or that is cancelled while no cluster has it: nobody reports an end
    of these."""
    run = Run(
        job_id=payload.job_id,
        attempt=payload.attempt,
        decided_at_us=payload.decided_at_us,
        reason=payload.reason,
    )
    if payload.verdict == VERDICT_REJECTED:
        run.state = RUN_STATE_REJECTED
        name = f"{_name(JOB_REJECTED, run)}/{payload.round}"
        return JobEvent(name, JOB_REJECTED, payload.decided_at_us, run)
    if payload.verdict == VERDICT_CANCELLED and not payload.cluster:
        run.state, run.ended_at_us = RUN_STATE_CANCELLED, payload.decided_at_us
        return JobEvent(_name(JOB_ENDED, run), JOB_ENDED, payload.decided_at_us, run)
    return None


def _name(kind: str, run: Run) -> str:
    return f"{kind}/{run.job_id}/{run.attempt}"


def _count(hosts: str) -> int:
    """Return how many nodes a host list names; an invalid one counts as one."""
    try:
        return len(expand(hosts))
    except RejectedError:
        return 1


def amounts_micro_su(charge: ChargeMade) -> dict[str, int]:
    """Return what a charge puts on each account: the price, and surcharges of co-runners. Raises
    RejectedError."""
    require_text("account", charge.account)
    for field in ("attempt", "revision"):
        require_count(field, getattr(charge, field))
    found = {charge.account: _micro_su("price_su", charge.price_su)}
    for row in charge.evidence:
        if row.surcharge_su:
            require_text("evidence.co_runner_account", row.co_runner_account)
            micro_su = _micro_su("evidence.surcharge_su", row.surcharge_su)
            found[row.co_runner_account] = found.get(row.co_runner_account, 0) + micro_su
    return found


def _micro_su(field: str, text: str) -> int:
    value = amount(field, text)
    if value > _MOST_SU:
        raise RejectedError(field, f"must be from 0 to {_MOST_SU}, got {text[:40]!r}")
    return micro_units(value)
