"""The order of the last plan, for a search that goes on where that one ended."""

from collections.abc import Sequence

from shared.scheduling.list_scheduling import CappedSituation


def kept_order(at: CappedSituation, order: Sequence[int], last: Sequence[int]) -> list[int]:
    """Return the places of what waits as in the last plan, arrival numbers in its order; a new job
    comes before the first one that `order`, of all places, has behind it."""
    places = {job.arrival: place for place, job in enumerate(at.waiting)}
    rank = {place: n for n, place in enumerate(order)}
    known = set(last)
    kept = [places[arrival] for arrival in last if arrival in places]
    for place in order:
        if at.waiting[place].arrival not in known:
            behind = (n for n, other in enumerate(kept) if rank[other] > rank[place])
            kept.insert(next(behind, len(kept)), place)
    return kept
