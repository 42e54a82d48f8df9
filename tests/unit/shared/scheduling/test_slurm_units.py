"""Slurm's backfill in parts of nodes, against what is free in each second."""

from collections.abc import Iterator
from math import inf

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.scheduling.capacity import AllocatedUnits, Capacity
from shared.scheduling.consumable import ConsumableScheduler
from shared.scheduling.eligibility import Where, node_set
from shared.scheduling.licences import Licences
from shared.scheduling.load import Reservation
from shared.scheduling.looks import NO_LOOK
from shared.scheduling.power import Cap, PowerBudget, Scope
from shared.scheduling.problem import Allocation, Kind, NodeTable, Shape
from shared.scheduling.slurm import SlurmBackfill
from shared.scheduling.slurm_units import SlurmUnitsScheduler
from shared.scheduling.wait_queue import Entry, WaitQueue
from shared.scheduling.windows import Window, Windows
from tests.unit.shared.scheduling.plain_slurm_units import (
    FreeBySecond,
    PlainUnits,
    PlainWindow,
    licences_of,
)
from tests.unit.shared.scheduling.systems import Pairs

NODES, CORES, MEMORY = 3, 4, 8
MOST_LICENCES = 2
EVERYWHERE = tuple(range(NODES))
OFTEN = SlurmBackfill(interval_s=1.0)


def kind_of(job: PlainUnits) -> Kind:
    where: tuple[Where, ...] = ()
    if job.nodes != EVERYWHERE or job.is_of_window:
        where = (Where(node_set(job.nodes), reservation="own" if job.is_of_window else ""),)
    shape = Shape((job.cores, job.memory), job.alone, job.most, where)
    return Kind("" if job.alone else "a", shape, (("a", job.licences),) if job.licences else ())


def budget(most: int) -> PowerBudget:
    return PowerBudget(Cap(Scope.CLUSTER, "a", ((-inf, most),)))


class Passes:
    """Passes over one cluster, each by a scheduler of its own that has the look of the last."""

    def __init__(
        self,
        jobs: list[PlainUnits],
        rules: SlurmBackfill,
        window: PlainWindow | None = None,
        watts: int = 0,
    ) -> None:
        self.jobs, self.rules, self.window, self.watts = jobs, rules, window, watts
        self.kind_of = [kind_of(job) for job in jobs]
        self.kinds = [*dict.fromkeys(self.kind_of)]
        self.begun: dict[int, tuple[int, Allocation]] = {}
        self.queue, self.arrived, self.look = WaitQueue(), 0, NO_LOOK
        self.before: list[int] = []

    def all(self) -> Iterator[tuple[int, SlurmUnitsScheduler]]:
        """Each pass, when it has been made, and its time."""
        now_s = self.jobs[0].submit_s
        while now_s < inf:
            scheduler = self.make(now_s)
            yield now_s, scheduler
            times_s: list[float] = [
                at_s + self.jobs[n].run_s for n, (at_s, _) in self.begun.items()
            ]
            times_s += [job.submit_s for job in self.jobs]
            times_s += [self.window.from_s, self.window.until_s] if self.window else []
            times_s += [scheduler.wake_s] if scheduler.wake_s < inf else []
            now_s = min((int(at_s) for at_s in times_s if at_s > now_s), default=inf)  # type: ignore[assignment]

    def running(self, now_s: int) -> list[int]:
        return [n for n, (at_s, _) in self.begun.items() if at_s + self.jobs[n].run_s > now_s]

    def make(self, now_s: int) -> SlurmUnitsScheduler:
        while self.arrived < len(self.jobs) and self.jobs[self.arrived].submit_s <= now_s:
            job, number = self.jobs[self.arrived], self.arrived
            asked = number, number, job.units, float(job.limit_s)
            self.queue.add(
                Entry(*asked, kind=self.kinds.index(self.kind_of[number]), draw_mw=job.watts)
            )
            self.arrived += 1
        self.before = [entry.arrival for entry in self.queue]
        scheduler = SlurmUnitsScheduler(self.cluster(now_s), self.rules, self.look)
        for _, entry, allocation, _ in scheduler.pass_alone(float(now_s)):
            assert allocation is not None
            self.begun[entry.arrival] = now_s, allocation
        scheduler.finish()
        self.look = scheduler.look
        return scheduler

    def cluster(self, now_s: int) -> ConsumableScheduler:
        amounts = np.array([[CORES] * NODES, [MEMORY] * NODES], dtype=np.int64)
        capacity, held = Capacity(NodeTable(("cores", "memory_mib"), amounts)), []
        for number in self.running(now_s):
            at_s, allocation = self.begun[number]
            job, kind = self.jobs[number], self.kind_of[number]
            kind = kind._replace(shape=kind.shape._replace(where=()))
            release_s = float(at_s + job.limit_s)
            held.append(AllocatedUnits(release_s, number, kind, allocation, job.watts))
            capacity.take(kind, allocation)
        windows = Windows()
        if self.window is not None:
            from_s, until_s, nodes = self.window
            windows = Windows([Window("own", float(from_s), float(until_s), node_set(nodes))])
        licences = Licences({"a": [budget(MOST_LICENCES)]})
        return ConsumableScheduler(
            capacity,
            held,
            self.queue,
            self.kinds,
            Pairs(),
            budgets=[budget(self.watts)] if self.watts else [],
            windows=windows,
            licences=licences,
        )

    # What is expected ---------------------------------------------------------------------------

    def free(self, now_s: int, *, before: bool) -> FreeBySecond:
        """What is free beside the jobs that ran before this pass, or run behind it."""
        found = FreeBySecond(NODES, CORES, MEMORY, self.watts or 10**6, now_s, self.window)
        for number in self.running(now_s):
            at_s, allocation = self.begun[number]
            if not (before and at_s == now_s):
                until_s = at_s + self.jobs[number].limit_s
                if until_s <= now_s:
                    until_s = now_s + int(self.rules.interval_s)
                on = dict(zip(*allocation, strict=True))
                found.take(self.jobs[number], on, now_s, until_s)
        return found

    def check(self, now_s: int, scheduler: SlurmUnitsScheduler) -> None:
        """Each in its order gets the first room beside those before it, if any does: so nobody
        delays one before it."""
        free = self.free(now_s, before=True)
        started = {n for n, (at_s, _) in self.begun.items() if at_s == now_s} & {*self.before}
        with_licences = [self.jobs[n] for n in self.running(now_s) if n not in started]
        latest_s = now_s + int(self.rules.window_s)
        for number in self.before:
            job = self.jobs[number]
            planned = scheduler.reservation_for(number)
            has_licences = licences_of([*with_licences, job]) <= MOST_LICENCES
            if number in started:
                with_licences.append(job)
                at_s, allocation = self.begun[number]
            elif planned is not None:
                at_s, allocation = int(planned.start_s), scheduler.planned_on[number][1]
                assert at_s > now_s
            else:
                if number < scheduler.ended_before and (has_licences or not job.licences):
                    assert free.earliest_s(job, latest_s) is None
                continue
            assert has_licences or not job.licences
            on = dict(zip(*allocation, strict=True))
            assert sum(on.values()) == job.units
            assert all(free.fits_on(job, node, at_s) >= units for node, units in on.items())
            assert free.fits(job, at_s)
            assert free.earliest_s(job, at_s) is None, "there is room sooner"
            free.take(job, on, at_s, at_s + job.limit_s)


def test_where_one_node_has_no_room_throughout_another_one_may_from_a_little_later_on() -> None:
    """The last fits on the first node until that is reserved, at 4 s, and on the second from 2 s
    on."""
    first, second, third = (0,), (1,), (2,)
    jobs = [
        PlainUnits(0, 1, CORES, 0, 1, second, alone=True, limit_s=2, run_s=2),
        PlainUnits(0, 1, CORES, 0, 1, third, alone=True, limit_s=4, run_s=4),
        PlainUnits(0, 2, CORES, 0, 1, first + third, alone=True, limit_s=5, run_s=5),
        PlainUnits(0, 1, CORES, 0, 1, first + second, alone=True, limit_s=5, run_s=5),
    ]
    scheduler = Passes(jobs, OFTEN).make(0)
    planned = [(each.arrival, each.start_s) for each in scheduler.planned()]
    assert planned == [(2, 4.0), (3, 2.0)]
    [waiting] = [entry for entry in scheduler.queue if entry.arrival == 3]
    assert scheduler.delayed_by(waiting) == (Reservation(2, 2, 4.0), None)


node_sets = st.sampled_from([EVERYWHERE, EVERYWHERE, (0,), (1, 2), (0, 1)])


@st.composite
def logs(draw: st.DrawFn) -> list[PlainUnits]:
    """Jobs by submission; some run beyond their limits."""
    jobs, submit_s = [], 0
    for _ in range(draw(st.integers(1, 10))):
        submit_s += draw(st.integers(0, 8))
        limit_s = draw(st.integers(1, 25))
        units, most = draw(st.integers(1, 5)), draw(st.sampled_from([0, 0, 1, 2]))
        cores = draw(st.integers(1, CORES))
        run_s = draw(st.integers(1, limit_s + 2))
        memory, alone = draw(st.integers(0, 5)), draw(st.sampled_from([False, False, True]))
        licences = draw(st.sampled_from([0, 0, 0, 1, 2]))
        asked = submit_s, units, cores, memory, most, draw(node_sets), alone, limit_s, run_s
        jobs.append(PlainUnits(*asked, licences, draw(st.sampled_from([False] * 5 + [True]))))
        jobs[-1] = jobs[-1]._replace(watts=draw(st.integers(1, 5)))
        if draw(st.booleans()):  # as one before it
            jobs.append(draw(st.sampled_from(jobs))._replace(submit_s=submit_s))
    return jobs


@st.composite
def windows(draw: st.DrawFn) -> PlainWindow | None:
    if draw(st.booleans()):
        return None
    from_s = draw(st.integers(0, 40))
    return PlainWindow(from_s, from_s + draw(st.integers(1, 30)), draw(node_sets))


rules = st.builds(
    SlurmBackfill,
    depth=st.sampled_from([1, 3, 500]),
    window_s=st.sampled_from([20.0, 300.0]),
    interval_s=st.sampled_from([1.0, 7.0]),
    records=st.sampled_from([0, 0, 5]),
)


@settings(max_examples=300)
@given(logs(), rules, windows(), st.sampled_from([0, 5, 7]))
def test_each_job_in_its_order_has_the_first_room_beside_those_before_it(
    jobs: list[PlainUnits], rules: SlurmBackfill, window: PlainWindow | None, watts: int
) -> None:
    if window is None:
        jobs = [job._replace(is_of_window=False) for job in jobs]
    if watts:  # those of a job past its limit are back by the next look, whatever is planned then
        jobs = [job._replace(run_s=min(job.run_s, job.limit_s)) for job in jobs]
    passes = Passes(jobs, rules, window, watts)
    for now_s, scheduler in passes.all():
        if scheduler.look.at_s == now_s:
            passes.check(now_s, scheduler)


@settings(max_examples=300)
@given(logs(), st.sampled_from([1.0, 7.0]), windows())
def test_what_has_room_now_and_waits_would_delay_a_reservation_before_it_that_is_named(
    jobs: list[PlainUnits], interval_s: float, window: PlainWindow | None
) -> None:
    own = window is not None
    jobs = [job._replace(licences=0, is_of_window=own and job.is_of_window) for job in jobs]
    passes = Passes(jobs, SlurmBackfill(interval_s=interval_s), window)
    for now_s, scheduler in passes.all():
        free = passes.free(now_s, before=False)
        for entry in scheduler.queue if scheduler.look.at_s == now_s else ():
            job, delayed = jobs[entry.arrival], scheduler.delayed_by(entry)
            assert (delayed is not None) or not free.fits(job, now_s)
            if delayed is not None:
                reservation, _ = delayed
                assert reservation.arrival < entry.arrival
                assert reservation.start_s < now_s + job.limit_s
