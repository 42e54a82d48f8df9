"""When requests may start and must have ended, as their resource managers know it."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from heapq import heappop, heappush

from lab.emulator.facts import id_of, time_us_of
from lab.emulator.machine import Machine
from lab.workloads.request import JobRequest
from shared.domain.job import Condition


class StartTerms:
    """Knows the times at which jobs that wait may start or leave the queue though nothing else
    happens: begins, ends of delays, deadlines."""

    def __init__(self, requests: Iterable[JobRequest], machines: Mapping[str, Machine]) -> None:
        self.ids = {
            request.index: id_of(request, machines[request.reference_cluster].cluster.site)
            for request in requests
        }
        self._delays_us: dict[tuple[str, bool], set[int]] = defaultdict(set)
        for request in requests:
            for each in request.depends_on:
                if each.delay_s:
                    of = self.ids[each.of], each.condition is Condition.AFTER
                    self._delays_us[of].add(round(each.delay_s * 1e6))
        self._begins_us: list[int] = []
        self._deadlines_us: list[tuple[int, str]] = []

    def submit(self, request: JobRequest) -> None:
        """Note when a job that was submitted may begin, and must have ended."""
        if request.begin_s:
            heappush(self._begins_us, time_us_of(request.begin_s))
        if request.deadline_s:
            deadline_us = time_us_of(request.deadline_s)
            heappush(self._deadlines_us, (deadline_us, self.ids[request.index]))

    def start(self, job: str, now_us: int) -> None:
        """Note when the delays after a start end."""
        for delay_us in self._delays_us.get((job, True), ()):
            heappush(self._begins_us, now_us + delay_us)

    def stop(self, job: str, now_us: int) -> None:
        """Note when the delays after an end end; a job that waits for the start does so no more."""
        for of_start in (False, True):
            for delay_us in self._delays_us.get((job, of_start), ()):
                heappush(self._begins_us, now_us + delay_us)

    def begins_us(self, ended_us: int) -> list[int]:
        """Return the next time after a round at which a job may begin, if there is one."""
        while self._begins_us and self._begins_us[0] <= ended_us:
            heappop(self._begins_us)
        return self._begins_us[:1]

    def deadlines_us(self, queued: Collection[str]) -> list[int]:
        """Return the next deadline of the jobs that wait, if there is one."""
        while self._deadlines_us and self._deadlines_us[0][1] not in queued:
            heappop(self._deadlines_us)
        return [deadline_us for deadline_us, _ in self._deadlines_us[:1]]

    def take_expired(self, now_us: int) -> str:
        """Remove and return the job whose deadline this is."""
        deadline_us, job = heappop(self._deadlines_us)
        assert deadline_us == now_us
        return job
