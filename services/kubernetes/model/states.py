"""The state of a Job with Coplace."""

from enum import StrEnum

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
