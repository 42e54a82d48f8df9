"""Steps down in P-state: what each takes off a job's speed, and the watts that it gives.

A second of a job's run takes its speed, T / T(P-state), over max(60 s, T) off its bounded slowdown
if it runs to its limit T: the weights of shares_by_cost.py. There the speed follows from the watts
by an assumed factor F (Borghesi and others, "Scheduling-based power capping in high performance
computing systems", 2018, section 5.1.1); here it is what signatures and coefficients say of each
P-state of the job's own application.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from shared.models.bounded_slowdown import bounded_length_s


class Pace(NamedTuple):
    """A P-state of a run: what the run draws there, mW, and the limit of a whole run there, s."""

    freq_ghz: float
    draw_mw: int
    limit_s: float


class Step(NamedTuple):
    """From one P-state to a lower one; the steps of a job are numbered. In their order the least
    is lost a watt."""

    loss_per_mw: float
    arrival: int
    number: int
    saved_mw: int
    loss: float
    to: Pace


def worth(limit_s: float, own_limit_s: float) -> float:
    """What a second of a run takes off a bounded slowdown, 1/s, at a P-state at which a whole run
    may take `limit_s`, and `own_limit_s` at its own."""
    return own_limit_s / limit_s / bounded_length_s(own_limit_s)


def steps_down(arrival: int, now: Pace, lower: Iterable[Pace], own_limit_s: float) -> list[Step]:
    """Those of a run from the P-state that it has to the lowest one, each of which loses least a
    watt of all that are left: the lower convex hull of loss over watts."""
    steps: list[Step] = []
    at, left = now, list(lower)
    while left := [pace for pace in left if pace.draw_mw < at.draw_mw]:
        steps.append(min(_step(arrival, len(steps), at, to, own_limit_s) for to in left))
        at = steps[-1].to
    return steps


def fewest_losses(
    steps: Sequence[Step], missing_mw: int, most_loss: float, may_take: Callable[[Step], bool]
) -> list[Step] | None:
    """Of steps in their order, those that together give what is missing, if `may_take`
    allows them; None where all of them do not, or lose `most_loss` or more."""
    taken: list[Step] = []
    saved_mw, loss = 0, 0.0
    for step in steps:
        if saved_mw >= missing_mw or loss >= most_loss:
            break
        if may_take(step):
            taken.append(step)
            saved_mw += step.saved_mw
            loss += step.loss
    taken = [*_needed(taken, saved_mw - missing_mw)] if saved_mw >= missing_mw else []
    return taken if taken and sum(step.loss for step in taken) < most_loss else None


def _step(arrival: int, number: int, at: Pace, to: Pace, own_limit_s: float) -> Step:
    saved_mw = at.draw_mw - to.draw_mw
    loss = max(worth(at.limit_s, own_limit_s) - worth(to.limit_s, own_limit_s), 0.0)
    return Step(loss / saved_mw, arrival, number, saved_mw, loss, to)


def _needed(taken: Sequence[Step], beyond_mw: int) -> Iterator[Step]:
    """Without the last steps of jobs that the others are enough without."""
    kept: set[int] = set()
    for step in reversed(taken):
        if step.arrival not in kept and step.saved_mw <= beyond_mw:
            beyond_mw -= step.saved_mw
        else:
            kept.add(step.arrival)
            yield step
