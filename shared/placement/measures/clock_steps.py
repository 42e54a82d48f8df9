"""Steps down in P-state: what each takes off a job's speed, and the watts that it gives.

A second of a job's run takes its speed, T / T(P-state), over max(60 s, T) off its bounded slowdown
if it runs to its limit T: the weights of shares_by_cost.py. There the speed follows from the watts
by an assumed factor F (Borghesi and others, "Scheduling-based power capping in high performance
computing systems", 2018, section 5.1.1); here it is what signatures and coefficients say of each
P-state of the job's own application.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from shared.models.bounded_slowdown import bounded_length_s


class Pace(NamedTuple):
    """A P-state of a run: what the run draws there, mW, and the limit of a whole run there, s."""

    freq_ghz: float
    draw_mw: int
    limit_s: float


class ClockStep(NamedTuple):
    """From one P-state to a lower one; the steps of a job are numbered. In their order the least
    is lost a watt."""

    loss_per_mw: float
    arrival: int
    number: int
    saved_mw: int
    loss: float
    to: Pace


def worth(limit_s: float, own_limit_s: float) -> float:
    """Return what a second of a run takes off a bounded slowdown, 1/s, at a P-state at which a
    whole run may take `limit_s`, and `own_limit_s` at its own."""
    return own_limit_s / limit_s / bounded_length_s(own_limit_s)


def steps_down(
    arrival: int, now: Pace, lower: Iterable[Pace], own_limit_s: float
) -> list[ClockStep]:
    """Return the steps of a run from the P-state that it has to the lowest one, each of which loses
    least a watt of all that are left: the lower convex hull of loss over watts."""
    steps: list[ClockStep] = []
    at_mw, at_worth = now.draw_mw, worth(now.limit_s, own_limit_s)
    left = [(pace.draw_mw, worth(pace.limit_s, own_limit_s), pace) for pace in lower]
    while left := [each for each in left if each[0] < at_mw]:
        found = [(max(at_worth - w, 0.0) / (at_mw - mw), at_mw - mw, w, to) for mw, w, to in left]
        loss_per_mw, saved_mw, to_worth, to = min(found)
        loss = max(at_worth - to_worth, 0.0)
        steps.append(ClockStep(loss_per_mw, arrival, len(steps), saved_mw, loss, to))
        at_mw, at_worth = to.draw_mw, to_worth
    return steps


def fewest_losses(
    steps: Sequence[ClockStep], missing_mw: int, most_loss: float
) -> list[ClockStep] | None:
    """Return, of steps in their order, those that together give what is missing; None where all of
    them do not, or lose `most_loss` or more."""
    taken: list[ClockStep] = []
    saved_mw, loss = 0, 0.0
    for step in steps:
        if saved_mw >= missing_mw or loss >= most_loss:
            break
        taken.append(step)
        saved_mw += step.saved_mw
        loss += step.loss
    taken = [*_needed(taken, saved_mw - missing_mw)] if saved_mw >= missing_mw else []
    return taken if taken and sum(step.loss for step in taken) < most_loss else None


def _needed(taken: Sequence[ClockStep], beyond_mw: int) -> Iterator[ClockStep]:
    """Yield the steps without the last ones of jobs that the others are enough without."""
    kept: set[int] = set()
    for step in reversed(taken):
        if step.arrival not in kept and step.saved_mw <= beyond_mw:
            beyond_mw -= step.saved_mw
        else:
            kept.add(step.arrival)
            yield step
