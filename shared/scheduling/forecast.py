"""Forecasts of starts: when and where waiting jobs would start if nothing else arrived and every
limit was used up."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from shared.scheduling.backfill import Backfill, ClusterScheduler
from shared.scheduling.dispatch import Served
from shared.scheduling.engine import Engine

_NOT_KNOWN: Final[Mapping[int, float]] = {}


@dataclass(frozen=True, slots=True)
class Expected:
    """A start that lies ahead."""

    cluster: str
    start_s: float


def forecast(
    now_s: float,
    schedulers: Mapping[str, ClusterScheduler],
    share: float = 1.0,
    expected_s: Mapping[int, float] = _NOT_KNOWN,
) -> Iterator[tuple[int, Expected]]:
    """Yield the arrival numbers of the jobs in the queue with their expected starts, soonest first:
    as far as it is asked for. The schedulers, numbered by their place, are used up.

    An entry that starts takes a `share` of its limit; a running job ends when it is expected to, by
    its holder, or else at its limit. By the whole limits, jobs end before them and others arrive:
    most starts come earlier, and where better tiers or priorities arrive some come later. Jobs are
    left out that fit nowhere as the clusters are, or under no cap.
    """
    names, played = list(schedulers), list(schedulers.values())
    ends = [
        (max(expected_s.get(holder, end_s), now_s), scheduler.number, holder)
        for scheduler in played
        for end_s, holder in scheduler.expected_ends()
    ]

    def runs_s(served: Served) -> float:
        _, entry, _, _ = served
        return share * entry.limit_s

    engine = Engine(Backfill(played, iter(())), (), runs_s, now_s, ends)
    while not engine.is_over:
        for number, entry, _, _ in engine.step():
            yield entry.arrival, Expected(names[number], engine.now_s)
