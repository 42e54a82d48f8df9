"""How long searches for plans go on, and what became of them."""

from dataclasses import dataclass


@dataclass(slots=True)
class Searches:
    """How many plans were looked for: without an answer in time, which is the list schedule then,
    and those that came out cheaper than it."""

    plans: int = 0
    unanswered: int = 0
    improved: int = 0


def tried_limits_s(limit_s: float, longest_s: float) -> list[float]:
    """Return the limits of a search, s, one after the other while it has no answer: each twice the
    one before, up to the longest; the first in any case."""
    limits_s = [limit_s]
    while 2 * limits_s[-1] <= longest_s:
        limits_s.append(2 * limits_s[-1])
    return limits_s
