"""What comes too early is kept until it can be used, and ends as a dead letter if it never can."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pytest
from coplace.v1.control_pb2 import ClusterDeclared, DeadLetter
from coplace.v1.jobs_pb2 import JOB_OUTCOME_COMPLETED, JobFinished, JobSubmitted
from coplace.v1.pricing_pb2 import ChargeMade

from shared.catalogue.codec import Codec
from shared.catalogue.event import Event, Publish
from shared.catalogue.record import Record, TopicPartition
from shared.catalogue.topics import Topics
from shared.domain.rounds import RoundSource
from shared.streams.stages import early
from shared.streams.stages.stage import EarlyError, Round, Stage
from shared.streams.stages.unit import Unit
from tests.support.lives import Life
from tests.support.messaging import START_US, at_offset, encoded, submission

JOB = "j0"
KEPT_US = early.KEPT_US


@dataclass
class Ends:
    """Charges a job that was submitted, or whose cluster is known, when it ends."""

    known: set[str] = field(default_factory=set)

    def handle(self, event: Event) -> Iterable[Publish]:
        if isinstance(event.payload, JobSubmitted):
            self.known.add(event.key)
            return []
        if isinstance(event.payload, ClusterDeclared):
            self.known |= {JOB, "j1"}
            return []
        if event.key not in self.known:
            raise EarlyError("job_id", "was never submitted")
        charge = ChargeMade(job_id=event.key, attempt=1)
        return [Publish("prices.charges", Event("c", "c", event.time_us, event.key, charge))]

    def end_round(self, ended: Round) -> Iterable[Publish]:
        return ()

    def changes(self) -> Mapping[str, bytes | None]:
        return dict.fromkeys(sorted(self.known), b"known")


STAGE = Stage(
    "ends",
    ("jobs.events", "commands"),
    ("prices.charges",),
    lambda _n, restored: Ends(set(restored)),
    single=True,
    rounds=RoundSource.CLOCK,
    puts_barriers=False,
)


def finish(job_id: str = JOB) -> Publish:
    payload = JobFinished(
        job_id=job_id,
        attempt=1,
        outcome=JOB_OUTCOME_COMPLETED,
        cluster="c",
        user="ada",
        account="physics",
        nodes=1,
        cores_per_node=1,
        submitted_at_us=START_US,
        ended_at_us=START_US,
    )
    return Publish("jobs.events", Event(f"finished/{job_id}", "test", START_US, job_id, payload))


def records(*published: Publish, first: int = 0) -> list[Record]:
    return [at_offset(new, first + n) for n, new in enumerate(encoded(*published))]


@pytest.mark.parametrize("restarts", [False, True])
def test_what_came_too_early_is_applied_behind_what_it_waits_for(restarts: bool) -> None:
    life = Life(STAGE)
    assert life.take(records(finish())) == []
    life.end_round(START_US)
    if restarts:
        life.restart()
    [charge] = life.take(records(submission(JOB), first=1))
    assert isinstance(charge, ChargeMade)
    assert not any(key.startswith(early.PREFIX) for key in life.state)


@pytest.mark.parametrize("restarts", [False, True])
def test_what_waits_for_a_cluster_is_applied_behind_its_declaration_by_job(restarts: bool) -> None:
    life = Life(STAGE)
    assert life.take(records(finish("j1"), finish())) == []
    if restarts:
        life.restart()
    declared = ClusterDeclared(
        cluster="c",
        site="s",
        node_model="m",
        nodes=1,
        cores_per_node=1,
        pstates_ghz=[2.0],
        idle_power_w=100.0,
        peak_bandwidth_gbps=100.0,
    )
    charges = life.tell(Publish("commands", Event("c", "test", START_US, "c", declared)))
    assert [charge.job_id for charge in charges if isinstance(charge, ChargeMade)] == [JOB, "j1"]
    assert not any(key.startswith(early.PREFIX) for key in life.state)


def test_what_is_never_joined_becomes_the_dead_letter_of_its_record_when_it_is_overdue() -> None:
    life = Life(STAGE)
    [record] = records(finish())
    life.take([record])
    assert life.end_round(START_US + 5) == []
    life.restart()
    assert life.end_round(START_US + 4 + KEPT_US) == []
    overdue_us = START_US + 5 + KEPT_US
    assert life.end_round(overdue_us) == []
    life.restart()
    assert life.end_round(overdue_us + early.AWAITED_US - 1) == []
    [letter] = life.end_round(overdue_us + early.AWAITED_US)
    assert isinstance(letter, DeadLetter)
    assert (letter.reason, letter.offset) == ("job_id: was never submitted", record.offset)
    assert letter.value == record.value
    assert not any(key.startswith(early.PREFIX) for key in life.state)
    assert life.end_round(START_US + 3 * KEPT_US) == []


@pytest.mark.parametrize("restarts", [False, True])
def test_what_was_under_way_when_all_stopped_for_days_is_joined_yet(restarts: bool) -> None:
    life = Life(STAGE)
    life.take(records(finish()))
    life.end_round(START_US + 5)
    on_us = START_US + 3 * KEPT_US
    assert life.end_round(on_us) == []
    if restarts:
        life.restart()
    assert life.end_round(on_us + early.AWAITED_US // 2) == []
    assert len(life.take(records(submission(JOB), first=1))) == 1


def test_there_is_space_for_so_many_of_a_job_and_the_rest_is_refused_at_once() -> None:
    life = Life(STAGE)
    letters = life.take(records(*[finish()] * (early.MOST_OF_A_JOB + 2)))
    assert len(letters) == 2
    charges = life.take(records(submission(JOB), first=early.MOST_OF_A_JOB + 2))
    assert len(charges) == early.MOST_OF_A_JOB


def test_what_is_early_in_the_last_round_of_a_run_is_refused_at_its_end() -> None:
    facts = early.EarlyFacts({})
    [record] = records(finish())
    large = replace(record, value=b"x" * 100_000)
    assert not facts.keep(JOB, large, "no dead letter can hold it", "ends")
    assert facts.keep(JOB, record, "was never submitted", "ends")
    [letter] = facts.end_round(START_US, is_last=True)
    assert letter.offset == record.offset
    assert len(facts) == 0


def test_what_came_too_early_is_applied_where_its_topic_got_more_kafka_partitions() -> None:
    [kept] = records(finish())
    few, many = (Codec(Topics(kafka_partitions=count)) for count in (1, 12))
    before = Unit(STAGE, 0, {}, few)
    lies_at_0 = replace(kept, partition=TopicPartition("jobs.events", 0))
    state = before.process([lies_at_0]).changelog
    after = Unit(STAGE, 0, {key: value for key, value in state.items() if value}, many)
    outputs = after.process([at_offset(many.encode(submission(JOB)), 1)]).outputs
    assert [many.decode(at_offset(new, 0)).type for new in outputs] == ["coplace.v1.ChargeMade"]
