"""Both stages over the log in memory: from the topics of the region to decisions."""

from collections.abc import Iterable

from coplace.v1.placement_pb2 import VERDICT_WITHDRAWN, PlacementDecided

from services.placement.app import SEQUENCED, stages
from services.placement.settings import PlacementSettings
from shared.catalogue.codec import Codec
from shared.catalogue.event import Event, Publish
from shared.catalogue.record import TopicPartition
from shared.catalogue.topics import Topics
from shared.domain.rounds import RoundSource
from shared.process.settings import Settings
from shared.streams.in_memory.embedded import EmbeddedRuntime
from shared.streams.in_memory.log import InMemoryLog
from tests.support.messaging import barriers
from tests.unit.shared.placement.region import (
    T0_US,
    finished,
    item,
    models,
    proposed,
    started,
    submitted,
)

TOPICS = Topics(kafka_partitions=4)
CODEC = Codec(TOPICS)


def append(log: InMemoryLog, events: Iterable[Event]) -> None:
    for event in events:
        topic = next(t for t in SEQUENCED if event.type in TOPICS.spec(t).messages)
        key = TOPICS.spec(topic).key_of(event.payload)
        keyed = Event(event.id, event.source, event.time_us, key, event.payload)
        log.append(CODEC.encode(Publish(topic, keyed)))


def decisions(log: InMemoryLog) -> dict[str, PlacementDecided]:
    events = [
        CODEC.decode(r) for p in TOPICS.partitions("placement.decisions") for r in log.read(p)
    ]
    return {e.key: e.payload for e in events if isinstance(e.payload, PlacementDecided)}


def test_rounds_closed_by_barriers_decide_each_job_in_its_round() -> None:
    log = InMemoryLog()
    runtime = EmbeddedRuntime(log, stages(Settings(rounds=RoundSource.BARRIERS)), TOPICS)
    append(log, [*models(), submitted("a", T0_US + 1)])
    runtime.run_until_quiet()
    assert decisions(log) == {}
    log.append(barriers(0, *SEQUENCED))
    append(log, [submitted("b", T0_US + 30_000_001)])
    log.append(barriers(1, *SEQUENCED))
    runtime.run_until_quiet()
    assert {job: d.round for job, d in decisions(log).items()} == {"a": 0, "b": 1}


def test_bad_input_becomes_a_dead_letter_and_the_round_goes_on() -> None:
    log = InMemoryLog()
    runtime = EmbeddedRuntime(log, stages(Settings(rounds=RoundSource.BARRIERS)), TOPICS)
    unknown = PlacementDecided(job_id="b", attempt=1, cluster="p1", decided_at_us=T0_US)
    append(log, [*models(nodes=4), submitted("b"), started(unknown, nodes=["p2-0001"])])
    log.append(barriers(0, *SEQUENCED))
    runtime.run_until_quiet()
    assert [*decisions(log)] == ["b"]
    [letter] = [r for p in TOPICS.partitions("dlq.placement.inputs") for r in log.read(p)]
    assert b"'p2-0001' is not a node of p1" in (letter.value or b"")


def test_a_start_that_nobody_confirms_is_withdrawn_in_time_although_nothing_else_happens() -> None:
    log = InMemoryLog()
    own = PlacementSettings(start_timeout_s=10.0)
    runtime = EmbeddedRuntime(log, stages(Settings(rounds=RoundSource.CLOCK), own), TOPICS)
    append(log, [*models(), submitted("a", T0_US + 1)])
    ended: list[int] = []
    for tick in range(1, 300):
        close(runtime, T0_US + tick * 100_000)
        ended.append(log.end_offset(TopicPartition("placement.inputs", 0)))
    [decided] = decisions(log).values()
    assert decided.verdict == VERDICT_WITHDRAWN
    assert decided.decided_at_us - T0_US == 10_200_000
    assert len({*ended}) == 2  # the round of the start, and the one in which it is withdrawn


def test_with_a_clock_the_sequencer_takes_plans_from_their_own_topic() -> None:
    log = InMemoryLog()
    runtime = EmbeddedRuntime(log, stages(Settings(rounds=RoundSource.CLOCK)), TOPICS)
    jobs = [submitted(f"holder-{n}", T0_US + 1 + n, nodes=4) for n in range(2)]
    append(log, [*models(nodes=4), *jobs, submitted("a", T0_US + 9, nodes=4)])
    close(runtime, T0_US + 100_000)
    plan = proposed(0, item("a", "p1", freq_ghz=1.8), based_at_us=T0_US + 100_000)
    log.append(CODEC.encode(Publish("placement.plans", plan)))
    append(log, [finished("holder-0", T0_US + 150_000, cluster="p1")])
    close(runtime, T0_US + 200_000)
    decided = decisions(log)["a"]
    assert (decided.freq_ghz, decided.plan_round) == (1.8, 0)


def close(runtime: EmbeddedRuntime, now_us: int) -> None:
    runtime.run_until_quiet(now_us)
    runtime.close_rounds("placement.sequencer", now_us)
    runtime.run_until_quiet(now_us)
