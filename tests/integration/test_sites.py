"""A hub and a site with a Kafka each, and between them MirrorMaker 2 as the chart sets it up."""

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from coplace.v1.jobs_pb2 import JobStarted
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided
from coplace.v1.pricing_pb2 import ChargeMade
from kafka import KafkaProducer

from cli.kafka_topics import KafkaTopics
from cli.processes import Processes
from cli.times import clock_us
from deploy.local.servers import LocalServers
from tests.support.manager import ScriptedManager
from tests.support.sites import MIRROR, SITE_PARTITIONS, HubServers, mirror, topics_of

pytestmark = pytest.mark.thorough

_UP = {"ingest": "services.ingest"}
_HUB = {**_UP, "placement": "services.placement", "pricing": "services.pricing"}
_WITHIN_S = 120.0
_CUT_S = 20.0
_NODES, _JOBS = 16, 12


@dataclass
class SiteManager:
    """A resource manager that reads decisions from its site's Kafka alone, obeys each grant once,
    and publishes to its site's ingest alone."""

    topics: KafkaTopics
    words: ScriptedManager
    started: Counter[tuple[str, int]] = field(default_factory=Counter)

    def obey(self) -> None:
        """Start, and end at once, what was decided since the last look."""
        for event in self.topics.topic("placement.decisions"):
            decision = event.payload
            if not isinstance(decision, PlacementDecided) or decision.verdict != VERDICT_START:
                continue
            grant = (decision.job_id, decision.grant)
            if self.started[grant]:
                continue
            self.started[grant] += 1
            started = JobStarted(
                job_id=decision.job_id,
                attempt=decision.attempt,
                cluster=decision.cluster,
                nodes=[f"n{index}" for index in decision.node_indices],
                freq_ghz=decision.freq_ghz,
                started_at_us=clock_us(),
                grant=decision.grant,
            )
            self.words.report(decision.job_id, job_started=started)
            self.words.finish(started, len(decision.node_indices))


@dataclass
class TwoKafkas:
    """A hub that places and prices, a site with a way in, and the mirror between them."""

    hub: HubServers
    site: LocalServers
    failed: Path
    hub_topics: KafkaTopics
    site_topics: KafkaTopics
    manager: SiteManager

    def submit(self, name: str) -> list[str]:
        """Some jobs at the site."""
        jobs = [f"north/alpha/{name}-{number}/1" for number in range(_JOBS)]
        for job in jobs:
            self.manager.words.submit(job, 2)
        return jobs

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Work as the site's resource manager does, and as kubelet does when the liveness probe of
        the mirror says that a part of it failed for good."""
        until_s = time.monotonic() + _WITHIN_S
        while not holds():
            self.manager.obey()
            if self.failed.exists() and self.failed.stat().st_size:
                self.failed.unlink()
                self.site.kill(MIRROR)
            assert time.monotonic() < until_s, what
            time.sleep(0.5)

    def charged(self) -> Counter[str]:
        """How often each job was charged."""
        charges = (event.payload for event in self.hub_topics.topic("prices.charges"))
        return Counter(charge.job_id for charge in charges if isinstance(charge, ChargeMade))


def ids(topics: KafkaTopics, topic: str) -> Counter[str]:
    return Counter(event.id for event in topics.topic(topic))


def processes(folder: Path, modules: dict[str, str]) -> Processes:
    environment = {
        "COPLACE_KAFKA_PARTITIONS": str(SITE_PARTITIONS),
        "COPLACE_ROUNDS": "clock",
        "COPLACE_PRICING_GRACE_S": "1",
    }
    return Processes(folder, environment, modules=modules, traced=False)


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TwoKafkas]:
    for name in ("COPLACE_KAFKA_BOOTSTRAP", "COPLACE_REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    hub, site = HubServers(tmp_path / "hub"), LocalServers(tmp_path / "site", redis=False)
    with ExitStack() as stack:
        for each in (hub, hub.link, site):
            stack.enter_context(each)
        hub_topics, site_topics = topics_of(hub), topics_of(site)
        at_hub, at_site = (processes(each.run_dir, of) for each, of in ((hub, _HUB), (site, _UP)))
        hub.start(at_hub.services())
        site.start([*at_site.services(), mirror(tmp_path, hub, site)])
        [placement] = at_hub.placement_addresses
        addresses = {
            "COPLACE_INGEST_ADDRESS": at_site.ingest_address,
            "COPLACE_PLACEMENT_ADDRESS": placement,
        }
        manager = SiteManager(site_topics, ScriptedManager("north", "alpha", addresses))
        yield TwoKafkas(hub, site, tmp_path / "failed", hub_topics, site_topics, manager)


def roll_back(topics: KafkaTopics, name: str) -> None:
    """Write to a topic in a transaction that is aborted."""
    options = topics.deployment.connection
    producer = KafkaProducer(**options, transactional_id="rolled-back")
    with closing(producer):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topics.deployment.name(name), b"rolled back").get(10)
        producer.abort_transaction()


def test_jobs_of_a_site_run_and_are_charged_once_over_cuts_and_kills(two: TwoKafkas) -> None:
    two.manager.words.declare(_NODES)
    roll_back(two.site_topics, "jobs.events")
    jobs = two.submit("before")
    two.until(lambda: len(two.charged()) == len(jobs), "the link carries both ways")

    two.hub.link.cut()
    jobs += two.submit("dark")
    dark_until_s = time.monotonic() + _CUT_S
    two.until(lambda: time.monotonic() > dark_until_s, "the cut goes by")
    assert len(two.charged()) == _JOBS, "nothing goes through a link that is cut"
    two.hub.link.mend()
    two.until(lambda: len(two.charged()) == len(jobs), "what waited at both ends comes")

    jobs += two.submit("killed")
    two.site.kill(MIRROR, signal.SIGKILL)
    two.until(lambda: len(two.charged()) == len(jobs), "a mirror that was killed goes on")

    assert two.charged() == Counter(jobs)
    assert two.manager.started == Counter((job, 1) for job in jobs)
    up, down = ("jobs.events", "commands"), ("placement.decisions",)
    two.until(lambda: same(two, [*up, *down]), "both ends have the same")
    for topic in (*up, *down):
        assert set(ids(two.hub_topics, topic).values()) == {1}, topic


def same(two: TwoKafkas, topics: Sequence[str]) -> bool:
    return all(ids(two.hub_topics, each) == ids(two.site_topics, each) for each in topics)
