"""Which units of a cluster each job holds: a schedule says only how many."""

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise

from coplace_client.errors import UnusableError
from shared.scheduling.workload import Floats, Ints


def assign_units(units: int, used: Ints, start_s: Floats, end_s: Floats) -> list[list[int]]:
    """Assign the units of each job of one cluster, ascending: the lowest that are free when it
    starts.

    What ends at an instant is free for what starts then. Raises UnusableError where a job finds too
    few units: the schedule then gave out more than there are.
    """
    free = list(range(units))
    heapify(free)
    held: list[list[int]] = [[] for _ in used]
    counts = used.tolist()
    for job, starts in _events(start_s, end_s):
        if not starts:
            for unit in held[job]:
                heappush(free, unit)
        elif counts[job] > len(free):
            problem = f"a job takes {counts[job]} of {len(free)} free units at {start_s[job]:g} s"
            raise UnusableError(f"{problem}: the schedule oversubscribes the cluster of {units}")
        else:
            held[job] = [heappop(free) for _ in range(counts[job])]
    return held


def _events(start_s: Floats, end_s: Floats) -> Iterator[tuple[int, bool]]:
    """Jobs as they end (False) and start (True), in the order of time."""
    ends = [(at, False, job) for job, at in enumerate(end_s.tolist())]
    starts = [(at, True, job) for job, at in enumerate(start_s.tolist())]
    return ((job, is_start) for _, is_start, job in sorted(ends + starts))


def runs(indices: Sequence[int]) -> list[tuple[int, int]]:
    """Return contiguous runs of ascending indices as (first, count)."""
    cuts = [at for at, (left, right) in enumerate(pairwise(indices), 1) if right != left + 1]
    edges = [0, *cuts, len(indices)]
    return [(indices[first], end - first) for first, end in pairwise(edges)]
