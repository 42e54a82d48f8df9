"""Slurm's backfill."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.scheduling.load import Load, NodeSet, Reservation
from shared.scheduling.looks import NO_LOOK, Look, ReservedStart
from shared.scheduling.pool import Discipline, Pool
from shared.scheduling.power import Cap, PowerBudget, Scope
from shared.scheduling.slurm import SlurmBackfill
from shared.scheduling.slurm_nodes import SlurmNodesScheduler
from shared.scheduling.timeline import play
from shared.scheduling.wait_queue import Entry, WaitQueue
from tests.unit.shared.scheduling.plain_one_pool import PlainJob
from tests.unit.shared.scheduling.plain_slurm import starts_s
from tests.unit.shared.scheduling.systems import one_pool

NODES = 8
OFTEN = SlurmBackfill(interval_s=1.0)


def played(jobs: list[PlainJob], rules: SlurmBackfill) -> list[float]:
    """When each job starts, by the engine."""
    found = play([Pool(NODES, slurm=rules)], one_pool(jobs), Discipline.SLURM)
    return [*map(float, found.start_s)]


@st.composite
def logs(draw: st.DrawFn) -> list[PlainJob]:
    """Jobs that end before their limits, by submission."""
    jobs, submit_s = [], 0.0
    for _ in range(draw(st.integers(1, 14))):
        submit_s += draw(st.integers(0, 40))
        limit_s = draw(st.integers(1, 100))
        run_s = draw(st.integers(1, limit_s))
        jobs.append(PlainJob(submit_s, draw(st.integers(1, NODES)), float(limit_s), float(run_s)))
    return jobs


@given(
    logs(),
    st.builds(
        SlurmBackfill,
        depth=st.integers(1, 6),
        window_s=st.sampled_from([20.0, 90.0, 1e5]),
        interval_s=st.sampled_from([1.0, 7.0, 60.0]),
        records=st.sampled_from([0, 1, 2, 3, 5]),
    ),
)
def test_jobs_start_when_the_plain_rules_say(jobs: list[PlainJob], rules: SlurmBackfill) -> None:
    assert played(jobs, rules) == starts_s(jobs, NODES, rules)


def test_what_delays_the_second_reservation_is_not_backfilled() -> None:
    """EASY would start it: it delays only the second that waits."""
    jobs = [
        PlainJob(0.0, 6, 100.0, 100.0),
        PlainJob(1.0, 8, 50.0, 50.0),  # at 100
        PlainJob(2.0, 2, 97.0, 97.0),  # beside the first, until 99
        PlainJob(3.0, 2, 98.0, 98.0),  # would end at 101
    ]
    assert played(jobs, OFTEN) == [0.0, 100.0, 2.0, 150.0]


def test_only_the_first_jobs_are_looked_at_for_backfill_and_at_its_interval() -> None:
    first, wide = PlainJob(0.0, 6, 100.0, 100.0), PlainJob(1.0, 8, 50.0, 50.0)
    small = PlainJob(2.0, 2, 10.0, 10.0)
    jobs = [first, wide, wide, small]
    assert played(jobs, SlurmBackfill(depth=3, interval_s=1.0))[3] == 2.0
    assert played(jobs, SlurmBackfill(depth=2, interval_s=1.0))[3] == 200.0
    assert played([first, wide, small], SlurmBackfill(interval_s=30.0))[2] == 30.0


def test_a_look_ends_when_its_table_of_reservations_is_full() -> None:
    first, wide = PlainJob(0.0, 6, 100.0, 100.0), PlainJob(1.0, 8, 50.0, 50.0)
    jobs = [first, wide, wide, PlainJob(2.0, 2, 10.0, 10.0)]
    assert played(jobs, SlurmBackfill(interval_s=1.0, records=4))[3] == 2.0
    assert played(jobs, SlurmBackfill(interval_s=1.0, records=3))[3] == 200.0


@pytest.mark.parametrize("wrong", [{"depth": 0}, {"window_s": 0.0}, {"interval_s": -1.0}])
def test_parameters_below_their_bounds_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        SlurmBackfill(**wrong)  # type: ignore[arg-type]


@given(logs(), st.sampled_from([100, 150, 220]), st.sampled_from([450, 900, 1500]))
def test_the_cap_of_a_cluster_holds_and_every_job_starts(
    log: list[PlainJob], watts: int, cap_w: int
) -> None:
    """Each node that is used draws so much, as many as the cap has watts for."""
    jobs = [job._replace(units=min(job.units, cap_w // watts)) for job in log]
    work = one_pool(jobs)
    work = replace(work, power_w=work.units.astype(np.float64) * watts)
    rules = SlurmBackfill(interval_s=7.0, records=5)
    start_s = play([Pool(NODES, float(cap_w), slurm=rules)], work, Discipline.SLURM).start_s
    drawn = [
        change
        for job, at_s in zip(jobs, start_s.tolist(), strict=True)
        for change in ((at_s, job.units * watts), (at_s + job.run_s, -job.units * watts))
    ]
    assert max(accumulate(w for _, w in sorted(drawn))) <= cap_w


def test_the_main_scheduler_counts_no_watts_that_backfill_reserved() -> None:
    jobs = [
        PlainJob(0.0, 1, 1.0, 1.0),
        PlainJob(1.0, 8, 100.0, 50.0),  # until 51, and expected until 101
        PlainJob(2.0, 4, 10.0, 1.0),  # planned at 101
        PlainJob(3.0, 5, 60.0, 60.0),  # planned at 111
        PlainJob(4.0, 4, 10.0, 10.0),  # planned at 101, beside the first
    ]
    capped = Pool(3 * NODES, NODES * 100.0, slurm=SlurmBackfill(interval_s=30.0))
    found = play([capped], one_pool(jobs), Discipline.SLURM).start_s
    assert found.tolist() == [0.0, 1.0, 51.0, 52.0, 112.0]


# A scheduler of one pass, as placement has it -----------------------------------------------------


class Passes:
    """Passes over one cluster, each by a scheduler of its own that has the look of the last."""

    def __init__(self, jobs: list[PlainJob], rules: SlurmBackfill, pool: Pool) -> None:
        self.jobs, self.rules, self.pool = jobs, rules, pool
        self.begun: dict[int, float] = {}
        self.queue, self.arrived = WaitQueue(), 0
        self.look = NO_LOOK

    def all(self) -> Iterator[tuple[float, SlurmNodesScheduler]]:
        """Each pass, when it has been made, and its time."""
        now_s = self.jobs[0].submit_s
        while len(self.begun) < len(self.jobs):
            scheduler = self.make(now_s)
            yield now_s, scheduler
            ends_s = [at_s + self.jobs[n].run_s for n, at_s in self.begun.items()]
            comes_s = [job.submit_s for job in self.jobs]
            now_s = min(at_s for at_s in (*ends_s, *comes_s, scheduler.wake_s) if at_s > now_s)

    def make(self, now_s: float) -> SlurmNodesScheduler:
        """Make a pass, with what runs and waits now."""
        while self.arrived < len(self.jobs) and self.jobs[self.arrived].submit_s <= now_s:
            job = self.jobs[self.arrived]
            watts = 100_000 * job.units
            entry = Entry(self.arrived, self.arrived, job.units, job.limit_s, draw_mw=watts)
            self.queue.add(entry)
            self.arrived += 1
        load, budgets = self.load(now_s), self.pool.budgets(0)
        scheduler = SlurmNodesScheduler(load, self.queue, self.rules, 0, budgets, self.look)
        for _, entry, _, _ in scheduler.pass_alone(now_s):
            self.begun[entry.arrival] = now_s
        scheduler.finish()
        self.look = scheduler.look
        return scheduler

    def load(self, now_s: float) -> Load:
        """What runs now: each is expected until its limit."""
        held = [
            NodeSet(
                self.jobs[n].units, at_s + self.jobs[n].limit_s, n, 100_000 * self.jobs[n].units
            )
            for n, at_s in self.begun.items()
            if at_s + self.jobs[n].run_s > now_s
        ]
        return Load(self.pool.units, self.pool.units - sum(each.nodes for each in held), held)


ALL_LOOKED_AT = SlurmBackfill(window_s=1e6, interval_s=5.0)
pools = st.sampled_from([Pool(NODES), Pool(3 * NODES, NODES * 100.0)])


@settings(max_examples=200)
@given(logs(), st.sampled_from([1.0, 7.0, 60.0]), pools)
def test_schedulers_built_anew_at_each_pass_start_what_one_that_lives_on_starts(
    jobs: list[PlainJob], interval_s: float, pool: Pool
) -> None:
    rules = SlurmBackfill(interval_s=interval_s)
    passes = Passes(jobs, rules, pool)
    assert len(list(passes.all())) >= 1
    found = [passes.begun[number] for number in range(len(jobs))]
    assert found == starts_s(jobs, NODES, rules)


@settings(max_examples=200)
@given(logs())
def test_what_has_free_nodes_and_waits_would_delay_a_reservation_that_is_named(
    jobs: list[PlainJob],
) -> None:
    for now_s, scheduler in Passes(jobs, ALL_LOOKED_AT, Pool(NODES)).all():
        for entry in scheduler.queue:
            planned = scheduler.reservation_for(entry.arrival)
            if scheduler.look.at_s < now_s or planned is None:
                continue
            assert (planned.arrival, planned.nodes) == (entry.arrival, entry.nodes)
            assert planned.start_s > now_s
            assert scheduler.expects_nodes(entry)
            found = scheduler.delayed_by(entry)
            assert (found is not None) or entry.nodes > scheduler.free
            if found is not None:
                delayed, free = found
                assert delayed.start_s < now_s + entry.limit_s
                assert delayed.arrival < entry.arrival
                assert free < entry.nodes


def test_a_reservation_is_delayed_where_it_leaves_less_than_an_entry_needs() -> None:
    jobs = [
        PlainJob(0.0, 6, 100.0, 100.0),
        PlainJob(1.0, 7, 50.0, 50.0),  # from 100 to 150
        PlainJob(2.0, 2, 120.0, 120.0),  # would be with it until 122
        PlainJob(3.0, 1, 120.0, 120.0),  # fits beside it
    ]
    passes = Passes(jobs, OFTEN, Pool(NODES))
    scheduler = next(scheduler for now_s, scheduler in passes.all() if now_s == 3.0)
    waiting = {entry.arrival: entry for entry in scheduler.queue}
    assert sorted(waiting) == [1, 2]
    assert scheduler.delayed_by(waiting[2]) == (Reservation(1, 7, 100.0), 0)
    assert scheduler.delayed_by(waiting[1]) is None
    assert passes.begun[3] == 3.0
    assert (scheduler.next_look_s, scheduler.look.at_s) == (4.0, 3.0)


def test_a_job_that_leaves_the_queue_neither_starts_nor_keeps_its_watts() -> None:
    """One pass chose both; then another cluster takes the first."""
    jobs = [PlainJob(0.0, 3, 10.0, 10.0), PlainJob(0.0, 4, 10.0, 10.0)]
    passes = Passes(jobs, OFTEN, Pool(3 * NODES, NODES * 100.0))
    load, queue = passes.load(0.0), WaitQueue()
    for number, job in enumerate(jobs):
        queue.add(Entry(number, number, job.units, job.limit_s, draw_mw=100_000 * job.units))
    [budget] = passes.pool.budgets(0)
    scheduler = SlurmNodesScheduler(load, queue, OFTEN, 0, [budget])
    scheduler.begin(0.0)
    scheduler.drop(0)
    assert scheduler.next_order == 1
    assert budget.headroom_mw == 400_000
    assert [entry.arrival for _, entry, _, _ in (scheduler.serve(),)] == [1]
    assert (scheduler.free, budget.headroom_mw) == (20, 400_000)


def test_what_never_fits_or_waits_for_nodes_that_never_come_back_is_known() -> None:
    held = [NodeSet(5, inf, 90), NodeSet(1, 50.0, 91)]
    scheduler = SlurmNodesScheduler(Load(NODES, 2, held), WaitQueue(), OFTEN)
    asked = {nodes: scheduler.expects_nodes(Entry(1, 1, nodes, 10.0)) for nodes in (2, 3, 4, 9)}
    assert asked == {2: True, 3: True, 4: False, 9: True}
    assert scheduler.is_any_allocated_for_ever


def test_an_overdue_job_keeps_its_watts_until_it_ends_and_is_looked_at_again() -> None:
    held = [NodeSet(5, 10.0, 90, 500_000)]
    pool, queue = Pool(3 * NODES, NODES * 100.0), WaitQueue()
    queue.add(Entry(1, 1, 4, 10.0, draw_mw=400_000))
    scheduler = SlurmNodesScheduler(
        Load(pool.units, pool.units - 5, held), queue, SlurmBackfill(), 0, pool.budgets(0)
    )
    assert scheduler.pass_alone(20.0) == []
    [planned] = scheduler.planned()
    assert planned.start_s == 50.0, "at the next look"
    [shortage] = scheduler.shortages(next(iter(queue)))
    assert (shortage.needed_mw, shortage.available_mw) == (400_000, 300_000)


def test_a_cap_of_several_clusters_is_refused() -> None:
    region = PowerBudget(Cap(Scope.REGION, "", ((0.0, 5),)), is_shared=True)
    with pytest.raises(ValueError, match="take easy"):
        SlurmNodesScheduler(Load(NODES, NODES), WaitQueue(), OFTEN, budgets=[region])


def test_between_looks_what_the_last_one_reserved_is_kept_and_the_next_one_is_due() -> None:
    """The second of two has no nodes now, so that no scheduler does anything about it."""
    queue = WaitQueue()
    queue.add(Entry(1, 1, 8, 50.0, draw_mw=600_000))
    planned = ReservedStart(1, 8, 100.0, 150.0, 600_000)
    look = Look(at_s=10.0, is_changed=True, reserved=(planned,))
    load = Load(NODES, 2, [NodeSet(6, 100.0, 0, 600_000)])
    [budget] = Pool(NODES, NODES * 100.0).budgets(0)
    scheduler = SlurmNodesScheduler(load, queue, SlurmBackfill(), 0, [budget], look)
    assert scheduler.pass_alone(20.0) == []
    assert budget.least_headroom_mw(100.0, 150.0) == 200_000
    assert scheduler.wake_s == 40.0
