"""The state of a Workload with Coplace."""

from enum import StrEnum

from services.kueue.model.records import WorkloadRecord


class WorkloadState(StrEnum):
    """Whether it waits for a start, or without quota; is granted and not all of its pods are ready
    yet; runs, has ended; aside where something about it fails again and again."""

    WAITS = "waits"
    HELD = "held"
    GRANTED = "granted"
    RUNS = "runs"
    ENDED = "ended"
    ASIDE = "aside"


def workload_state(
    record: WorkloadRecord | None, *, asks: bool, is_aside: bool
) -> WorkloadState | None:
    """Return the state of a Workload that is no copy; None where Coplace has nothing to do with
    it."""
    if is_aside:
        return WorkloadState.ASIDE
    if record is None:
        return WorkloadState.WAITS if asks else None
    if record.outcome:
        return WorkloadState.ENDED
    if record.let_go is not None and not record.claim.is_live:
        return WorkloadState.GRANTED
    if not record.claim.is_live:
        return WorkloadState.HELD if record.hold.is_held else WorkloadState.WAITS
    return WorkloadState.RUNS if record.claim.has_begun else WorkloadState.GRANTED
