"""Two workers share the nodes; what one leaves the other takes over. That Kafka keeps what the log
in memory does, of every keyed stage, is in test_delivery."""

from collections import Counter
from dataclasses import dataclass

import pytest
from coplace.v1.prediction_pb2 import NodePowerMeasured
from coplace.v1.telemetry_pb2 import NodeSample, NodeSamples

from services.prediction.app import stages
from services.prediction.node_statistics import INPUT, OUTPUT, STAGE
from shared.catalogue.event import Event, Publish
from shared.catalogue.record import NewRecord
from shared.domain.rounds import RoundSource
from shared.process.settings import Settings
from shared.streams.stages.assignment import assign_units
from shared.streams.stages.hooks import POINTS
from shared.streams.stages.stage import Stage
from tests.contract.backends import Plan
from tests.contract.in_memory import MemoryBackend
from tests.support.messaging import START_US, TOPICS, barriers, encoded, payloads

NODES = 40
ROUNDS = 3

Told = dict[str, list[tuple[float, int, int]]]


@dataclass(frozen=True)
class OfNodes(Plan):
    """A worker of the stage as it is deployed."""

    stage: str = STAGE

    def runs(self) -> Stage:
        """The keyed stage of prediction."""
        nodes, _ = stages(Settings(rounds=RoundSource.BARRIERS, kafka_partitions=4))
        return nodes


def record(node: int, number: int) -> Publish:
    name, until_us = f"alpha-{node:04d}", START_US + 30_000_000 * number
    each = [NodeSample(time_us=until_us + i, power_w=200.0 + node + i) for i in range(3)]
    message = NodeSamples(node=name, cluster="alpha", node_model="skylake", samples=each)
    event_id = f"alpha/coplace.v1.NodeSamples/{name}/{number}"
    return Publish(INPUT, Event(event_id, "alpha", until_us, name, message))


def work(number: int) -> list[NewRecord]:
    """A round: a record of each node, some of them twice."""
    fresh = [record(node, number) for node in range(NODES)]
    return [*encoded(*fresh, *fresh[::7]), *barriers(number, INPUT)]


def told(backend: MemoryBackend) -> Told:
    """Power, samples and when, of each node in their order."""
    found: Told = {}
    for partition in TOPICS.partitions(OUTPUT):
        for event in payloads(backend.read(partition)):
            if isinstance(message := event.payload, NodePowerMeasured):
                row = (message.power_w, message.samples, message.first_at_us)
                found.setdefault(message.node, []).append(row)
    return found


def expected(rounds: int) -> Told:
    """Each record once."""
    return {
        f"alpha-{node:04d}": [
            (201.0 + node, 3, START_US + 30_000_000 * number) for number in range(rounds)
        ]
        for node in range(NODES)
    }


def test_two_workers_share_the_nodes_and_one_takes_over_what_the_other_leaves() -> None:
    backend = MemoryBackend()
    first, _ = backend.start(OfNodes()), backend.start(OfNodes())
    backend.append(work(0))
    backend.until(lambda: told(backend) == expected(1))
    owners = Counter(assign_units(4, backend.log.members(STAGE)).values())
    assert list(owners.values()) == [2, 2]
    first.stop()
    for number in range(1, ROUNDS):
        backend.append(work(number))
    backend.until(lambda: told(backend) == expected(ROUNDS))


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_loses_and_doubles_no_reading(point: str) -> None:
    backend = MemoryBackend()
    dying = backend.start(OfNodes(point=point))
    backend.start(OfNodes())
    for number in range(ROUNDS):
        backend.append(work(number))
    backend.until(lambda: dying.ended)
    backend.until(lambda: told(backend) == expected(ROUNDS))
