"""Tasks of arrays: each is one of those that were submitted, and no more run at once than may."""

from collections import Counter
from collections.abc import Iterator

from coplace.v1.jobs_pb2 import JobSubmitted

from tests.chaos.audit.evidence import Evidence, is_hostile
from tests.chaos.audit.holders import Holders


def indices_of(array: JobSubmitted) -> list[int]:
    """The indices of its tasks, read plainly."""
    found: list[int] = []
    for part in array.array.split(","):
        bounds, _, step = part.partition(":")
        first, _, last = bounds.partition("-")
        found += range(int(first), int(last or first) + 1, int(step or 1))
    return found


def tasks_of(array: JobSubmitted) -> list[str]:
    """The ids of its tasks."""
    return [f"{array.job_id}_{index}" for index in indices_of(array)]


def array_of(task_id: str) -> str:
    """The id of the array of a task."""
    return task_id.rpartition("_")[0]


def each_task_is_one_of_its_array(evidence: Evidence) -> Iterator[str]:
    """A start of a task names its array and its index, and an array itself never starts."""
    submissions = evidence.world.journal.submissions
    for starts in evidence.starts.values():
        for decided in starts:
            job = evidence.world.journal.submission(decided.job_id)
            if job is None or is_hostile(decided.job_id):
                continue
            said = decided.array_job_id, decided.array_index
            index = decided.job_id.rpartition("_")[2]
            right = (job.job_id, int(index)) if decided.job_id not in submissions else ("", 0)
            of = f"{decided.job_id} in round {decided.round}"
            if said != right:
                yield f"{of} is said to be {said}, should be {right}"
            if job.array and said[1] not in indices_of(job):
                yield f"{of} is no task of {job.array}"
            if job.array and decided.job_id in submissions:
                yield f"{of} starts as a whole"


def no_more_tasks_run_at_once_than_may(evidence: Evidence) -> Iterator[str]:
    """Of those whose start is decided and has not ended."""
    holders = Holders()
    for ended in evidence.ends_of_rounds(holders.learn):
        started = {start.array_job_id for start in holders.decide(evidence, ended.round)}
        running = Counter(start.array_job_id for start in holders.sure())
        for array_id in sorted(started - {""}):
            array = evidence.world.journal.submissions.get(array_id)
            most = array.array_at_most if array is not None and not is_hostile(array_id) else 0
            if most and running[array_id] > most:
                yield f"{array_id} has {running[array_id]} of {most} in round {ended.round}"
