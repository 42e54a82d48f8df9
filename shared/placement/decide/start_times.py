"""When time alone changes what a waiting job may do: it may begin, a delay ends, or a start would
run past its deadline from then on."""

from collections.abc import Iterator
from heapq import heappop, heappush
from math import inf


class StartTimes:
    """Knows the end of the round in hand, and when each job is to be looked at next. A function of
    the jobs and of round time, so that a restart finds the same."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._due_s: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def begin_round(self, now_s: float) -> set[str]:
        """Let time pass to the end of a round; return the ids of the jobs whose time came."""
        self.now_s = now_s
        due: set[str] = set()
        while self._heap and self._heap[0][0] <= now_s:
            due_s, job_id = heappop(self._heap)
            if self._due_s.get(job_id) == due_s:
                del self._due_s[job_id]
                due.add(job_id)
        return due

    def note(self, job_id: str, due_s: float) -> None:
        """Look at a job again then; never where that is infinite."""
        if due_s == inf:
            self._due_s.pop(job_id, None)
        elif self._due_s.get(job_id) != due_s:
            self._due_s[job_id] = due_s
            heappush(self._heap, (due_s, job_id))

    def due_s(self) -> Iterator[float]:
        """Yield when the next job is to be looked at."""
        while self._heap and self._due_s.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        if self._heap:
            yield self._heap[0][0]
