"""The built-in workload may run in reservations, beside a maintenance of each cluster."""

from pathlib import Path
from typing import Any

import pytest
from coplace.v1.control_pb2 import ReservationDeclared
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided

from lab.demo import embedded
from lab.demo.options import DemoOptions
from lab.emulator.app import workload
from lab.emulator.reservations import built_in_reservations
from lab.emulator.settings import SimulationSettings
from lab.workloads.reserved import COURSE
from shared.domain.job import named_nodes

_JOBS = 60


def settings(share: float, jobs: int = 200) -> SimulationSettings:
    return SimulationSettings(jobs=jobs, reserved_share=share)


def test_a_longer_workload_begins_with_the_same_reservations() -> None:
    few, _ = workload(settings(0.5))
    many, _ = workload(settings(0.5, jobs=300))
    reserved = [each.reservation for each in few]
    assert reserved == [each.reservation for each in many[:200]]
    assert set(reserved) == {"", COURSE}


def test_a_run_keeps_reserved_and_maintained_nodes_for_their_jobs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The emulated resource managers refuse each other start."""
    monkeypatch.setenv("COPLACE_SIMULATION_RESERVED_SHARE", "0.3")
    monkeypatch.setenv("COPLACE_SIMULATION_QUARTERS_SHARE", "0")
    monkeypatch.setenv("COPLACE_SIMULATION_GPUS_SHARE", "0")
    options = DemoOptions(jobs=_JOBS, out=tmp_path, caps=False)
    system = embedded.run(options, lambda _finished: None)
    requests, clusters = workload(options.simulation)
    mine = {str(each.index) for each in requests if each.reservation}
    kept = {each.cluster: each for each in built_in_reservations(clusters, requests)[::2]}
    starts: list[PlacementDecided] = [
        event.payload for event in _decided(system) if event.payload.verdict == VERDICT_START
    ]
    ran = {start.job_id.split("/")[2]: start for start in starts}
    assert len(ran) == _JOBS
    assert mine
    for index, start in ran.items():
        assert set(_names(start, clusters)) <= _nodes(kept[start.cluster]) or index not in mine


def _decided(system: Any) -> list[Any]:
    reader = system.reader("placement.decisions")
    return [each for each in reader.read() if isinstance(each.payload, PlacementDecided)]


def _names(start: PlacementDecided, clusters: Any) -> list[str]:
    [cluster] = [each for each in clusters if each.name == start.cluster]
    return [cluster.names().name(index) for index in start.node_indices]


def _nodes(reservation: ReservationDeclared) -> set[str]:
    return set(named_nodes(tuple(reservation.nodes)))
