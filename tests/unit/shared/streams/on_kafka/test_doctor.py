"""What the doctor says of a unit that commits while it is examined."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import cast

import pytest

from shared.catalogue.record import TopicPartition
from shared.process.settings import Settings
from shared.streams.on_kafka import doctor
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.facts import KafkaFacts
from shared.streams.stages.consistency import LogFacts, UnitPartitions
from shared.streams.stages.provenance import Provenance, TopicIdentity
from tests.support.messaging import counting

DEPLOYMENT = Deployment.from_settings(Settings())
UNIT = UnitPartitions.from_stage(counting(), 0, DEPLOYMENT.topics)
INPUT = TopicPartition("jobs.events", 0)
TOPICS = {
    name: TopicIdentity(name.encode().ljust(16, b"."), count)
    for name, count in UNIT.kafka_partitions.items()
}


def at_commit(number: int, position: int) -> Provenance:
    """The changelog behind a commit."""
    return Provenance(commits=number, topics=TOPICS, positions={INPUT: position})


@dataclass
class Facts:
    """Kafka, where the group is at a commit."""

    group_at: int
    commits: int

    def of(self, _unit: UnitPartitions, _provenance: Provenance | None) -> LogFacts:
        everywhere = {INPUT: 0, UNIT.changelog: 0}
        ends = dict.fromkeys(everywhere, 10_000)
        committed = {INPUT: self.group_at}
        return LogFacts(TOPICS, everywhere, ends, {}, committed, self.commits)


def examined(patched: pytest.MonkeyPatch, facts: Facts, *changelogs: Provenance) -> list[str]:
    """What does not fit where the changelog is first one and then another."""
    readings: Iterator[Provenance] = iter(changelogs)

    async def read(_deployment: Deployment, _partition: TopicPartition) -> Mapping[str, bytes]:
        return {}

    patched.setattr(doctor, "read_changelog", read)
    patched.setattr(doctor, "split_state", lambda _restored: (next(readings), {"row": b""}))
    wrong = doctor.examine_unit(DEPLOYMENT, cast(KafkaFacts, facts), UNIT)
    return [one.what for one in wrong]


def test_a_unit_that_commits_while_it_is_examined_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = Facts(group_at=120, commits=8)
    assert examined(monkeypatch, facts, at_commit(7, 100), at_commit(9, 150)) == []


def test_a_group_that_is_elsewhere_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    still = at_commit(7, 100)
    assert examined(monkeypatch, Facts(group_at=120, commits=8), still, still)
    # It commits meanwhile, and the group is where it never was.
    ahead = Facts(group_at=400, commits=8)
    assert examined(monkeypatch, ahead, at_commit(7, 100), at_commit(9, 150))
    behind = Facts(group_at=50, commits=8)
    assert examined(monkeypatch, behind, at_commit(7, 100), at_commit(9, 150))


def test_what_was_replaced_under_a_unit_at_work_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    other = {
        **TOPICS,
        "jobs.events": TopicIdentity(b"x" * 16, TOPICS["jobs.events"].kafka_partitions),
    }
    before, later = at_commit(7, 100), at_commit(9, 150)
    made_from = replace(before, topics=other), replace(later, topics=other)
    [what] = examined(monkeypatch, Facts(group_at=120, commits=8), *made_from)
    assert "jobs.events is another topic" in what
