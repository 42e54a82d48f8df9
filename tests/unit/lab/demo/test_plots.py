"""The pictures of a run: what is in them."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coplace.v1.control_pb2 import POWER_SCOPE_REGION, ClusterDeclared, PowerCapDeclared
from coplace.v1.jobs_pb2 import JobFinished
from matplotlib.figure import Figure

from lab.demo import plots
from lab.demo.history import History
from lab.simulation.plots import PowerPanel
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import T0_US

S = 1_000_000


def history(**known: list[Any]) -> History:
    """One in which nothing else happened."""
    return History(**{field.name: [] for field in fields(History)} | known)


def capped(*steps: tuple[int, float], at_s: int = 0) -> PowerCapDeclared:
    payload = region.capped(POWER_SCOPE_REGION, "", *steps, time_us=T0_US + at_s * S).payload
    assert isinstance(payload, PowerCapDeclared)
    return payload


def test_a_run_without_a_cap_of_the_region_has_an_empty_picture(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(plots, "save_png", lambda figure, _: drawn.append(figure))
    plots.falling_cap(history(), Path("cap.png"))
    [axis] = drawn[0].axes
    assert not axis.lines
    assert axis.get_xlabel() == "hours since the cap fell"


def test_power_is_drawn_under_the_cap_that_held_then_not_under_the_last_one_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    panels: list[PowerPanel] = []
    monkeypatch.setattr(plots, "draw_power", lambda drawn, *_: panels.extend(drawn))
    cluster = ClusterDeclared(cluster="p1", nodes=4, cores_per_node=8, idle_power_w=100)
    job = JobFinished(cluster="p1", nodes=1, cores_per_node=8, energy_j=6e4)
    job.submitted_at_us = job.started_at_us = T0_US
    job.ended_at_us = T0_US + 600 * S
    caps = [capped((0, 900.0)), capped((200, 700.0), at_s=200)]
    plots.power(history(clusters=[cluster], finished=[job], caps=caps), Path("power.png"))
    assert [panel.title for panel in panels] == ["p1", "region"]
    assert panels[0].cap is None
    assert panels[1].cap is not None
    at_s = T0_US / 1e6 + np.array([-1.0, 100.0, 300.0])
    np.testing.assert_array_equal(panels[1].cap.at(at_s), [np.nan, 900.0, 700.0])
