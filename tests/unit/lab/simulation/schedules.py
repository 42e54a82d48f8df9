"""Schedules that break no rule, made without the scheduler."""

import numpy as np
from hypothesis import strategies as st

from shared.replay.played import Fleet, Played, Traits
from shared.scheduling.workload import Schedule, Workload

UNITS = (8, 5)


def fleet() -> Fleet:
    return Fleet(("p1", "p2"), np.array(UNITS), np.array([10.0, 20.0]), np.array([400.0, np.inf]))


def played(jobs: list[tuple[float, float, float, int, int]]) -> Played:
    """(submit, wait, run, units, cluster) of jobs by submission; unit u of p1 draws 100 W, of p2
    150 W."""
    submit, wait, run, units, cluster = (np.array(column) for column in zip(*jobs, strict=True))
    both = np.ones((len(jobs), 2))
    workload = Workload(
        submit_s=submit.astype(float),
        order=np.arange(len(jobs))[:, np.newaxis] * both.astype(int),
        units=units[:, np.newaxis] * both.astype(int),
        limit_s=run[:, np.newaxis] * both,
        run_s=run[:, np.newaxis] * both,
        power_w=units[:, np.newaxis] * np.array([[100.0, 150.0]]),
    )
    start = (submit + wait).astype(float)
    schedule = Schedule(cluster, start, start + run, np.zeros(len(jobs), dtype=np.bool_))
    traits = Traits(
        freq_ghz=both * np.array([2.0, 3.0]),
        best=np.zeros(len(jobs), dtype=np.int64),
        app=np.arange(len(jobs)) % 2,
        apps=("a", "b"),
    )
    return Played(workload, schedule, fleet(), traits)


@st.composite
def schedules(draw: st.DrawFn) -> Played:
    """First come, first served on either cluster: each job starts as soon as it fits."""
    drawn = draw(
        st.lists(
            st.tuples(st.integers(0, 50), st.integers(1, 20), st.integers(1, 5), st.integers(0, 1)),
            min_size=1,
            max_size=25,
        )
    )
    jobs: list[tuple[float, float, float, int, int]] = []
    for submit, run, units, cluster in sorted(drawn):
        at = submit
        while used(jobs, cluster, at) + units > UNITS[cluster] or any(
            used(jobs, cluster, s + w) + units > UNITS[cluster]
            for s, w, _, _, c in jobs
            if c == cluster and at <= s + w < at + run
        ):
            at += 1
        jobs.append((submit, at - submit, run, units, cluster))
    return played(jobs)


def used(jobs: list[tuple[float, float, float, int, int]], cluster: int, at: float) -> int:
    return sum(u for s, w, r, u, c in jobs if c == cluster and s + w <= at < s + w + r)
