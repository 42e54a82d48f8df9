"""EAR's policies: least energy within a limit of time, more speed while it pays."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shared.eamc.to_solution import min_energy_to_solution, min_time_to_solution
from shared.models.projection import Projection, Status

NAN = float("nan")
figures = st.lists(st.floats(0.1, 100) | st.just(NAN), min_size=5, max_size=5)


def projection(time_s: list[float], power_w: list[float] | None = None) -> Projection:
    pstates = tuple(1.0 + 0.5 * index for index in range(len(time_s)))
    time = np.array([time_s])
    power = np.where(np.isnan(time), NAN, [power_w or [100.0] * len(time_s)])
    status = np.where(np.isnan(time), np.uint8(Status.NEVER_MEASURED), np.uint8(Status.PROJECTED))
    return Projection(pstates, time, power, status)


def least_energy(found: Projection, default: int, threshold: float = 0.05) -> int:
    return int(min_energy_to_solution(found, np.array([default]), threshold)[0])


def least_time(found: Projection, default: int, threshold: float = 0.7) -> int:
    return int(min_time_to_solution(found, np.array([default]), threshold)[0])


def test_energy_is_saved_within_the_limit_of_time_only() -> None:
    found = projection([12.0, 10.4, 10.0], [50.0, 80.0, 100.0])
    assert least_energy(found, 2) == 1
    assert least_energy(found, 2, threshold=0.25) == 0
    assert least_energy(found, 2, threshold=0.03) == 2


def test_the_limit_of_time_itself_is_too_slow() -> None:
    found = projection([15.0, 10.0], [10.0, 100.0])
    assert least_energy(found, 1, threshold=0.5) == 1


def test_what_saves_no_energy_is_not_chosen() -> None:
    found = projection([10.0, 10.0], [100.0, 100.0])
    assert least_energy(found, 1) == 1


def test_speed_is_taken_while_the_clock_turns_into_time() -> None:
    # 1.0, 1.5, 2.0 GHz: the first step gains 35 % of time for 50 %, the second 1 % for 33 %.
    found = projection([10.0, 6.5, 6.435])
    assert least_time(found, 0) == 1
    assert least_time(found, 0, threshold=0.71) == 0


def test_a_missing_projection_ends_the_search_and_a_rejected_step_does_not() -> None:
    assert least_time(projection([10.0, NAN, 3.0]), 0) == 0
    assert least_time(projection([NAN, 10.0, 3.0]), 1) == 2
    assert least_time(projection([NAN, 10.0]), 0) == 0
    assert least_energy(projection([10.0, NAN]), 1) == 1
    # To 1.5 GHz nothing is gained, to 2.0 GHz 70 % of time for 100 %.
    assert least_time(projection([10.0, 10.0, 3.0]), 0) == 2


@given(figures, figures, st.integers(0, 4), st.floats(0, 1))
def test_neither_policy_makes_worse_what_it_is_there_for(
    time_s: list[float], power_w: list[float], default: int, threshold: float
) -> None:
    found = projection(time_s, [0.0 if np.isnan(p) else p for p in power_w])
    energy = least_energy(found, default, threshold)
    if energy != default:
        assert found.energy_j[0, energy] < found.energy_j[0, default]
        assert found.time_s[0, energy] < found.time_s[0, default] * (1 + threshold)
    time = least_time(found, default, threshold)
    assert time >= default
    if time != default:
        assert found.time_s[0, time] <= found.time_s[0, default]


def test_each_signature_starts_from_its_own_default() -> None:
    found = projection([10.0, 6.0, 4.0])
    both = Projection(
        found.pstates_ghz,
        np.repeat(found.time_s, 2, axis=0),
        np.repeat(found.power_w, 2, axis=0),
        np.repeat(found.status, 2, axis=0),
    )
    assert min_time_to_solution(both, np.array([0, 2])).tolist() == [2, 2]
