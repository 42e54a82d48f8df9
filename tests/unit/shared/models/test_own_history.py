"""What an application's own runs at several clocks say of it at others."""

from dataclasses import replace
from math import isnan

import numpy as np
import pytest

from coplace_client.signature import Signature
from shared.domain.coefficients import Coefficients
from shared.models.ear import project, unlearned
from shared.models.own_history import (
    ClockRuns,
    OwnHistory,
    Uncertain,
    blended,
    judged,
    with_history,
)
from shared.models.projection import Projection

PSTATES_GHZ = (1.2, 1.6, 2.0, 2.4, 2.7)
TOP = Signature("app", "node", 2.7, 40.0, 350.0, 0.6, 5.0, 60.0, "scale", 4)
# T = 10 + 81 / f and P = 80 + 100 f, whatever coefficients say.
LOW = replace(TOP, freq_ghz=1.6, time_s=10 + 81 / 1.6, power_w=240.0, cpi=0.533)


def at(ghz: float, runs: int = 5) -> ClockRuns:
    return ClockRuns(ghz, 10 + 81 / ghz, 80 + 100 * ghz, runs)


def halved(pstates_ghz: tuple[float, ...]) -> Coefficients:
    """Coefficients that project half of the power everywhere, and no wait for memory."""
    table = unlearned("node", "scale", pstates_ghz)
    half = np.where(np.eye(len(pstates_ghz)), 1.0, 0.5)
    ones = np.ones_like(half)
    return replace(table, a=half, d=ones, available=ones.astype(np.bool_))


def test_one_clock_or_two_that_are_nearly_one_say_nothing() -> None:
    assert OwnHistory.fit([at(2.7)]) is None
    assert OwnHistory.fit([at(2.7), at(2.69)]) is None


@pytest.mark.parametrize("ghz", [1.2, 2.0, 2.4])
def test_two_clocks_give_time_over_one_by_f_and_power_over_f(ghz: float) -> None:
    found = OwnHistory.fit([at(1.6), at(2.7)])
    assert found is not None
    time, power = found.time_s(ghz), found.power_w(ghz)
    assert time is not None
    assert power is not None
    assert time.value == pytest.approx(10 + 81 / ghz)
    assert power.value == pytest.approx(80 + 100 * ghz)


def test_intervals_are_wider_away_from_what_was_measured_and_with_fewer_runs() -> None:
    few, many = OwnHistory.fit([at(2.0, 1), at(2.7, 1)]), OwnHistory.fit([at(2.0, 9), at(2.7, 9)])
    assert few is not None
    assert many is not None

    def sd(of: OwnHistory, ghz: float) -> float:
        found = of.power_w(ghz)
        return 9.0 if found is None else found.sd

    assert sd(many, 2.4) < sd(many, 1.6) < sd(many, 1.2)
    assert sd(many, 2.4) < sd(few, 2.4)


def test_what_lies_far_outside_of_two_near_clocks_is_not_said() -> None:
    found = OwnHistory.fit([at(2.6, 1), at(2.7, 1)])
    assert found is not None
    assert found.power_w(1.2) is None


def test_one_clock_off_the_curve_of_four_hardly_bends_it() -> None:
    good = [at(ghz) for ghz in PSTATES_GHZ]
    bad = [*good[:2], good[2]._replace(time_s=good[2].time_s * 1.4), *good[3:]]
    found = OwnHistory.fit(bad)
    assert found is not None
    time = found.time_s(2.2)
    assert time is not None
    assert time.value == pytest.approx(10 + 81 / 2.2, rel=0.05)


def test_power_that_goes_with_the_square_of_the_clock_bends_the_line() -> None:
    runs = [at(ghz, 9)._replace(power_w=100 + 40 * ghz * ghz) for ghz in PSTATES_GHZ]
    found = OwnHistory.fit(runs)
    assert found is not None
    power = found.power_w(1.8)
    assert power is not None
    assert power.value == pytest.approx(100 + 40 * 1.8 * 1.8, rel=0.01)


def test_an_estimate_counts_by_one_over_its_variance() -> None:
    both = blended(Uncertain(100.0, 0.01), Uncertain(120.0, 0.02))
    assert both is not None
    assert both.value == pytest.approx(104)
    assert both.sd < 0.01
    assert blended(None, Uncertain(1.0, 0.1)) == Uncertain(1.0, 0.1)
    assert blended(None, None) is None


def test_coefficients_that_were_off_at_its_own_clocks_are_trusted_less() -> None:
    assert judged(0.02, []) == 0.02
    assert judged(0.02, [0.3]) > 0.2
    assert judged(float("nan"), []) == 0.05
    assert judged(float("nan"), [0.0, 0.01, 0.01]) < 0.03


def projected(*known: Signature) -> tuple[Projection, Projection]:
    before = project(halved(PSTATES_GHZ), [TOP])
    return before, with_history(before, [TOP], [known])


def test_an_application_that_ran_at_one_clock_stays_as_it_is_projected() -> None:
    before, after = projected(TOP)
    assert after is before


def test_own_runs_outweigh_coefficients_that_they_contradict() -> None:
    before, after = projected(LOW, TOP)
    assert before.power_w[0, 2] == 175
    assert after.power_w[0, 2] == pytest.approx(280, rel=0.02)
    assert after.power_w[0, -1] == TOP.power_w
    assert after.power_sd[0, -1] == 0
    assert (after.power_sd[0, :-1] > 0).all()
    assert isnan(before.power_sd[0, 2])


def test_without_coefficients_own_runs_project_to_the_clocks_between_them() -> None:
    before = project(unlearned("node", "scale", PSTATES_GHZ), [TOP])
    after = with_history(before, [TOP], [(LOW, TOP)])
    assert before.available.sum() == 1
    assert after.available[0].all()
    assert after.time_s[0, 3] == pytest.approx(10 + 81 / 2.4, rel=0.01)


def test_a_time_that_no_clock_explains_is_that_of_another_input() -> None:
    _, same = projected(LOW, TOP)
    _, other = projected(replace(LOW, time_s=10 * LOW.time_s), TOP)
    assert other.time_s[0, 1] == pytest.approx(same.time_s[0, 1], rel=0.05)
