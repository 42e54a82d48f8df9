"""Simulated jobs with phases, noise and co-runners: how near shutters are to the true slowdown."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from coplace_agent.model import OverheadBudget, Timing, adapted, dilation_ratio
from lab.papers.pricing.discounts import discounts
from shared.models.shutters import (
    Shutter,
    filtered_slowdown,
    interference,
    slowdown_interval,
    unfiltered_slowdown,
)

Floats = np.ndarray[Any, np.dtype[np.float64]]

STREAMS: Final = 30
RUN_S: Final = 60.0
# What shutters are fine enough to see, and what a grid costs.
_STEP_S: Final = 0.0002
# Of counters over 1 ms; it shrinks with the root of the time.
_NOISE: Final = 0.02
_WANTED: Final = Timing(0.0032, 1, 0.2)
_BUDGET: Final = OverheadBudget(0.01, 0.0008, 2.0)


@dataclass(frozen=True, slots=True)
class Stream:
    """IPC of a job alone and beside its co-runners, on a grid of steps."""

    solo: Floats
    co: Floats

    @property
    def slowdown_ratio(self) -> float:
        """Return T_co / T_solo of the whole run: in each step as much work is done as alone in a
        part of it, IPC_co / IPC_solo."""
        return float(1 / np.mean(self.co / self.solo))


def stream(seed: int, co_runners: int) -> Stream:
    """Draw a job and its co-runners, which go through phases of 20 ms to 5 s. What co-runners cost
    adds up, and some streams have none that matters."""
    drawn = np.random.default_rng((seed, co_runners))
    steps = round(RUN_S / _STEP_S)
    solo = _phases(drawn, steps, 0.4, 2.5)
    sensitivity = _phases(drawn, steps, 0.0, 1.0)
    most = float(drawn.choice([0.02, 0.3, 0.8])) / co_runners
    pressure = sum(_phases(drawn, steps, 0.0, most) for _ in range(co_runners))
    return Stream(solo, solo / (1 + sensitivity * pressure))


def _phases(drawn: np.random.Generator, steps: int, least: float, most: float) -> Floats:
    """Levels that hold for a time drawn from 20 ms to 5 s, even in its logarithm."""
    lengths = (0.02 * 250 ** drawn.random(1_000) / _STEP_S).astype(int) + 1
    lengths = lengths[: 1 + np.searchsorted(np.cumsum(lengths), steps)]
    return np.repeat(drawn.uniform(least, most, len(lengths)), lengths)[:steps]


def shutters(found: Stream, timing: Timing, jobs: int, seed: int) -> list[Shutter]:
    """Return what the agent sees of one of the jobs, that take turns."""
    drawn = np.random.default_rng((seed, 1))
    window = max(1, round(timing.measurement_s * timing.measurements / _STEP_S))
    turn = round(jobs * (3 * window + timing.period_s / _STEP_S))
    begins = np.arange(round(drawn.integers(turn)), len(found.solo) - 3 * window, turn)
    seen = [
        _mean(ipc, begins + place * window, window)
        for place, ipc in enumerate((found.co, found.solo, found.co))
    ]
    sigma = _NOISE / np.sqrt(timing.measurement_s * timing.measurements / 0.001)
    noisy = np.array(seen).T * (1 + sigma * drawn.standard_normal((len(begins), 3)))
    return [Shutter(*each) for each in np.clip(noisy, 0.01, 50).tolist()]


def played_overhead(found: Stream, timing: Timing, jobs: int, seed: int) -> float:
    """Return by how much shutters lengthen a run where the jobs take turns: it is stopped in those
    of others and is faster in its own, which equations 9 and 10 leave out."""
    shutter = timing.measurement_s * timing.measurements / _STEP_S
    between = timing.period_s / _STEP_S + 2 * shutter
    slowdown = found.solo / found.co
    steps = len(slowdown)
    done = elapsed = 0.0
    turn = int(np.random.default_rng((seed, 2)).integers(jobs))
    while (done := done + between) < steps:
        if turn == 0:
            done += shutter * slowdown[int(done)]
        elapsed += between + shutter
        turn = (turn + 1) % jobs
    return (elapsed + between - (done - steps)) / steps - 1


def _mean(ipc: Floats, begins: np.ndarray[Any, Any], window: int) -> Floats:
    summed = np.concatenate(([0.0], np.cumsum(ipc)))
    return np.asarray((summed[begins + window] - summed[begins]) / window)


def _row(timing: Timing, jobs: int) -> dict[str, str]:
    """Mean absolute errors of the predicted runtime over all streams, in percent."""
    truths, filtered, unfiltered, used, played = [], [], [], [], []
    for seed in range(STREAMS):
        found = stream(seed, jobs - 1)
        seen = shutters(found, timing, jobs, seed)
        truths.append(found.slowdown_ratio)
        filtered.append(filtered_slowdown(seen))
        unfiltered.append(unfiltered_slowdown(seen))
        used.append(interference(seen).shutters_used / len(seen))
        played.append(played_overhead(found, timing, jobs, seed))
    shutter_s = timing.measurement_s * timing.measurements
    mean = [float(np.mean(truths))] * STREAMS
    return {
        "jobs": str(jobs),
        "S": f"{timing.measurement_s * 1e3:.1f} ms",
        "P": f"{timing.period_s * 1e3:.0f} ms",
        "shutters a minute": f"{60 / (jobs * (3 * shutter_s + timing.period_s)):.0f}",
        "overhead, eq. 10": f"{100 * (dilation_ratio(jobs, shutter_s, timing.period_s) - 1):.2f} %",
        "played": f"{100 * float(np.mean(played)):.2f} %",
        "used": f"{100 * float(np.mean(used)):.0f} %",
        "filtered": _error(filtered, truths),
        "unfiltered": _error(unfiltered, truths),
        "always 1": _error([1.0] * STREAMS, truths),
        "always the mean": _error(mean, truths),
    }


def _error(estimates: Sequence[float], truths: Sequence[float]) -> str:
    relative = np.abs(np.array(estimates) / np.array(truths) - 1)
    return f"{100 * float(np.mean(relative)):.1f} %"


def tables() -> Iterator[tuple[str, list[Mapping[str, str]]]]:
    """Yield tables by shutter length, by rate, and by co-runners at what the budget of overhead
    allows."""
    lengths = (0.0002, 0.0008, 0.0032, 0.0128, 0.0256)
    yield "shutter-length", [_row(Timing(each, 1, 0.2), 2) for each in lengths]
    periods = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
    yield "shutter-rate", [_row(Timing(0.0032, 1, each), 2) for each in periods]
    jobs = (2, 3, 4, 5, 7, 9)
    yield "co-runners", [_row(adapted(_WANTED, each, 0.0, _BUDGET), each) for each in jobs]
    yield "discounts", [_discounts(adapted(_WANTED, each, 0.0, _BUDGET), each) for each in jobs]
    yield "bootstrap", [_coverage()]


def _discounts(timing: Timing, jobs: int) -> Mapping[str, str]:
    found = [stream(seed, jobs - 1) for seed in range(STREAMS)]
    seen = [shutters(each, timing, jobs, seed) for seed, each in enumerate(found)]
    truths = [each.slowdown_ratio for each in found]
    return {"jobs": str(jobs), **discounts(truths, [filtered_slowdown(each) for each in seen])}


def _coverage() -> Mapping[str, str]:
    """How often the interval at 95 % holds the true slowdown, with S, P and K of the paper."""
    held = {"filtered": 0, "unfiltered": 0}
    for seed in range(STREAMS):
        found = stream(seed, 1)
        seen = shutters(found, _WANTED, 2, seed)
        for name, slowdown in (
            ("filtered", filtered_slowdown),
            ("unfiltered", unfiltered_slowdown),
        ):
            low, high = slowdown_interval(seen, slowdown)
            held[name] += low <= found.slowdown_ratio <= high
    return {"streams": str(STREAMS), **{name: str(count) for name, count in held.items()}}
