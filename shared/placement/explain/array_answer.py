"""How far the tasks of an array are, as answers say it."""

from collections.abc import Sequence

from coplace.v1.placement_service_pb2 import ArrayStanding

from shared.domain.array_tasks import count_of, parse_tasks
from shared.placement.state.job_record import JobRecord


def array_answer(array: JobRecord, not_ended: Sequence[JobRecord]) -> ArrayStanding:
    """Return how far the tasks of an array are; `not_ended` are those that are jobs of their own
    and have not ended."""
    progress, tasks = array.progress, parse_tasks(array.job.array)
    assert progress is not None
    waiting = [task for task in not_ended if task.waits]
    ordinals = [first for first, _ in progress.left[:1]]
    ordinals += [task.job.array_ordinal for task in waiting]
    return ArrayStanding(
        job_id=array.job.job_id,
        tasks=len(tasks),
        waiting=count_of(progress.left) + len(waiting),
        running=len(not_ended) - len(waiting),
        completed=count_of(progress.completed),
        failed=count_of(progress.failed),
        at_most=array.job.array_at_most,
        next_index=tasks.index(min(ordinals)) if ordinals else None,
    )
