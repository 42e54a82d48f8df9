"""What rounds show, with intervals."""

import os
import statistics
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from lab.benchmarks.by_turns.__main__ import interval as of_ratios
from tests.kueue.rounds import Round

_DRAWS: Final = 2000
_LOW, _HIGH = 0.025, 0.975


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return where the mean of values like these lies in 95 of 100 cases: by drawing them again."""
    rng, count = Random(0), len(values)
    means = sorted(statistics.fmean(rng.choices(values, k=count)) for _ in range(_DRAWS))
    return means[int(_LOW * _DRAWS)], means[int(_HIGH * _DRAWS)]


def print_round(found: Round) -> None:
    """Print what came of one round."""
    waits = sorted(found.admission_s.values())
    if waits:
        late = waits[int(0.95 * (len(waits) - 1))]
        words = f"admitted {len(waits)}, median {statistics.median(waits):.2f} s, p95 {late:.2f} s"
        print(f"{found.queue}: {words}; makespan {found.makespan_s:.1f} s")
    cpu = {name: round(ms, 1) for name, ms in found.cpu_ms.items()}
    calls = {name: round(count, 1) for name, count in found.calls.items()}
    print(f"{found.queue}: versions {found.versions:.1f}; CPU, ms: {cpu}; calls: {calls}")
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"{found.queue}: load of the last 1, 5, 15 minutes: {load}", flush=True)
    for problem in found.problems:
        print(f"{found.queue}: WRONG: {problem}", flush=True)


def print_all(rounds: Sequence[Round]) -> None:
    """Print each queue's means over its rounds, and how Coplace's waits differ from Kueue's."""
    by_queue: dict[str, list[Round]] = {}
    for each in rounds:
        by_queue.setdefault(each.queue, []).append(each)
    for queue, own in by_queue.items():
        waits = [wait_s for each in own for wait_s in each.wait_s.values()]
        spans = [each.makespan_s for each in own]
        admission = statistics.median(s for each in own for s in each.admission_s.values())
        kueue = statistics.fmean(each.cpu_ms.get("kueue", 0.0) for each in own)
        api = statistics.fmean(each.cpu_ms.get("kube-apiserver", 0.0) for each in own)
        print(
            f"{queue}: mean wait {_told(waits)} s, makespan {min(spans):.1f} to "
            f"{max(spans):.1f} s, "
            f"median to admission {admission:.2f} s, Kueue {kueue:.1f} ms, API server {api:.1f} ms"
        )
    if {"plain", "coplace"} <= by_queue.keys():
        print(f"coplace - plain: mean wait {_told(_differences(by_queue))} s")
        _print_spans(by_queue)


def _print_spans(by_queue: Mapping[str, Sequence[Round]]) -> None:
    """A turn in which something was left has no makespan."""
    pairs = zip(by_queue["coplace"], by_queue["plain"], strict=True)
    spans = [(one.makespan_s, other.makespan_s) for one, other in pairs]
    ratios = [one / other for one, other in spans if one and other]
    if len(ratios) > 1:
        low, mean, high = of_ratios(ratios)
        print(f"coplace / plain: makespan {mean:.3f} ({low:.3f} to {high:.3f})")


def _differences(by_queue: Mapping[str, Sequence[Round]]) -> list[float]:
    """Of the same Workload, by its number: rounds of both queues are the same."""
    return [
        one.wait_s[name] - wait_s
        for one, other in zip(by_queue["coplace"], by_queue["plain"], strict=True)
        for before, wait_s in other.wait_s.items()
        for name in one.wait_s
        if name.rpartition("-")[2] == before.rpartition("-")[2]
    ]


def _told(values: Sequence[float]) -> str:
    low, high = interval(values)
    return f"{statistics.fmean(values):.2f} ({low:.2f} to {high:.2f})"
