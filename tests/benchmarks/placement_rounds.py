"""How fast the placement processor decides with 10,000 jobs queued: python -m
tests.benchmarks.placement_rounds [rounds] [clusters]

Clusters of 512 nodes of two models, eight applications with signatures and coefficients over all
P-states, a degradation model, rounds of 50 submissions. Every job has an entry on every cluster. As
many jobs end in a round as started in the one before, in the order of their limits, so that nodes
come free and the queue stays as it is.
"""

import sys
import time
from collections.abc import Iterator

import numpy as np
from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided

from services.placement.model import Rules
from services.placement.processor import Placement
from shared.messaging.event import Event
from shared.messaging.stage import Round
from tests.unit.services.placement import region

QUEUED, PER_ROUND, PERIOD_US = 10_000, 50, 30_000_000


def clusters(count: int) -> Iterator[Event]:
    """What a region of so many clusters knows: each is of one of the two node models."""
    yield from region.knowledge()
    for number in range(3, count + 1):
        yield region.declared(f"p{2 - number % 2}", cluster=f"p{number}")


def submissions(first: int, count: int, rng: np.random.Generator) -> Iterator[Event]:
    """Jobs of 1 to 256 nodes, powers of two, 30 % shareable."""
    for number in range(first, first + count):
        yield region.submitted(
            f"job-{number:06d}",
            time_us=region.T0_US + number,
            app_id=region.APPS[int(rng.integers(len(region.APPS)))],
            nodes=int(2 ** rng.integers(0, 9)),
            walltime_s=float(rng.uniform(600, 86_400)),
            shareable=bool(rng.random() < 0.3),
        )


class Site:
    """Ends the jobs whose limits come first, as many as it is told."""

    def __init__(self) -> None:
        self._running: list[tuple[float, str]] = []
        self._confirmed: list[Event] = []

    def start(self, decided: list[PlacementDecided], now_us: int) -> int:
        """Take starts; how many there were."""
        starts = [d for d in decided if d.verdict == VERDICT_START]
        self._running += [(now_us / 1e6 + d.walltime_s, d.job_id) for d in starts]
        self._confirmed = [region.started(d) for d in starts]
        return len(starts)

    def finish(self, count: int, now_us: int) -> Iterator[Event]:
        """What was started is confirmed; the next jobs that end."""
        yield from self._confirmed
        self._running.sort()
        ended, self._running = self._running[:count], self._running[count:]
        for _, job_id in ended:
            payload = JobFinished(job_id=job_id, attempt=1, ended_at_us=now_us)
            yield Event(f"site/finished/{job_id}/1", "site", now_us, "region", payload)


def main(rounds: int = 200, count: int = 8) -> None:
    """Print milliseconds a round and jobs decided a second."""
    rng, site = np.random.default_rng(1), Site()
    placement = Placement({}, Rules(), 7.0)
    region.feed(placement, clusters(count))
    region.feed(placement, submissions(0, QUEUED + 100 * count, rng))
    began_us = region.T0_US + PERIOD_US
    started = site.start(region.decisions(placement.end_round(Round(0, began_us))), began_us)
    placement.changes()
    seconds, cpu_s, starts = [], 0.0, 0
    for number in range(1, rounds + 1):
        now_us = region.T0_US + (number + 1) * PERIOD_US
        events = [*site.finish(started, now_us), *submissions(10**5 + number * 100, PER_ROUND, rng)]
        began, began_cpu = time.perf_counter(), time.process_time()
        region.feed(placement, events)
        decided = region.decisions(placement.end_round(Round(number, now_us)))
        placement.changes()
        seconds.append(time.perf_counter() - began)
        cpu_s += time.process_time() - began_cpu
        started = site.start(decided, now_us)
        starts += started
    p50, p99 = np.percentile(seconds, [50, 99]) * 1e3
    print(f"{rounds} rounds of {PER_ROUND} submissions, {QUEUED} queued, {starts} later starts")
    print(f"a round: p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    jobs = rounds * PER_ROUND
    print(f"jobs decided: {jobs / sum(seconds):.0f} /s, {jobs / cpu_s:.0f} a CPU-second")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
