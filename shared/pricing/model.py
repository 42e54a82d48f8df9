"""Prices as in "Enabling Fair Pricing on HPC Systems with Node Sharing" (Breslow et al., 2013).

Times are whole microseconds and money is decimal, so that a price can be computed again.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from typing import Final

from coplace_client.bounds import CORE_S, CORES
from coplace_client.checks import require_text
from coplace_client.errors import RejectedError
from coplace_client.millicores import PER_CORE, exact_cores, whole_cores
from shared.domain.money import service_units
from shared.models.shutters import Interference

# A charge has to fit into a message, whatever the names of co-runners.
MOST_ROWS: Final = 256
EXACT: Final = Context(prec=60, rounding=ROUND_HALF_EVEN)


@dataclass(frozen=True, slots=True)
class CoRun:
    """One interval beside one co-runner, whose account is named where it is known and may be
    surcharged. Raises RejectedError on construction."""

    co_runner_job_id: str
    began_at_us: int
    ended_at_us: int
    interference: Interference
    co_runner_account: str = ""

    def __post_init__(self) -> None:
        require_text("co_runner_job_id", self.co_runner_job_id)
        if not 0 <= self.began_at_us <= self.ended_at_us:
            raise RejectedError("ended_at_us", "must not lie before began_at_us, nor before 1970")


@dataclass(frozen=True, slots=True)
class Occupied:
    """What a job occupied: all its cores are C of equation 1. A job that never started has
    `started_at_us` 0; in `suspended` times (from, until) it did not run. Raises RejectedError."""

    millicores: int
    started_at_us: int
    ended_at_us: int
    suspended: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        CORES.require("cores", whole_cores(self.millicores))
        if not 0 <= self.started_at_us <= self.ended_at_us:
            raise RejectedError("ended_at_us", "must not lie before started_at_us, nor before 1970")
        CORE_S.require("ended_at_us", self.millicores / PER_CORE * self.runtime_us / 1e6)

    @property
    def cores(self) -> Decimal:
        """Return its cores, exactly."""
        return exact_cores(self.millicores)

    @property
    def runtime_us(self) -> int:
        """Return T_co: the time from start to end, while it was not suspended; 0 for one that never
        started."""
        if not self.started_at_us:
            return 0
        return self.run_us(self.started_at_us, self.ended_at_us)

    def run_us(self, from_us: int, until_us: int) -> int:
        """Return for how long it ran in a part of the time from its start to its end."""
        if not self.suspended:
            return until_us - from_us
        overlaps = (min(end, until_us) - max(begin, from_us) for begin, end in self.suspended)
        return until_us - from_us - sum(max(0, overlap) for overlap in overlaps)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The time of a run that went by beside one co-runner, and what that did to it; or beside
    several, listed together without a name."""

    co_runner_job_id: str
    duration_us: int
    slowdown_ratio: float
    shutters_used: int = 0
    shutters_dropped: int = 0
    co_runners: int = 1
    co_runner_account: str = ""

    @property
    def solo_us(self) -> Decimal:
        """Return what the same work takes alone."""
        return Decimal(self.duration_us) / Decimal(self.slowdown_ratio)

    @property
    def lost_us(self) -> Fraction:
        """Return what the co-runner cost the run, d - d / s, exactly."""
        return self.duration_us - self.duration_us / Fraction(self.slowdown_ratio)


def evidence(co_runs: Iterable[CoRun], usage: Occupied) -> tuple[Evidence, ...]:
    """Return the intervals within the run, one row a co-runner, in the order in which they began.

    Where intervals overlap the strongest slowdown counts: a job on several nodes advances at the
    pace of its slowest. Together the rows are never longer than the run.
    """
    if not usage.runtime_us:
        return ()
    with localcontext(EXACT):
        rows: dict[str, list[tuple[CoRun, int]]] = {}
        for co_run, from_us, until_us in _segments(co_runs, usage.started_at_us, usage.ended_at_us):
            if duration_us := usage.run_us(from_us, until_us):
                rows.setdefault(co_run.co_runner_job_id, []).append((co_run, duration_us))
        return _few([_row(name, segments) for name, segments in rows.items()])


def _few(rows: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """As they are, or the MOST_ROWS - 1 that cost the run the most time and one of all others.

    A charge is computed from the rows that it carries, so that these reproduce it: the row of the
    others has the ratio that leaves the sum of their solo times as is, as each row has.
    """
    if len(rows) <= MOST_ROWS:
        return tuple(rows)
    cost = [row.duration_us - row.solo_us for row in rows]
    order = sorted(range(len(rows)), key=lambda index: (-cost[index], index))
    kept = sorted(order[: MOST_ROWS - 1])
    others = [rows[index] for index in order[MOST_ROWS - 1 :]]
    return (*(rows[index] for index in kept), _together(others))


def _together(rows: Sequence[Evidence]) -> Evidence:
    duration_us = sum(row.duration_us for row in rows)
    solo_us = sum((row.solo_us for row in rows), Decimal(0))
    return Evidence(
        "",
        duration_us,
        max(1.0, float(duration_us / solo_us)),
        sum(row.shutters_used for row in rows),
        sum(row.shutters_dropped for row in rows),
        len(rows),
    )


def _row(co_runner_job_id: str, segments: Sequence[tuple[CoRun, int]]) -> Evidence:
    """Segments beside one co-runner as one: its ratio leaves the sum of their solo times as is."""
    duration_us = sum(duration for _, duration in segments)
    solo_us = sum(
        (Decimal(us) / Decimal(run.interference.slowdown_ratio) for run, us in segments), Decimal(0)
    )
    measured = {run for run, _ in segments}
    accounts = {run.co_runner_account for run, _ in segments}
    return Evidence(
        co_runner_job_id,
        duration_us,
        max(1.0, float(duration_us / solo_us)),
        sum(run.interference.shutters_used for run in measured),
        sum(run.interference.shutters_dropped for run in measured),
        co_runner_account=accounts.pop() if len(accounts) == 1 else "",
    )


def _segments(
    co_runs: Iterable[CoRun], start_us: int, end_us: int
) -> Iterator[tuple[CoRun, int, int]]:
    """Disjoint segments of [start, end], from and until, each with the strongest of the co-runs
    that cover it."""
    runs = sorted(co_runs, key=lambda run: (run.began_at_us, run.ended_at_us, run.co_runner_job_id))
    times_us = (time for run in runs for time in (run.began_at_us, run.ended_at_us))
    edges = sorted({min(max(time, start_us), end_us) for time in times_us})
    active: list[tuple[float, int, CoRun]] = []
    following = 0
    for left_us, right_us in pairwise(edges):
        while following < len(runs) and runs[following].began_at_us <= left_us:
            run = runs[following]
            heapq.heappush(active, (-run.interference.slowdown_ratio, following, run))
            following += 1
        while active and active[0][2].ended_at_us <= left_us:
            heapq.heappop(active)
        if active:
            yield active[0][2], left_us, right_us


@dataclass(frozen=True, slots=True)
class Price:
    """What a job costs, service units quantised to 0.000001, and the times behind it."""

    price_su: Decimal
    state_of_practice_su: Decimal
    solo_time_s: float
    slowdown_ratio: float


def price(
    rate_su_per_core_s: Decimal, cores: Decimal | int, runtime_us: int, rows: Iterable[Evidence]
) -> Price:
    """Return equation 4, L x (T_solo / T_co) x C x T_solo, beside equation 1, L x C x T_co."""
    if not runtime_us:
        return Price(service_units(Decimal(0)), service_units(Decimal(0)), 0.0, 1.0)
    with localcontext(EXACT):
        saved_us = sum((row.duration_us - row.solo_us for row in rows), Decimal(0))
        solo_us = runtime_us - saved_us
        rate_su_per_us = rate_su_per_core_s * cores / 1_000_000
        return Price(
            service_units(rate_su_per_us * solo_us * solo_us / runtime_us),
            service_units(rate_su_per_us * runtime_us),
            float(solo_us / 1_000_000),
            max(1.0, float(runtime_us / solo_us)),
        )
