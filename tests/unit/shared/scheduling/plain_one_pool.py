"""One pool under EASY backfill, first come first served and conservative backfill, written as
plainly as the rules are said: everything is computed anew at every instant.

Slow on purpose, and independent of the code that it is compared with.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class PlainJob(NamedTuple):
    """A job of one pool."""

    submit_s: float
    units: int
    limit_s: float
    run_s: float


@dataclass
class PlainPool:
    """A pool at one instant; `running` maps a job to its start."""

    units: int
    jobs: list[PlainJob]
    starts: dict[int, float] = field(default_factory=dict)
    running: dict[int, float] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=list)

    @property
    def free(self) -> int:
        return self.units - sum(self.jobs[j].units for j in self.running)

    def start(self, job: int, now_s: float) -> None:
        self.waiting.remove(job)
        self.running[job] = self.starts[job] = now_s

    def instants(self) -> Iterator[float]:
        """Completions, then submissions; the caller makes the pass when it is given the time."""
        arrived = 0
        while len(self.starts) < len(self.jobs) or self.running:
            ends = [s + self.jobs[j].run_s for j, s in self.running.items()]
            arrivals = [job.submit_s for job in self.jobs[arrived:]]
            now_s = min(ends + arrivals)
            for job in [j for j, s in self.running.items() if s + self.jobs[j].run_s <= now_s]:
                del self.running[job]
            while arrived < len(self.jobs) and self.jobs[arrived].submit_s <= now_s:
                self.waiting.append(arrived)
                arrived += 1
            yield now_s

    def shadow(self, units: int, now_s: float) -> tuple[float, int]:
        """When so many units are free if limits hold, and how many more there are then."""
        ends = {j: max(s + self.jobs[j].limit_s, now_s) for j, s in self.running.items()}
        for time_s in sorted({now_s, *ends.values()}):
            free = self.free + sum(self.jobs[j].units for j, e in ends.items() if e <= time_s)
            if free >= units:
                return time_s, free - units
        raise AssertionError("a job that fits the pool starts some day")


def plain_easy_starts(units: int, jobs: list[PlainJob], *, backfills: bool = True) -> list[float]:
    """When each job starts under EASY, or, without backfill, first come first served."""
    pool = PlainPool(units, jobs)
    for now_s in pool.instants():
        while pool.waiting and jobs[pool.waiting[0]].units <= pool.free:
            pool.start(pool.waiting[0], now_s)
        if not pool.waiting or not backfills:
            continue
        shadow_s, extra = pool.shadow(jobs[pool.waiting[0]].units, now_s)
        for job in pool.waiting[1:]:
            asked, in_time = jobs[job].units, now_s + jobs[job].limit_s <= shadow_s
            if asked <= pool.free and (in_time or asked <= extra):
                pool.start(job, now_s)
                extra -= 0 if in_time else asked
    return [pool.starts[j] for j in range(len(jobs))]


@dataclass
class PlainPrediction:
    """A pool under EASY where the shortest by its user's last two runs passes first, until what so
    passed took a share of what the first that waits leaves of the pool, since that was
    submitted."""

    pool: PlainPool
    users: list[int]
    passing_share: float
    predicted_s: dict[int, float] = field(default_factory=dict)
    careful_s: dict[int, float] = field(default_factory=dict)
    promised_s: dict[int, float] = field(default_factory=dict)
    passed: list[int] = field(default_factory=list)

    def ended(self, now_s: float) -> list[int]:
        jobs, starts = self.pool.jobs, self.pool.starts
        ends = sorted((starts[j] + jobs[j].run_s, j) for j in starts)
        return [job for end_s, job in ends if end_s <= now_s]

    def predict(self, now_s: float) -> None:
        ended = self.ended(now_s)
        for job in [j for j in self.pool.waiting if j not in self.predicted_s]:
            asked_s = self.pool.jobs[job].limit_s
            last = [self.pool.jobs[j].run_s for j in ended if self.users[j] == self.users[job]]
            knows = len(last) >= 2
            self.predicted_s[job] = min(max(sum(last[-2:]) / 2, 1), asked_s) if knows else asked_s
            self.careful_s[job] = min(max(last[-8:]), asked_s) if knows else asked_s

    def left(self, now_s: float) -> float:
        jobs, ended = self.pool.jobs, self.ended(now_s)
        first = jobs[self.pool.waiting[0]]
        submit_s = first.submit_s
        took = sum(
            jobs[j].units * (jobs[j].run_s if j in ended else jobs[j].limit_s)
            for j in self.passed
            if self.pool.starts[j] >= submit_s
        )
        beside = self.pool.units - first.units
        return self.passing_share * beside * (now_s - submit_s) - took

    def let_pass(self, job: int, now_s: float) -> bool:
        """Start it if it may pass by its prediction."""
        asked, first = self.pool.jobs[job], self.pool.waiting[0]
        shadow_s, extra = self.pool.shadow(self.pool.jobs[first].units, now_s)
        if asked.units > self.pool.free or asked.units * asked.limit_s > self.left(now_s):
            return False
        if now_s + asked.limit_s > shadow_s and asked.units > extra:
            if now_s + self.careful_s[job] > shadow_s:
                return False
            place = self.pool.waiting.index(job)
            self.pool.start(job, now_s)
            later_s, _ = self.pool.shadow(self.pool.jobs[first].units, now_s)
            del self.pool.running[job], self.pool.starts[job]
            self.pool.waiting.insert(place, job)
            if later_s > self.promised_s[first]:
                return False
        self.pool.start(job, now_s)
        self.passed.append(job)
        return True

    def step(self, now_s: float) -> None:
        pool, jobs = self.pool, self.pool.jobs
        self.predict(now_s)
        while pool.waiting and jobs[pool.waiting[0]].units <= pool.free:
            pool.start(pool.waiting[0], now_s)
        if not pool.waiting:
            return
        first = pool.waiting[0]
        self.promised_s.setdefault(first, pool.shadow(jobs[first].units, now_s)[0])
        for job in sorted(pool.waiting[1:], key=lambda j: (self.predicted_s[j], j)):
            self.let_pass(job, now_s)
        for job in pool.waiting[1:]:
            shadow_s, extra = pool.shadow(jobs[first].units, now_s)
            fits = now_s + jobs[job].limit_s <= shadow_s or jobs[job].units <= extra
            if jobs[job].units <= pool.free and fits:
                pool.start(job, now_s)


def plain_predicted_starts(
    units: int, jobs: list[PlainJob], users: list[int], passing_share: float
) -> list[float]:
    """When each job starts: see PlainPrediction."""
    played = PlainPrediction(PlainPool(units, jobs), users, passing_share)
    for now_s in played.pool.instants():
        played.step(now_s)
    return [played.pool.starts[j] for j in range(len(jobs))]


def plain_conservative_starts(units: int, jobs: list[PlainJob]) -> list[float]:
    """When each job starts if all run to their limits: the earliest time that delays none before
    it in the queue."""
    placed: list[tuple[float, float, int]] = []

    def used(time_s: float) -> int:
        return sum(u for begin_s, end_s, u in placed if begin_s <= time_s < end_s)

    def fits(begin_s: float, job: PlainJob) -> bool:
        inside = [b for b, _, _ in placed if begin_s < b < begin_s + job.limit_s]
        return all(used(t) + job.units <= units for t in [begin_s, *inside])

    for job in jobs:
        times = sorted({job.submit_s, *(e for _, e, _ in placed if e > job.submit_s)})
        begin_s = next(t for t in times if fits(t, job))
        placed.append((begin_s, begin_s + job.limit_s, job.units))
    return [begin_s for begin_s, _, _ in placed]
