"""What clocks and operators do to a region with jobs running, and the documented way back."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from cli.kafka_topics import CHARGES
from cli.restore import restore
from cli.restore.repartition import repartition
from cli.stages import create_topics, every_stage
from deploy.local.servers import LocalServers
from shared.catalogue.record import NewRecord, TopicPartition
from shared.streams.on_kafka.admin import admin_client
from shared.streams.on_kafka.clients import Publisher, Reader
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.stages.stage import Stage
from tests.chaos.kills.region import Region, books, region
from tests.chaos.kills.wrong_clock import set_ahead
from tests.support.patience import PATIENCE_S

_JOBS: Final = 20
_MORE_PARTITIONS: Final = 6
_HOUR_S: Final = 3_600.0
_DECADE_S: Final = 10 * 365 * 24 * _HOUR_S
# Of the services' processes, which writes the state of a stage.
PROCESSES: Final = {
    "pricing": "pricing",
    "placement": "placement",
    "placement.sequencer": "placement",
}


class Upheaval(Protocol):
    """Something that happens to a region in the middle of its work."""

    @property
    def target(self) -> str:
        """What it happens to."""
        ...

    def prepare(self, region: Region) -> None:
        """Called while some jobs run and some have ended."""
        ...

    def strike(self, region: Region) -> None:
        """Called when more of both have; returns when all services work again."""
        ...


@dataclass(frozen=True)
class ClockJump:
    """The wall clocks of all services jump, and return."""

    ahead_s: float
    lasts_s: float

    @property
    def target(self) -> str:
        return "clocks"

    def __str__(self) -> str:
        return f"{self.ahead_s / _HOUR_S:+,.0f} h for {self.lasts_s:g} s, jobs submitted meanwhile"

    def prepare(self, region: Region) -> None:
        """Nothing."""

    def strike(self, region: Region) -> None:
        """Jump, submit jobs, and return."""
        set_ahead(region.clock, self.ahead_s)
        came_back_s = time.monotonic() + self.lasts_s
        region.submit(_JOBS)
        time.sleep(max(0.0, came_back_s - time.monotonic()))
        set_ahead(region.clock, 0.0)


@dataclass(frozen=True)
class LostChangelog:
    """A changelog is deleted: the stage makes its state anew from its inputs."""

    stage: str

    @property
    def target(self) -> str:
        return f"changelog.{self.stage}"

    def __str__(self) -> str:
        return f"deleted; coplace restore replay {self.stage}"

    def prepare(self, region: Region) -> None:
        """Nothing is backed up."""

    def strike(self, region: Region) -> None:
        """Delete it, see it refused, and repair it."""
        mend = _mending(region, self.stage, restore.replay)
        _replace(region, self.target, [], (PROCESSES[self.stage],), mend)


@dataclass
class OlderChangelog:
    """A changelog is restored as it was some jobs ago: the stage goes on from there."""

    stage: str
    _backup: Sequence[NewRecord] = field(default=(), init=False)

    @property
    def target(self) -> str:
        return f"changelog.{self.stage}"

    def __str__(self) -> str:
        return f"restored as before {_JOBS} jobs; coplace restore accept {self.stage}"

    def prepare(self, region: Region) -> None:
        """Back it up."""
        self._backup = _records(region.deployment, self.target)

    def strike(self, region: Region) -> None:
        """Restore it, see it refused, and repair it."""
        mend = _mending(region, self.stage, restore.accept)
        _replace(region, self.target, self._backup, (PROCESSES[self.stage],), mend)


@dataclass
class OlderLedger:
    """The charges are restored as they were some charges ago: what it lost is charged again."""

    _backup: Sequence[NewRecord] = field(default=(), init=False)

    @property
    def target(self) -> str:
        return CHARGES

    def __str__(self) -> str:
        return (
            f"restored as before {_JOBS} jobs; coplace restore replay pricing, "
            "coplace restore rebuild accounts"
        )

    def prepare(self, region: Region) -> None:
        """Back it up."""
        self._backup = _records(region.deployment, CHARGES)

    def strike(self, region: Region) -> None:
        """Restore it, see it refused, and repair it."""

        def mend() -> None:
            _mending(region, "pricing", restore.replay)()
            restore.rebuild(region.deployment, "accounts")

        _replace(region, CHARGES, self._backup, ("pricing", "accounts"), mend)


@dataclass(frozen=True)
class MorePartitions:
    """Keyed topics get more Kafka partitions while jobs run."""

    count: int = _MORE_PARTITIONS

    @property
    def target(self) -> str:
        return "Kafka partitions"

    def __str__(self) -> str:
        return f"4 to {self.count} with jobs running; coplace restore repartition {self.count}"

    def prepare(self, region: Region) -> None:
        """Nothing."""

    def strike(self, region: Region) -> None:
        """As docs/how-to/restore.md says: ingest first, then all others once they have read all."""
        stages = every_stage(region.deployment.settings)
        region.stop("ingest")
        time.sleep(_SETTLED_S)
        names = [name for name in region.programs if name != "ingest"]
        region.stop(*names)
        _retried(lambda: list(repartition(region.deployment, self.count, stages)))
        settings = region.deployment.settings.model_copy(update={"kafka_partitions": self.count})
        region.deployment = Deployment.from_settings(settings)
        counted = {"COPLACE_KAFKA_PARTITIONS": str(self.count)}
        region.programs = {
            name: replace(program, env={**program.env, **counted})
            for name, program in region.programs.items()
        }
        region.start(*names, "ingest")


# Everything is decided and charged by then; what is on its way between stages is a few rounds.
_SETTLED_S: Final = 5.0


def upheavals() -> list[Upheaval]:
    """All of them."""
    return [
        ClockJump(_HOUR_S, 12.0),
        ClockJump(-_HOUR_S, 12.0),
        ClockJump(_DECADE_S, 5.0),
        *(LostChangelog(stage) for stage in PROCESSES),
        *(OlderChangelog(stage) for stage in PROCESSES),
        OlderLedger(),
        MorePartitions(),
    ]


def play(upheaval: Upheaval, servers: LocalServers, seed: int) -> str | None:
    """Play one in a region of its own; what is wrong with its books afterwards."""
    with region(servers, seed) as found:
        found.submit(2 * _JOBS)
        found.finish(_JOBS)
        upheaval.prepare(found)
        found.submit(_JOBS)
        found.finish(_JOBS)
        upheaval.strike(found)
        found.until_ready()
        found.submit(_JOBS)
        found.finish(len(found.running))
        return books(found)


def _records(deployment: Deployment, topic: str) -> list[NewRecord]:
    """A backup of a topic."""
    with Reader(deployment, _partitions(deployment, topic)) as reader:
        return [
            NewRecord(found.partition, found.key, found.value, found.headers)
            for found in reader.to_end()
        ]


def _partitions(deployment: Deployment, topic: str) -> list[TopicPartition]:
    with admin_client(deployment) as client:
        described = client.describe_topics([deployment.name(topic)])[0]
    return [TopicPartition(topic, number) for number in range(len(described["partitions"]))]


def _replace(
    region: Region,
    topic: str,
    backup: Sequence[NewRecord],
    processes: Sequence[str],
    mend: Callable[[], None],
) -> None:
    """Put a backup in a topic's partition while processes are down, see that they are refused,
    repair it."""
    region.stop(*processes)
    name = region.deployment.name(topic)
    with admin_client(region.deployment) as client:
        client.delete_topics([name])
        region.wait_until(lambda: name not in client.list_topics(), f"{topic} is deleted")
    create_topics(region.deployment)
    with Publisher(region.deployment) as publisher:
        publisher.append(backup)
    region.wait_until(lambda: bool(region.wrong()), f"that {topic} was replaced is noticed")
    mend()
    region.start(*processes)


def _mending(
    region: Region, stage: str, how: Callable[[Deployment, Stage], Iterator[str]]
) -> Callable[[], None]:
    def mend() -> None:
        _retried(
            lambda: list(how(region.deployment, restore.stage_named(region.deployment, stage))),
        )

    return mend


def _retried(step: Callable[[], object]) -> None:
    """Until the sessions of stopped processes are over, a command says that they run."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            step()
            return
        except ValueError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(1.0)
