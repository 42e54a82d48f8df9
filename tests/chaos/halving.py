"""The shortest beginning of a violated play that is violated too."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar


class Judged(Protocol):
    """What came of a play: `events` is how far it went."""

    @property
    def events(self) -> int:
        """How many events it had."""

    @property
    def violations(self) -> Sequence[str]:
        """What was violated."""


ReportT = TypeVar("ReportT", bound=Judged)


def shortest(whole: ReportT, play: Callable[[int], ReportT], least: int) -> ReportT:
    """The violated report of the shortest beginning, located by halving to a twentieth of its
    length, or to `least` events; `play` plays so many."""
    below, report = 0, whole
    most = report.events
    while most - below > max(least, most // 20):
        middle = (below + most) // 2
        shorter = play(middle)
        if shorter.violations:
            most, report = middle, shorter
        else:
            below = middle
    return report
