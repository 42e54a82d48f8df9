from collections.abc import Callable
from pathlib import Path

import pytest

from shared.simulation.played import Played
from shared.simulation.plots import comparison, gantt, power
from tests.unit.shared.simulation.schedules import fleet, played

RUN = played([(i, i % 3, 10, 2 - i % 2, i % 2) for i in range(6)])
PNG = b"\x89PNG"


@pytest.mark.parametrize("draw", [gantt, power])
def test_a_picture_of_a_schedule_is_the_same_every_time(
    draw: Callable[[Played, Path], None], tmp_path: Path
) -> None:
    for name in ("first.png", "second.png"):
        draw(RUN, tmp_path / name)
    assert (tmp_path / "first.png").read_bytes().startswith(PNG)
    assert (tmp_path / "first.png").read_bytes() == (tmp_path / "second.png").read_bytes()


def test_jobs_of_unknown_applications_are_drawn(tmp_path: Path) -> None:
    gantt(Played(RUN.workload, RUN.schedule, fleet()), tmp_path / "gantt.png")
    assert (tmp_path / "gantt.png").read_bytes().startswith(PNG)


def test_a_schedule_that_oversubscribes_a_cluster_is_not_drawn(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="oversubscribes"):
        gantt(played([(0, 0, 10, 5, 0), (0, 0, 10, 5, 0)]), tmp_path / "gantt.png")


def test_measures_are_compared_side_by_side(tmp_path: Path) -> None:
    measures = {f"measure {i}": {"base": [1.0, 2.0], "reorder": [1.5]} for i in range(4)}
    comparison(measures, tmp_path / "comparison.png")
    assert (tmp_path / "comparison.png").read_bytes().startswith(PNG)
