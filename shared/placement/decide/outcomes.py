"""What a round decides of jobs, typed and without words."""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.placement.state.actions import Action
from shared.placement.state.grants import VoidStart
from shared.placement.state.job_allocation import JobAllocation
from shared.placement.state.job_record import JobRecord
from shared.scheduling.backfill import Start


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A start must not take place: `is_void` where the grant is of an earlier start, or of a claim
    of somebody else."""

    job: JobRecord
    start: VoidStart
    is_void: bool


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A job must not start any more, and must end where it was put."""

    job: JobRecord


@dataclass(frozen=True, slots=True)
class ActionAsked:
    """Something is asked of the resource manager that runs a job."""

    job: JobRecord
    allocation: JobAllocation
    action: Action


@dataclass(frozen=True, slots=True)
class CoRunners:
    """The jobs that have part of a job's nodes too, and the slowdown T_co / T_solo that is
    predicted of it."""

    job_ids: Sequence[str] = ()
    slowdown_ratio: float = 1.0


@dataclass(frozen=True, slots=True)
class Started:
    """A job starts, alone or beside others. `predicted_s` is for how long it is predicted to run,
    where it passed by that; `booting` are its nodes that are off or boot."""

    job: JobRecord
    allocation: JobAllocation
    start: Start
    co_runners: CoRunners
    predicted_s: float | None
    booting: Sequence[int] = ()
