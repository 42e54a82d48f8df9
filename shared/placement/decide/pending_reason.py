"""What keeps a job, or one of its entries, out of the queue: each reason with its figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from shared.domain.job import Condition
from shared.placement.state.closure import Closure
from shared.placement.state.limits import Beyond, Subject
from shared.placement.state.misfit import Misfit
from shared.scheduling.power import Cap


@dataclass(frozen=True, slots=True)
class RunsUndeclared:
    """The job runs on a cluster that is not declared, as the resource manager there says."""

    cluster: str


@dataclass(frozen=True, slots=True)
class HeldJob:
    """Somebody holds the job."""

    reason: str


@dataclass(frozen=True, slots=True)
class RequeuedTooOften:
    """The job was requeued as often as the policy allows; `last` is why it was last."""

    times: int
    last: str


@dataclass(frozen=True, slots=True)
class StartsFailed:
    """As many starts of the job were declined, or not confirmed in time, as the policy allows."""

    starts: int


@dataclass(frozen=True, slots=True)
class NoCluster:
    """No cluster is declared."""


@dataclass(frozen=True, slots=True)
class FitsNoMore:
    """A job that was accepted fits on none of the clusters as they are declared now."""

    misfits: Sequence[Misfit]


@dataclass(frozen=True, slots=True)
class AwaitsLostCluster:
    """The job fits on no declared cluster, and may yet fit on one that is lost."""

    misfits: Sequence[Misfit]
    cluster: str


class Unmet(StrEnum):
    """Why a dependency is not met."""

    NOT_ELIGIBLE = "not eligible: its account has no job of this id"
    NOT_ENDED = "it has not ended"
    REJECTED = "it was rejected"
    FAILED = "it ended without completing"
    NOT_STARTED = "it has not started"
    COMPLETED = "it completed, so that this job never starts: cancel it"
    BEFORE = "it goes first, of the same user and name"
    DELAYED = "the delay after it ends"


@dataclass(frozen=True, slots=True)
class WaitsForJob:
    """A dependency is not met; it never will be where the job that it names ended otherwise. A
    delay ends at `until_s`."""

    job_id: str
    condition: Condition
    unmet: Unmet
    until_s: float = 0.0


@dataclass(frozen=True, slots=True)
class BeginsLater:
    """The job was submitted to start not before a time."""

    begin_s: float


@dataclass(frozen=True, slots=True)
class MissesDeadline:
    """At its limit the job cannot end by its deadline any more. On `cluster`, where that is the
    shortest, its limit is `limit_s`; from its submission on, `earliest_s` was its earliest end. A
    reservation or a maintenance keeps it from its latest start there where `kept_by` names one."""

    deadline_s: float
    cluster: str
    limit_s: float
    earliest_s: float
    kept_by: str = ""
    kept_until_s: float = 0.0


@dataclass(frozen=True, slots=True)
class WaitsInCircle:
    """The job waits for one that waits, by others, for itself."""

    job_id: str


@dataclass(frozen=True, slots=True)
class AccountEmpty:
    """The account has nothing left of what was allocated to it, service units."""

    account: str
    allocated_su: str


@dataclass(frozen=True, slots=True)
class JobLimitReached:
    """A user, an account or a QOS runs as many jobs as it may."""

    subject: Subject
    most: int
    running: int


@dataclass(frozen=True, slots=True)
class AmountLimitReached:
    """A user, an account or a QOS would have more of nodes, cores or resources than it may."""

    subject: Subject
    beyond: Beyond


@dataclass(frozen=True, slots=True)
class TasksLimitReached:
    """As many tasks of an array have nodes as may at once."""

    array_id: str
    most: int
    running: int


@dataclass(frozen=True, slots=True)
class ClusterClosed:
    """Nothing starts on the cluster: it is lost or undeclared."""

    cluster: str
    closure: Closure


@dataclass(frozen=True, slots=True)
class NodesDrained:
    """The job does not fit on what is left of the cluster until somebody resumes nodes."""

    cluster: str


@dataclass(frozen=True, slots=True)
class PowerUndeclared:
    """Nothing says what the job draws, and the cluster is under a cap without that it declares what
    its nodes draw at most."""

    cluster: str
    cap: Cap


@dataclass(frozen=True, slots=True)
class PartitionDown:
    """The partitions of a cluster that the job may use and that are up have too few nodes for it;
    these are down."""

    cluster: str
    partitions: Sequence[str]


@dataclass(frozen=True, slots=True)
class RefusedThere:
    """The resource manager of a cluster declined a start of the job: it refused this, and the job
    does not fit on what is left."""

    cluster: str
    refused: str


class ReservationLacks(StrEnum):
    """Why a job may not run in the reservation that it asks for."""

    TOO_FEW_NODES = "it has too few nodes for the job"
    TOO_SHORT = "the limit of the job does not end by its end"
    NOT_FOR_JOB = "it is neither for the user nor for the account of the job"
    ENDED = "it ended"
    UNKNOWN = "no cluster that the job may run on has it"


@dataclass(frozen=True, slots=True)
class OwnReservation:
    """The job may not run in the reservation that it asks for, on `cluster`: on none where that is
    empty. `at_s` is when it ends."""

    name: str
    lacks: ReservationLacks
    cluster: str = ""
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LicencesLacking:
    """The job needs more licences of a name than a cluster can ever give it, which has `total` of
    them; None where it has no such name. Of the clusters that the job may run on that is the one
    that lacks least."""

    cluster: str
    name: str
    needed: int
    total: int | None


PendingReason = (
    RunsUndeclared
    | HeldJob
    | RequeuedTooOften
    | StartsFailed
    | NoCluster
    | FitsNoMore
    | AwaitsLostCluster
    | WaitsForJob
    | WaitsInCircle
    | BeginsLater
    | MissesDeadline
    | AccountEmpty
    | JobLimitReached
    | AmountLimitReached
    | TasksLimitReached
    | ClusterClosed
    | NodesDrained
    | PowerUndeclared
    | PartitionDown
    | RefusedThere
    | OwnReservation
    | LicencesLacking
)

_LASTING: Final = (
    RunsUndeclared,
    HeldJob,
    RequeuedTooOften,
    StartsFailed,
    FitsNoMore,
    WaitsInCircle,
    MissesDeadline,
    OwnReservation,
    LicencesLacking,
)
# A dependency that waits for something yet to happen.
_HOPEFUL: Final = (Unmet.NOT_ENDED, Unmet.NOT_STARTED, Unmet.BEFORE, Unmet.DELAYED)
_PASSING: Final = (JobLimitReached, AmountLimitReached, TasksLimitReached)


def is_lasting(reason: PendingReason) -> bool:
    """Return whether a reason stays until somebody does something about it."""
    if isinstance(reason, WaitsForJob):
        return reason.unmet not in _HOPEFUL
    return isinstance(reason, _LASTING)


def is_passing(reason: PendingReason) -> bool:
    """Return whether a reason comes and goes with what runs."""
    return isinstance(reason, _PASSING)
