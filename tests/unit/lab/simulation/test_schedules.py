"""The checker of schedules finds what cannot be."""

from dataclasses import replace
from math import inf

import pytest

from lab.simulation.schedules import Drawn, PlacedJob, power_violations, violations
from shared.domain.cluster import NodeClass

CLASSES = (NodeClass(2, 32.0, (("mic", 2),)), NodeClass(2, 32.0, (("gpu", 2),)))
JOB = PlacedJob("a", 0.0, 10.0, 20.0, 2, (2, 3), 8, 16.0, (("gpu", 1),))
BESIDE = replace(JOB, job_id="b")


def found(*placements: PlacedJob) -> list[str]:
    return list(violations(placements, 16, CLASSES))


def test_what_fits_is_possible_also_one_behind_the_other_and_two_units_on_a_node() -> None:
    assert found(replace(JOB, nodes=(3, 3))) == []
    assert found(JOB, BESIDE, replace(JOB, job_id="c", start_s=20.0, end_s=30.0)) == []


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (replace(BESIDE, cores_per_unit=9), "gives 17 cores of 16"),
        (replace(BESIDE, memory_gib_per_unit=17.0), "gives 33 memory_gib of 32"),
        (replace(BESIDE, resources_per_unit=(("gpu", 2),)), "gives 3 gpu of 2"),
        (replace(BESIDE, nodes=(0, 1)), "gives 1 gpu of 0"),
        (replace(BESIDE, start_s=19.0, end_s=40.0, cores_per_unit=9), "at 19.0 s, with b"),
        (replace(BESIDE, submit_s=11.0), "before its submission"),
        (replace(BESIDE, end_s=9.0), "before its start"),
        (replace(BESIDE, nodes=(2,)), "has 1 of its 2 units"),
        (replace(BESIDE, nodes=(2, 4)), "node 4 of 4"),
        (replace(BESIDE, nodes=(2, -1)), "node -1 of 4"),
    ],
)
def test_what_cannot_be_is_named(other: PlacedJob, problem: str) -> None:
    assert any(problem in each for each in found(JOB, other))


DRAWN = Drawn("a", 100_000, 10.0, 1.0, ((0.0, 100_000),), 10.0)


def found_of_power(*jobs: Drawn) -> list[str]:
    return list(power_violations(jobs, [(-inf, 150_000)]))


def test_draws_that_follow_each_other_and_half_the_power_for_twice_the_time_are_possible() -> None:
    # 5 s at full power are half of it, 10 s at half of the power the other half.
    halved = replace(DRAWN, draws=((0.0, 100_000), (5.0, 50_000)), end_s=15.0)
    assert found_of_power(halved) == []
    behind = replace(DRAWN, job_id="b", draws=((10.0, 100_000),), end_s=20.0)
    assert found_of_power(DRAWN, behind) == []


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (DRAWN, "200 W at 0.0 s: the cap is 150 W"),
        (replace(DRAWN, draws=((9.9, 100_000),), end_s=19.9), "200 W at 9.9 s"),
        (replace(DRAWN, draws=((0.0, 50_000), (9.0, 51_000)), end_s=19.0), "gets 9.6"),
        (replace(DRAWN, draws=((0.0, 50_000),)), "gets 5.0 s of its 10.0 s done"),
        (replace(DRAWN, draws=((20.0, 101_000),), end_s=30.0), "101000 mW"),
        (replace(DRAWN, draws=((20.0, 0),), end_s=30.0), "draws 0 mW"),
    ],
)
def test_draws_that_cannot_be_are_named(other: Drawn, problem: str) -> None:
    assert any(problem in each for each in found_of_power(DRAWN, other))
