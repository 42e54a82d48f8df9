"""What the agent publishes of a node beside shutters, with a job that runs and a tree of sysfs.

Counters of the processor are replaced by those of the kernel's software, which every machine has:
time on a processor in ns counts for instructions and cycles alike, so that CPI is 1 at 1 GHz. It is
read once for all three: between two readings a busy machine may let the job run for milliseconds.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest
from coplace.v1.ingest_service_pb2 import Envelope

from coplace_agent import observer
from coplace_agent.adapters.counters import TASK_CLOCK, CounterKind, NoCounterError, ThreadCounters
from coplace_agent.adapters.jobs import AttachedJob, JobFile
from coplace_agent.adapters.processes import ProcessTree
from coplace_agent.adapters.spool import Spool
from coplace_agent.clocks import Clocks
from coplace_agent.observer import NodeObserver
from coplace_agent.settings import AgentSettings
from services.ingest.model import Intake
from shared.catalogue.topics import Topics
from tests.support.agent import job
from tests.support.sysfs import limit_frequency, supply

_CONTEXT_SWITCHES = CounterKind(1, 3)


class SoftwareCounters(ThreadCounters):
    """Time on a processor as instructions, cycles and time, and context switches as misses."""

    def __init__(self, *_kinds: CounterKind) -> None:
        super().__init__(TASK_CLOCK, _CONTEXT_SWITCHES)

    def counts(self) -> list[float]:
        cpu_ns, misses = super().counts()
        return [cpu_ns, cpu_ns, misses, cpu_ns]


@dataclass
class Node:
    """A node of four cores that is looked at each second."""

    folder: Path
    now_s: float = 1_000.0
    spool: Spool = field(init=False)
    observer: NodeObserver = field(init=False)

    def __post_init__(self) -> None:
        settings = AgentSettings(
            source="north/alpha/n1",
            cluster="alpha",
            node="n1",
            node_model="skylake",
            node_cores=4,
            sys_dir=self.folder / "sys",
            spool_dir=self.folder / "spool",
            interval_s=20.0,
            sample_s=5.0,
            signature_s=10.0,
        )
        self.spool = Spool(settings.spool_dir, 1 << 20)
        wall_us = round(time.time() * 1e6)
        clocks = Clocks(lambda: wall_us + round(self.now_s * 1e6), lambda: self.now_s)
        self.observer = NodeObserver(settings, self.spool, clocks)

    def look(self, seconds: int, *jobs: AttachedJob) -> None:
        for _ in range(seconds):
            self.now_s += 1
            self.observer.look({each.file.key: each for each in jobs})

    def told(self, kind: str) -> list[Envelope]:
        """What ingest takes of it."""
        events = [event for _, event in self.spool.waiting()]
        intake = Intake(Topics())
        for event in events:
            intake.accept(event, time.time() + self.now_s)
        return [event for event in events if event.WhichOneof("payload") == kind]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    supply(tmp_path / "sys", 250.0)
    limit_frequency(tmp_path / "sys", 2_400_000)
    try:
        SoftwareCounters()
    except NoCounterError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(observer, "ThreadCounters", SoftwareCounters)
    return Node(tmp_path)


@pytest.fixture
def alone() -> Iterator[AttachedJob]:
    with job(children=1) as pid:
        file = JobFile(job_id="north/alpha/1/1", app_id="hpcg", pid=pid, cores=4)
        yield AttachedJob(file, ProcessTree(pid))


def test_power_is_reported_in_batches_of_means(node: Node) -> None:
    node.look(41)
    [first, second] = node.told("node_samples")
    assert first.node_samples.node == "n1"
    assert first.node_samples.cluster == "alpha"
    powers = [each.power_w for each in first.node_samples.samples]
    assert powers == [250.0] * 4
    assert first.time_us < second.node_samples.samples[0].time_us
    node.look(7)
    node.observer.close()
    assert len(node.told("node_samples")) == 3


def test_a_job_alone_on_the_node_has_one_signature_a_frequency(
    node: Node, alone: AttachedJob
) -> None:
    node.look(40, alone)
    [event] = node.told("signature_measured")
    found = event.signature_measured
    assert (found.app_id, found.node_model, found.job_id) == ("hpcg", "skylake", "north/alpha/1/1")
    assert (found.freq_ghz, found.cpi, found.power_w) == (1.0, 1.0, 250.0)
    assert found.tpi_scale == "llc-misses"


def test_no_stretch_goes_over_a_neighbour_or_a_change_of_frequency(
    node: Node, alone: AttachedJob
) -> None:
    with job(children=1) as pid:
        other = AttachedJob(JobFile(job_id="other", app_id="x", pid=pid, cores=4), ProcessTree(pid))
        for khz in (2_300_000, 2_200_000, 2_100_000):
            node.look(9, alone)
            limit_frequency(node.folder / "sys", khz)
            node.look(9, alone)
            node.look(1, alone, other)
    assert not node.told("signature_measured")


def test_a_job_on_a_part_of_the_node_or_of_no_application_has_none(
    node: Node, alone: AttachedJob
) -> None:
    part = AttachedJob(replace(alone.file, cores=2), alone.processes)
    nobody = AttachedJob(replace(alone.file, app_id=""), alone.processes)
    node.look(15, part)
    node.look(15, nobody)
    assert not node.told("signature_measured")


def test_without_counters_power_is_reported_all_the_same(
    node: Node, alone: AttachedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = partial(ThreadCounters, CounterKind(0, 1 << 40))
    monkeypatch.setattr(observer, "ThreadCounters", lambda *_kinds: unknown())
    node.look(25, alone)
    assert len(node.told("node_samples")) == 1
    assert not node.told("signature_measured")


def test_a_meter_that_goes_away_and_returns_stops_nobody(node: Node, alone: AttachedJob) -> None:
    file = next((node.folder / "sys" / "class" / "hwmon").rglob("power1_average"))
    node.look(7, alone)
    file.rename(file.with_name("away"))
    node.look(30, alone)
    assert not node.told("signature_measured")
    file.with_name("away").rename(file)
    node.look(30, alone)
    assert len(node.told("signature_measured")) == 1
    assert node.told("node_samples")


def test_without_a_meter_nothing_is_reported(tmp_path: Path, alone: AttachedJob) -> None:
    bare = Node(tmp_path)
    bare.look(30, alone)
    bare.observer.close()
    assert not len(bare.spool)
