"""Answers to Kueue that no grant is behind."""

from collections.abc import Sequence

from services.kueue.processor.effects import (
    AnswerCheck,
    Deactivate,
    Nominate,
    NotifyOwner,
    WorkloadEffect,
)
from services.kueue.processor.seen import SeenWorkload
from shared.kueue.workloads import CheckNames, CheckState, KueueWorkload


def let_pass(seen: SeenWorkload) -> Sequence[WorkloadEffect]:
    """Let a Workload pass of which nothing has to be placed, or which runs since before Coplace
    answers its check."""
    workload, checks = seen.workload, seen.around.checks
    why = _why_passes(seen)
    if not why or not workload.may_start:
        return ()
    pending, clusters = checks.pending_of(workload), list(checks.clusters_of(workload))
    if pending:
        return [AnswerCheck(workload, pending, CheckState.READY, f"Coplace: {why}")]
    if clusters and checks.awaits_nomination(workload):
        return [Nominate(workload, clusters)]
    return ()


def _why_passes(seen: SeenWorkload) -> str:
    """Return why it starts without a word of Coplace; empty where it may not."""
    if seen.workload.is_admitted:
        return "it was admitted before"
    if not seen.workload.pods:
        return "it has no pods"
    if not seen.around.checks.clusters_of(seen.workload):
        return "Kueue sends it to no cluster that Coplace knows"
    return ""


def asked_anew(seen: SeenWorkload) -> Sequence[WorkloadEffect]:
    """Have Kueue ask anew where a check was answered for a grant that does not count any more: with
    that answer a Workload would wait for no other."""
    workload = seen.workload
    if not workload.may_start or _why_passes(seen):
        return ()
    own, states = seen.around.checks.own_of(workload), workload.checks
    ready = [name for name in own if states[name] == CheckState.READY]
    return answered(workload, ready, CheckState.PENDING, "Coplace: it waits for another grant")


def refuse(seen: SeenWorkload, why: str) -> Sequence[WorkloadEffect]:
    """Keep a Workload from being admitted: by the check where there is one, so that its user reads
    why."""
    workload, checks = seen.workload, seen.around.checks
    if not workload.may_start:
        return ()
    if own := checks.own_of(workload):
        return answered(workload, own, CheckState.REJECTED, why)
    user = NotifyOwner(workload, "Rejected", why, is_warning=True)
    return [user, Deactivate(workload)]


def answered(
    workload: KueueWorkload, names: Sequence[str], state: CheckState, message: str
) -> Sequence[WorkloadEffect]:
    """Answer checks, once."""
    is_said = all(workload.checks[name] == state for name in names)
    return () if is_said else [AnswerCheck(workload, names, state, message)]


def stray(copy: KueueWorkload, checks: CheckNames) -> Sequence[WorkloadEffect]:
    """Return what to do about the copy of a Workload that Coplace granted no cluster, or another
    one: MultiKueue is to send it elsewhere."""
    own = checks.pending_of(copy)
    if not own or not copy.may_start or copy.is_admitted:
        return ()
    message = "Coplace: its manager has no grant for this cluster"
    return [AnswerCheck(copy, own, CheckState.RETRY, message)]
