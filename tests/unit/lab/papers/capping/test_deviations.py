"""What predictions said of their deviation beside how far they were off."""

import json
from math import e
from typing import Any

import pytest

from lab.papers.capping.deviations import Start, starts

HEADER = "job_id,freq_ghz,start_s,end_s,energy_j"
DECIDED: dict[str, Any] = {
    "job_id": "a",
    "verdict": "VERDICT_START",
    "cluster": "p1",
    "freq_ghz": 2.7,
    "cores_per_node": 48,
    "candidates": [
        {"cluster": "p1", "power_w": 100.0, "nodes": 2, "power_sd": 0.03},
        {"cluster": "p2", "power_w": 1.0, "nodes": 1},
    ],
}


def found(row: str = f"a,2.7,10,20,{2000 * e}", **changes: Any) -> list[Start]:
    return [*starts([json.dumps(DECIDED | changes)], [HEADER, row])]


def test_an_error_is_the_logarithm_of_what_was_drawn_over_what_was_predicted() -> None:
    [start] = found()
    assert start.said_sd == 0.03
    assert start.error == pytest.approx(1.0)


def test_parts_of_nodes_and_other_clocks_do_not_count() -> None:
    assert found(cores_per_node=24) == []
    assert found("a,2.5,10,20,1") == []
    assert found(verdict="VERDICT_QUEUED") == []
    assert found("b,2.7,10,20,1") == []
