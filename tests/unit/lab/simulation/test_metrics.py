from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.simulation.metrics import bounded_slowdown, summarise
from shared.replay.played import Played, SharedCap
from tests.unit.lab.simulation.schedules import fleet, played, schedules

waits = st.floats(0, 1e6)
runs = st.floats(0.001, 1e6)


@given(st.lists(st.tuples(waits, runs), min_size=1, max_size=20), st.sampled_from([10.0, 60.0]))
def test_bounded_slowdown_is_feitelsons(jobs: list[tuple[float, float]], threshold: float) -> None:
    wait, run = np.array(jobs).T
    expected = [max(1.0, (w + r) / max(r, threshold)) for w, r in jobs]
    assert bounded_slowdown(wait, run, threshold) == pytest.approx(expected)


@given(schedules())
def test_the_measures_are_those_of_a_loop_over_the_jobs(run: Played) -> None:
    summary = summarise(run)
    schedule, work = run.schedule, run.workload
    columns = work.submit_s, schedule.start_s, schedule.end_s, work.units[:, 0], schedule.cluster
    jobs = list(zip(*columns, strict=True))
    watts = (100.0, 150.0)
    makespan = max(end for _, _, end, _, _ in jobs) - min(submit for submit, *_ in jobs)
    assert summary.jobs == len(jobs)
    assert summary.makespan_s == pytest.approx(makespan)
    assert summary.wait_s.mean == pytest.approx(np.mean([start - sub for sub, start, *_ in jobs]))
    assert summary.response_s.mean == pytest.approx(np.mean([e - s for s, _, e, _, _ in jobs]))
    assert summary.sum_runtime_s == pytest.approx(sum(e - s for _, s, e, _, _ in jobs))
    busy = sum(u * (e - s) for _, s, e, u, _ in jobs)
    assert summary.utilisation == pytest.approx(busy / (13 * makespan))
    busy_j = sum(u * watts[c] * (e - s) for _, s, e, u, c in jobs)
    assert summary.busy_energy_j == pytest.approx(busy_j)
    free = [
        n * makespan - sum(u * (e - s) for _, s, e, u, c in jobs if c == k)
        for k, n in enumerate((8, 5))
    ]
    assert summary.idle_energy_j == pytest.approx(10 * free[0] + 20 * free[1])
    on_p1 = [c == 0 for *_, c in jobs]
    assert summary.best_cluster_share == pytest.approx(np.mean(on_p1))
    assert summary.mean_freq_ghz == pytest.approx(np.mean([2.0 if p1 else 3.0 for p1 in on_p1]))
    slow = [max(1, (e - s) / max(e - b, 60)) for s, b, e, *_ in jobs]
    assert summary.bounded_slowdown_60s.mean == pytest.approx(np.mean(slow))
    p1, p2 = summary.clusters
    assert p1.jobs + p2.jobs == summary.jobs
    assert p1.busy_energy_j + p2.busy_energy_j == pytest.approx(summary.busy_energy_j)
    assert p1.utilisation * 8 + p2.utilisation * 5 == pytest.approx(summary.utilisation * 13)
    assert (p1.best_cluster_share, p2.best_cluster_share) == (summary.best_cluster_share, None)
    free_of_caps = replace(run, fleet=replace(fleet(), cap_w=np.array([inf, inf])))
    uncapped = summarise(free_of_caps)
    assert (uncapped.highest_of_cap, uncapped.above_cap_s) == (None, None)


def test_percentiles_are_beside_the_mean_and_what_nobody_knows_stays_open() -> None:
    run = played([(0, wait, 10, 1, 0) for wait in range(8)])
    summary = summarise(Played(run.workload, run.schedule, fleet()))
    waits_s = summary.wait_s
    assert (waits_s.p50, waits_s.p90, waits_s.p99) == pytest.approx((3.5, 6.3, 6.93))
    assert (waits_s.p999, waits_s.longest) == pytest.approx((6.993, 7))
    assert (summary.mean_freq_ghz, summary.best_cluster_share) == (None, None)
    assert summary.promises_kept_share is None
    unused = summary.clusters[1]
    assert (unused.jobs, unused.mean_response_s) == (0, None)
    assert unused.idle_energy_j == 5 * 20 * 17


def test_the_widest_jobs_are_a_hundredth_and_all_that_are_as_wide() -> None:
    narrow = [(0, 1, 10, 1, 0)] * 100
    wide = [(0, wait, 10, 4, 0) for wait in (30, 50, 70)]
    assert summarise(played([*narrow, *wide])).widest_wait_s == 50
    widest = (0, 30, 10, 8, 0)
    assert summarise(played([*narrow, widest, *wide[1:]])).widest_wait_s == pytest.approx(50)


def test_a_promise_is_kept_by_a_start_before_it_and_counts_where_there_was_one() -> None:
    run = played([(0, start, 10, 1, 0) for start in (3, 5, 5, 9)])
    promised_s = np.array([4.0, 5.0, 4.0, np.nan])
    promised = Played(run.workload, replace(run.schedule, promised_s=promised_s), fleet())
    assert summarise(promised).promises_kept_share == pytest.approx(2 / 3)


@pytest.mark.parametrize("counts", [True, False])
@settings(max_examples=50)
@given(run=schedules(), cap_w=st.sampled_from([500.0, 900.0, 1500.0]))
def test_the_highest_draw_and_the_time_above_caps_are_those_of_a_loop_over_the_seconds(
    counts: bool, run: Played, cap_w: float
) -> None:
    """A unit of p1 draws 100 W, or 10 W that idles, one of p2 150 W, or 20 W."""
    shared = SharedCap("the region", (0, 1), cap_w)
    capped = replace(fleet(), shared_caps=(shared,), caps_count_idle=counts)
    found = summarise(replace(run, fleet=capped))
    shares, above_s = [], []
    for clusters, most_w in (((0,), 400.0), ((0, 1), cap_w)):
        idle_w = sum((8 * 10.0, 5 * 20.0)[each] for each in clusters)
        off_w = 0.0 if counts else idle_w
        drawn_w = []
        for time_s in range(int(run.schedule.end_s.max()) + 1):
            runs = (run.schedule.start_s <= time_s) & (time_s < run.schedule.end_s)
            beyond_w = [
                (run.used_units[runs & (run.schedule.cluster == each)]).sum() * (90.0, 130.0)[each]
                for each in clusters
            ]
            drawn_w.append(idle_w + sum(beyond_w))
        shares.append((max(drawn_w) - off_w) / (most_w - off_w))
        above_s.append(sum(each > most_w for each in drawn_w))
    assert found.highest_of_cap == pytest.approx(max(shares))
    assert found.above_cap_s == max(above_s)
