"""The state of a Job with Coplace, and of a copy with the executor that runs it."""

from enum import StrEnum

from services.kubernetes.model.assignments import JobAssignment
from services.kubernetes.model.jobs import KubernetesJob
from services.kubernetes.model.records import KubernetesRecord


class QueueState(StrEnum):
    """The state of a Job with Coplace; refused where that does not take it as it is, aside where
    something about it fails again and again."""

    REFUSED = "refused"
    WAITS = "waits"
    RUNS = "runs"
    ENDED = "ended"
    ASIDE = "aside"


def queue_state(record: KubernetesRecord | None, *, is_refused: bool, is_aside: bool) -> QueueState:
    """Return the state of a Job that is not a copy."""
    if is_refused:
        return QueueState.REFUSED
    if is_aside:
        return QueueState.ASIDE
    if record is None:
        return QueueState.WAITS
    if record.outcome:
        return QueueState.ENDED
    return QueueState.RUNS if record.claim.is_live else QueueState.WAITS


class CopyState(StrEnum):
    """The state of a copy with its executor: seen alone, claimed and not created yet, created and
    not let run by Kueue yet, and as its Job has it; refused where it never starts, aside where
    something about it fails again and again."""

    ASSIGNED = "assigned"
    CLAIMED = "claimed"
    WAITS = "waits"
    RUNS = "runs"
    ENDED = "ended"
    REFUSED = "refused"
    ASIDE = "aside"


def copy_state(assignment: JobAssignment, run: KubernetesJob | None) -> CopyState:
    """Return the state of a copy with its executor; `run` is the Job of its name, where there is
    one."""
    said = assignment.said
    if said.refused:
        return CopyState.REFUSED
    if run is not None and run.run_end is None and not said.is_final:
        is_let_run = bool(said.run_uid) or not (run.is_in_kueue and run.is_suspended)
        return CopyState.RUNS if is_let_run else CopyState.WAITS
    if run is not None or said.run_uid:
        return CopyState.ENDED
    return CopyState.CLAIMED if said.is_claimed else CopyState.ASSIGNED
