"""When jobs that wait would start, and where, if nothing else arrived and every limit held."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from shared.scheduling.forward import forward
from shared.scheduling.passes import ClusterScheduler


@dataclass(frozen=True, slots=True)
class Expected:
    """A start that lies ahead."""

    cluster: str
    start_s: float


def forecast(
    now_s: float, schedulers: Mapping[str, ClusterScheduler]
) -> Iterator[tuple[int, Expected]]:
    """The arrival numbers of the jobs in the queue with their expected starts, soonest first:
    as far as it is asked for. The schedulers, numbered by their place, are used up.

    Jobs end before their limits and others arrive, so most starts come earlier, and where better
    tiers or priorities arrive some come later. Left out are jobs that fit nowhere as the clusters
    are, or under no cap.
    """
    names, played = list(schedulers), list(schedulers.values())
    ends = [
        (max(end_s, now_s), scheduler.number, holder)
        for scheduler in played
        for end_s, holder in scheduler.expected_ends()
    ]
    for start_s, (number, entry, _, _) in forward(played, now_s, ends, []):
        yield entry.arrival, Expected(names[number], start_s)
