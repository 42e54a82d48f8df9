"""Steps down in P-state in the order of what they lose a watt."""

import pytest

from shared.placement.measures.clock_steps import ClockStep, Pace, fewest_losses, steps_down, worth

NOW = Pace(2.7, 1000, 3600.0)


def test_a_second_of_a_run_is_worth_its_speed_over_its_limit_a_minute_at_least() -> None:
    assert worth(3600.0, 3600.0) == 1 / 3600
    assert worth(4500.0, 3600.0) == pytest.approx(0.8 / 3600)
    assert worth(30.0, 30.0) == 1 / 60


def test_steps_go_down_the_convex_hull() -> None:
    """2.4 GHz saves 100 mW at a loss at which 2.2 GHz saves more: no step ends there."""
    lower = [Pace(2.4, 900, 4000.0), Pace(2.2, 700, 4050.0), Pace(1.2, 300, 8000.0)]
    steps = steps_down(7, NOW, lower, 3600.0)
    assert [(s.number, s.to.freq_ghz, s.saved_mw) for s in steps] == [(0, 2.2, 300), (1, 1.2, 400)]
    assert steps == sorted(steps)
    assert sum(step.loss for step in steps) == pytest.approx((1 - 3600 / 8000) / 3600)


def test_a_p_state_that_draws_no_less_is_no_step() -> None:
    assert steps_down(7, NOW, [Pace(2.4, 1000, 4000.0)], 3600.0) == []


def step(arrival: int, saved_mw: int, loss: float, number: int = 0) -> ClockStep:
    return ClockStep(loss / saved_mw, arrival, number, saved_mw, loss, NOW)


def test_as_many_are_taken_as_give_what_is_missing() -> None:
    steps = [step(1, 100, 0.1), step(2, 100, 0.2), step(1, 100, 0.3, 1)]
    assert fewest_losses(steps, 150, 1.0) == steps[1::-1]
    assert fewest_losses(steps, 400, 1.0) is None


def test_nothing_is_taken_where_that_loses_as_much_as_is_gained() -> None:
    steps = [step(1, 100, 0.5), step(2, 100, 0.5)]
    assert fewest_losses(steps, 200, 1.0) is None
    assert fewest_losses(steps, 100, 1.0) == steps[:1]


def test_who_gave_something_that_others_are_enough_without_keeps_it() -> None:
    steps = [step(1, 50, 0.01), step(2, 400, 0.2)]
    assert fewest_losses(steps, 400, 1.0) == steps[1:]
