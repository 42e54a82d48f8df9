"""The checker of schedules finds what cannot be."""

from dataclasses import replace

import pytest

from shared.domain.cluster import NodeClass
from shared.simulation.schedules import PlacedJob, violations

CLASSES = (NodeClass(2, 32.0, (("mic", 2),)), NodeClass(2, 32.0, (("gpu", 2),)))
JOB = PlacedJob("a", 0.0, 10.0, 20.0, 2, (2, 3), 8, 16.0, (("gpu", 1),))
BESIDE = replace(JOB, job_id="b")


def found(*placements: PlacedJob) -> list[str]:
    return list(violations(placements, 16, CLASSES))


def test_what_fits_is_possible_and_so_is_one_behind_the_other() -> None:
    assert found(JOB, BESIDE, replace(JOB, job_id="c", start_s=20.0, end_s=30.0)) == []


def test_units_may_share_a_node() -> None:
    assert found(replace(JOB, nodes=(3, 3))) == []


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
