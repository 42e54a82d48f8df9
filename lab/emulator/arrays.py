"""The arrays of tasks that wait or run, as their resource managers know them."""

from dataclasses import dataclass

from lab.workloads.request import JobRequest
from shared.domain.array_tasks import as_task, parse_tasks


@dataclass(slots=True)
class _Array:
    request: JobRequest
    # Tasks that never started, and those that have not ended.
    left: int
    not_ended: int


class EmulatedArrays:
    """Counts the tasks of arrays: nobody starts two of one index, since placement decides each
    once."""

    def __init__(self) -> None:
        self._arrays: dict[str, _Array] = {}

    def submit(self, job: str, request: JobRequest) -> None:
        """Note an array; any other job is none."""
        if request.array:
            tasks = len(parse_tasks(request.array))
            self._arrays[job] = _Array(request, tasks, tasks)

    def take(self, array: str) -> tuple[JobRequest, bool]:
        """Take a task out of an array for its first start; return what it is, and whether it was
        the last."""
        found = self._arrays[array]
        found.left -= 1
        return found.request, not found.left

    def drop_left(self, array: str) -> None:
        """Note that the tasks which never started will not."""
        if (found := self._arrays.get(array)) is not None:
            found.not_ended -= found.left
            found.left = 0

    def end(self, job: str) -> str:
        """Note that a task ended; return the array that has ended with it, empty where none has."""
        return self._count(job, -1)

    def begin_anew(self, job: str) -> None:
        """Note that a task that ended is to run again."""
        self._count(job, 1)

    def _count(self, job: str, by: int) -> str:
        named = as_task(job)
        found = self._arrays.get(named[0]) if named else None
        if named is None or found is None:
            return ""
        found.not_ended += by
        return "" if found.not_ended else named[0]
