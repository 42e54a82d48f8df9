"""What predictions do not say of their errors, from jobs that have ended: how much more than their
deviations they err, and how much alike those of one user do."""

from collections import defaultdict, deque
from collections.abc import Sequence
from math import log, sqrt
from statistics import fmean
from typing import NamedTuple

# Halvings of a deviation that is at most this.
_HALVINGS, _MOST_SD = 40, 3.0


class Judged(NamedTuple):
    """A prediction compared with what the job drew: the deviation that it said, and by how much the
    logarithm of what was drawn lies above it."""

    user: str
    said_sd: float
    error: float

    @classmethod
    def of(cls, user: str, said_sd: float, predicted_w: float, drawn_w: float) -> "Judged":
        return cls(user, said_sd, log(drawn_w / predicted_w))


class Alike(NamedTuple):
    """The deviation that explains errors together with what predictions said (`cap_power_sd`), and
    the correlation of errors of one user's jobs, in units of both (`cap_user_correlation`)."""

    runs_sd: float
    correlation: float


def alike(judged: Sequence[Judged], lag: int) -> Alike:
    """Estimate from jobs in their order; those of one user within `lag` jobs of each other
    were predicted before the other one had ended."""
    low, high = 0.0, _MOST_SD
    for _ in range(_HALVINGS):
        runs_sd = (low + high) / 2
        is_less = fmean(each * each for each in _in_units(judged, runs_sd)) > 1
        low, high = (runs_sd, high) if is_less else (low, runs_sd)
    units, near = _in_units(judged, high), defaultdict[str, deque[int]](deque)
    total, pairs = 0.0, 0
    for place, each in enumerate(judged):
        before = near[each.user]
        while before and place - before[0] > lag:
            before.popleft()
        total += units[place] * sum(units[other] for other in before)
        pairs += len(before)
        before.append(place)
    return Alike(high, max(0.0, total / pairs) if pairs else 0.0)


def _in_units(judged: Sequence[Judged], runs_sd: float) -> list[float]:
    return [each.error / sqrt(each.said_sd**2 + runs_sd**2) for each in judged]
