"""The built-in workload may need licences of clusters, their site and the region."""

from pathlib import Path

import pytest
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided

from lab.demo import embedded
from lab.demo.options import DemoOptions
from lab.emulator.app import workload
from lab.emulator.settings import SimulationSettings
from lab.workloads.licensed import OF_CLUSTER, OF_REGION, OF_SITE

_JOBS = 60


def test_a_longer_workload_begins_with_the_same_licences() -> None:
    few, _ = workload(SimulationSettings(jobs=200, licensed_share=0.5))
    many, _ = workload(SimulationSettings(jobs=300, licensed_share=0.5))
    needed = [each.licences for each in few]
    assert needed == [each.licences for each in many[:200]]
    names = {name for licences in needed for name, _ in licences}
    assert names == {name for name, _ in (OF_CLUSTER, OF_SITE, OF_REGION)}
    assert () in needed


def test_a_run_takes_no_more_licences_than_there_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The emulated resource managers refuse each other start."""
    monkeypatch.setenv("COPLACE_SIMULATION_LICENSED_SHARE", "0.8")
    options = DemoOptions(jobs=_JOBS, out=tmp_path, caps=False)
    system = embedded.run(options, lambda _finished: None)
    decided = [e.payload for e in system.reader("placement.decisions").read()]
    told = [each for each in decided if isinstance(each, PlacementDecided)]
    assert sum(each.verdict == VERDICT_START for each in told) == _JOBS
    assert any(" solver, " in each.reason for each in told)
