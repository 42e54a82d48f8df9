"""Pictures of schedules, by what is drawn in them."""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from lab.simulation import plots
from lab.simulation.plots import COLOURS, comparison, gantt, load, power
from lab.simulation.steps import (
    Steps,
    idle_power_w,
    job_power_w,
    power_w,
    used_units,
    waited_units,
)
from shared.replay.played import Played, SharedCap
from tests.unit.lab.simulation.schedules import fleet, played

RUN = played([(i, i % 3, 10, 2 - i % 2, i % 2) for i in range(6)])


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that would be written."""
    found: list[Figure] = []
    monkeypatch.setattr(plots, "save_png", lambda figure, _path: found.append(figure))
    return found


def polygons(axis: Axes) -> PolyCollection:
    [collection] = [each for each in axis.collections if isinstance(each, PolyCollection)]
    return collection


def boxes(axis: Axes) -> list[tuple[float, ...]]:
    """Left, right in seconds, bottom and top of each box, to the second."""
    found: list[tuple[float, ...]] = []
    for path in polygons(axis).get_paths():
        corners = np.asarray(path.vertices)
        (left, low), (right, top) = corners.min(axis=0), corners.max(axis=0)
        found.append((round(3600 * left), round(3600 * right), float(low), float(top)))
    return found


def test_each_job_is_a_box_of_its_own_from_its_start_to_its_end_as_high_as_its_units(
    drawn: list[Figure],
) -> None:
    gantt(RUN, Path("gantt.png"))
    schedule, begin_s = RUN.schedule, RUN.workload.submit_s[0]
    assert [axis.get_title() for axis in drawn[0].axes] == list(RUN.fleet.names)
    for cluster, axis in enumerate(drawn[0].axes):
        here = schedule.cluster == cluster
        times_s = ((each[here] - begin_s).round() for each in (schedule.start_s, schedule.end_s))
        expected = zip(*times_s, RUN.used_units[here], strict=True)
        sizes = [(left, right, top - low) for left, right, low, top in boxes(axis)]
        assert sorted(sizes) == sorted(expected)
        for (left, right, low, top), other in combinations(boxes(axis), 2):
            is_at_another_time = other[0] >= right or other[1] <= left
            assert is_at_another_time or other[2] >= top or other[3] <= low


def test_jobs_of_unknown_applications_have_a_colour_each(drawn: list[Figure]) -> None:
    gantt(Played(RUN.workload, RUN.schedule, fleet()), Path("gantt.png"))
    for cluster, axis in enumerate(drawn[0].axes):
        jobs = np.flatnonzero(RUN.schedule.cluster == cluster)
        expected = {tuple(COLOURS[job % len(COLOURS)]) for job in jobs.tolist()}
        faces = np.asarray(polygons(axis).get_facecolor())
        assert {tuple(face[:3]) for face in faces} == expected


def tops(axis: Axes) -> list[float]:
    """How high each layer of a stack reaches."""
    found = [np.asarray(each.get_paths()[0].vertices) for each in axis.collections]
    return [float(vertices[:, 1].max()) for vertices in found]


def test_power_is_stacked_on_each_cluster_beside_its_cap_and_the_highest_draw(
    drawn: list[Figure],
) -> None:
    power(RUN, Path("power.png"))
    assert [axis.get_title() for axis in drawn[0].axes] == list(RUN.fleet.names)
    for cluster, axis in enumerate(drawn[0].axes):
        assert [str(each.get_label()) for each in axis.collections] == ["jobs", "idle units"]
        jobs_kw, all_kw = tops(axis)
        both = Steps.sum_of([job_power_w(RUN, cluster), idle_power_w(RUN, cluster)])
        assert jobs_kw == pytest.approx(job_power_w(RUN, cluster).value.max() / 1e3, rel=0.02)
        assert all_kw == pytest.approx(both.value.max() / 1e3, rel=0.02)
        lines = {str(line.get_label()): np.asarray(line.get_ydata()) for line in axis.lines}
        assert lines.keys() == ({"cap", "highest draw"} if cluster == 0 else set())
        if lines:
            assert {*lines["cap"]} == {RUN.fleet.cap_w[0] / 1e3}
            assert lines["highest draw"].max() == pytest.approx(both.value.max() / 1e3)


def test_clusters_under_one_cap_are_stacked_below_it(drawn: list[Figure]) -> None:
    shared = SharedCap("the region", (0, 1), 900.0)
    power(replace(RUN, fleet=replace(RUN.fleet, shared_caps=(shared,))), Path("power.png"))
    axis = drawn[0].axes[-1]
    assert axis.get_title() == "the region"
    assert [str(each.get_label()) for each in axis.collections] == list(RUN.fleet.names)
    lines = {str(line.get_label()): np.asarray(line.get_ydata()) for line in axis.lines}
    assert set(lines["cap"]) == {0.9}
    both = power_w(RUN, (0, 1))
    assert lines["highest draw"].max() == pytest.approx(both.value.max() / 1e3)


def test_units_in_use_and_waited_for_are_stacked_by_the_size_of_jobs(drawn: list[Figure]) -> None:
    load(RUN, Path("load.png"))
    *clusters, waiting = drawn[0].axes
    assert len(clusters) == len(RUN.fleet.names)
    sizes = [text.get_text() for text in drawn[0].legends[0].get_texts()]
    assert sizes == ["1", "2"]
    for cluster, axis in enumerate(clusters):
        here = RUN.schedule.cluster == cluster
        assert tops(axis)[-1] == pytest.approx(used_units(RUN, here).value.max(), rel=0.02)
    everybody = np.ones(len(RUN.workload), dtype=np.bool_)
    assert tops(waiting)[-1] == pytest.approx(waited_units(RUN, everybody).value.max(), rel=0.02)


@pytest.mark.parametrize("draw", [gantt, load, power])
def test_a_picture_of_a_schedule_is_the_same_every_time(
    draw: Callable[[Played, Path], None], tmp_path: Path
) -> None:
    for name in ("first.png", "second.png"):
        draw(RUN, tmp_path / name)
    assert (tmp_path / "first.png").read_bytes() == (tmp_path / "second.png").read_bytes()


def test_a_schedule_that_oversubscribes_a_cluster_is_not_drawn(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="oversubscribes"):
        gantt(played([(0, 0, 10, 5, 0), (0, 0, 10, 5, 0)]), tmp_path / "gantt.png")


def test_each_measure_is_a_panel_with_the_mean_of_each_case(drawn: list[Figure]) -> None:
    measures = {f"measure {i}": {"base": [1.0 + i, 2.0 + i], "reorder": [1.5]} for i in range(4)}
    comparison(measures, Path("comparison.png"))
    shown = [axis for axis in drawn[0].axes if axis.axison]
    assert [axis.get_title() for axis in shown] == list(measures)
    for number, axis in enumerate(shown):
        bars = [patch.get_width() for patch in axis.patches]  # type: ignore[attr-defined]
        assert bars == [1.5 + number, 1.5]
        assert [label.get_text() for label in axis.get_yticklabels()] == ["base", "reorder"]
