"""What to do about a copy that the executor of its cluster creates.

While the executor has not claimed it, it can be taken back without a word of that."""

from collections.abc import Sequence

from services.kubernetes.model import bodies
from services.kubernetes.model.assignments import is_asked_to_end, said_of
from services.kubernetes.model.facts import JobTerms
from services.kubernetes.model.jobs import KubernetesJob
from services.kubernetes.model.records import KubernetesRecord
from services.kubernetes.processor.awaited import left_s, why_not
from services.kubernetes.processor.effects import JobEffect, Otherwise, PatchJob
from services.kubernetes.processor.seen import SeenJob
from shared.kubernetes.effects import LookAgain


def waits_for_executor(copy: KubernetesJob) -> bool:
    """Return whether an executor has to create a copy, and has not said that it did."""
    said = said_of(copy)
    return said is not None and not said.run_uid


def may_be_taken_back(copy: KubernetesJob) -> bool:
    """Return whether its executor cannot create a copy where that is another from now on."""
    said = said_of(copy)
    return said is not None and said.may_be_taken_back


def is_left_over(copy: KubernetesJob) -> bool:
    """Return whether a copy is an assignment that is over, and that nothing keeps: no controller
    deletes one after a while, as it does a Job."""
    is_over = bool(copy.run_end) or copy.is_deleted
    return said_of(copy) is not None and is_over and not copy.is_taken


def asking_end(copy: KubernetesJob, record: KubernetesRecord, why: str) -> Sequence[JobEffect]:
    """Ask the executor to end a copy, or not to create it; what it says is awaited."""
    if is_asked_to_end(copy):
        return ()
    return [PatchJob(copy, bodies.suspending(copy), f"asks its executor to end it: {why}", record)]


def is_ending(copy: KubernetesJob) -> bool:
    """Return whether an executor has not said yet that a copy has ended as it was asked to."""
    said = said_of(copy)
    return said is not None and not said.is_final


def awaiting(
    copy: KubernetesJob,
    seen: SeenJob,
    record: KubernetesRecord,
    terms: JobTerms,
    now_us: int,
    decline: Otherwise,
) -> Sequence[JobEffect]:
    """Wait until the executor has created a copy; decline its grant where that cannot be, or took
    too long."""
    said, wait_s = said_of(copy), left_s(record, terms, now_us)
    if said is not None and said.refused:
        return decline(said.refused)
    if why := why_not(copy, seen.job, record):
        return decline(why)
    if copy.is_suspended:
        return decline("its assignment was suspended before it ran")
    if wait_s is not None and wait_s <= 0:
        who = "Kueue" if copy.is_in_kueue and said and said.is_claimed else "its executor"
        return decline(f"{who} did not let it run within {terms.ready_within_s:g} s")
    return [LookAgain(wait_s)] if wait_s is not None else ()
