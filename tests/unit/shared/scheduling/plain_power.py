"""What may be drawn and what is, as lists of intervals on a clock of whole seconds.

Slow on purpose: every second is looked at, nothing is kept from one question to the next.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from shared.scheduling.power import NO_CAP_MW, Step

# No second later than this is looked at; all that is tested is over by then.
END_S = 240


class Interval(NamedTuple):
    """Something draws from a second until before another one."""

    begin_s: float
    end_s: float
    draw_mw: int

    def draws_at(self, second: float) -> bool:
        return self.begin_s <= second < self.end_s


@dataclass
class PlainBudget:
    """A cap with what runs and what is reserved under it, by job."""

    steps: tuple[Step, ...]
    base_mw: int
    now_s: float = 0.0
    running: dict[int, Interval] = field(default_factory=dict)
    reserved: dict[int, Interval] = field(default_factory=dict)

    def cap_at(self, second: float) -> int:
        return next((mw for s, mw in reversed(self.steps) if s <= second), NO_CAP_MW)

    def drawn_at(self, second: float, *, is_strict: bool) -> int:
        """By what idles and runs; strictly, what is overdue draws for ever."""
        draws = 0
        for one in self.running.values():
            is_overdue = one.end_s <= self.now_s
            draws += one.draw_mw if second < one.end_s or (is_overdue and is_strict) else 0
        return self.base_mw + draws

    def room_at(self, second: float, *, but: int = -1, is_strict: bool = True) -> int:
        kept = (r.draw_mw for j, r in self.reserved.items() if j != but and r.draws_at(second))
        return self.cap_at(second) - self.drawn_at(second, is_strict=is_strict) - sum(kept)

    def least_room(self, from_s: float, until_s: float, *, but: int = -1) -> int:
        return min(self.room_at(s, but=but) for s in seconds(from_s, until_s))

    def earliest(self, draw_mw: int, duration_s: float, from_s: float, *, but: int = -1) -> float:
        """What is over by `from_s` is expected to have ended then."""
        fits_s = 0.0
        for second in range(int(from_s), END_S):
            room_mw = self.room_at(second, but=but, is_strict=False)
            fits_s = fits_s + 1 if room_mw >= draw_mw else 0
            if fits_s == duration_s:
                return second + 1 - duration_s
        return inf


def seconds(from_s: float, until_s: float) -> Iterable[int]:
    return range(int(from_s), int(min(until_s, END_S)))
