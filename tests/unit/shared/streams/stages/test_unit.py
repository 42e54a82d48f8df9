"""The core of every driver: rounds, dead letters, copies, positions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pytest
from coplace.v1.control_pb2 import DeadLetter, RoundEnded, WakeWanted
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.pricing_pb2 import ChargeMade
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.catalogue.codec import MAX_MESSAGE_BYTES, OversizeError
from shared.catalogue.event import Event, Publish
from shared.catalogue.record import NewRecord, Record, TopicPartition
from shared.catalogue.topics import ROUND_ENDED
from shared.domain.rounds import RoundSource
from shared.streams.stages.hooks import Hooks
from shared.streams.stages.stage import Round, Stage
from shared.streams.stages.unit import Commit, EventTimeLimit, Unit, unit_count
from tests.support.messaging import (
    CODEC,
    START_US,
    TOPICS,
    at_offset,
    barrier,
    counting,
    encoded,
    payloads,
    submission,
)

PARTITIONS = TOPICS.partitions("jobs.events")
ROUND_US, DAY_US = 30_000_000, 86_400_000_000


@dataclass
class Batching:
    """Charges what a round brought, in the order of ids, with the round's number as revision."""

    jobs: list[str] = field(default_factory=list)

    def handle(self, event: Event) -> Iterable[Publish]:
        self.jobs.append(event.key)
        return ()

    def end_round(self, ended: Round) -> Iterable[Publish]:
        jobs, self.jobs = sorted(self.jobs), []
        for job in jobs:
            payload = ChargeMade(job_id=job, revision=ended.number)
            yield Publish("prices.charges", Event(f"c/{job}", "c", ended.ended_at_us, job, payload))

    def changes(self) -> Mapping[str, bytes | None]:
        return {"jobs": ",".join(self.jobs).encode()}


BATCHING = Stage("b", ("jobs.events",), ("prices.charges",), lambda _n, _r: Batching(), single=True)


def unit(stage: Stage, restored: Mapping[str, bytes] | None = None) -> Unit:
    """Unit 0 of a stage."""
    return Unit(stage, 0, restored or {}, CODEC)


def at_partition_0(count: int) -> list[Publish]:
    """Submissions that all lie at the partition of unit 0."""
    candidates = (submission(f"j{i}", user=f"u{i % 3}") for i in range(count * 20))
    found = [publish for publish in candidates if encoded(publish)[0].partition == PARTITIONS[0]]
    return found[:count]


def submitted_at(time_us: int) -> list[Record]:
    """One submission at the partition of unit 0, of this time."""
    [publish] = at_partition_0(1)
    return numbered(encoded(replace(publish, event=replace(publish.event, time_us=time_us))))


def kept(commit: Commit) -> dict[str, bytes]:
    """What a changelog holds after the commit."""
    return {key: value for key, value in commit.changelog.items() if value is not None}


def numbered(records: Iterable[NewRecord]) -> list[Record]:
    """Records with offsets by partition."""
    ends: dict[TopicPartition, int] = {}
    found = []
    for new in records:
        ends[new.partition] = ends.get(new.partition, -1) + 1
        found.append(at_offset(new, ends[new.partition]))
    return found


def a_log(rounds: int, jobs: int) -> dict[TopicPartition, list[Record]]:
    """Every partition's records: the jobs of each round, then its barrier."""
    records: list[NewRecord] = []
    for number in range(rounds):
        records += encoded(*[submission(f"j{number}-{i}") for i in range(jobs)])
        records += [barrier(partition, number) for partition in PARTITIONS]
    found = numbered(records)
    return {
        partition: [record for record in found if record.partition == partition]
        for partition in PARTITIONS
    }


@settings(max_examples=50)
@given(data=st.data(), rounds=st.integers(1, 4), jobs=st.integers(0, 12))
def test_any_interleaving_and_any_cut_into_batches_gives_the_same_rounds(
    data: st.DataObject, rounds: int, jobs: int
) -> None:
    log = a_log(rounds, jobs)
    expected = unit(BATCHING).process([record for each in log.values() for record in each])
    order = data.draw(
        st.permutations([partition for partition in PARTITIONS for _ in log[partition]]),
        label="order of partitions",
    )
    cuts = data.draw(st.lists(st.booleans(), min_size=len(order), max_size=len(order)))
    queues = {partition: iter(records) for partition, records in log.items()}
    interleaved, total, batch = unit(BATCHING), Commit(), []
    for partition, is_cut in zip(order, cuts, strict=True):
        batch.append(next(queues[partition]))
        if is_cut:
            total.add(interleaved.process(batch))
            batch = []
    total.add(interleaved.process(batch))
    assert (total.outputs, total.positions) == (expected.outputs, expected.positions)
    assert total.tally.rounds_closed == rounds


@settings(max_examples=50)
@given(data=st.data(), jobs=st.integers(1, 8))
def test_a_restart_after_any_commit_changes_no_output(data: st.DataObject, jobs: int) -> None:
    """A unit that reads on from its positions, with its changelog, continues where it was."""
    log = a_log(3, jobs)
    counting_all = counting(single=True)
    whole = unit(counting_all).process([record for each in log.values() for record in each])
    order = data.draw(
        st.permutations([partition for partition in PARTITIONS for _ in log[partition]])
    )
    cut = data.draw(st.integers(0, len(order)))
    taken = dict.fromkeys(PARTITIONS, 0)
    for partition in order[:cut]:
        taken[partition] += 1
    before = unit(counting_all).process(
        [record for partition in PARTITIONS for record in log[partition][: taken[partition]]]
    )
    after = unit(counting_all, kept(before)).process(
        [record for p in PARTITIONS for record in log[p][before.positions.get(p, 0) :]]
    )
    assert ids(before.outputs + after.outputs) == ids(whole.outputs)


def ids(records: Iterable[NewRecord]) -> list[tuple[TopicPartition, bytes]]:
    """Where which event went."""
    return sorted((record.partition, dict(record.headers)["ce_id"]) for record in records)


def test_a_held_partition_stays_at_its_barrier_until_the_round_is_complete() -> None:
    ahead, *others = PARTITIONS
    single = unit(BATCHING)
    backlog = [barrier(ahead, 0), *encoded(*at_partition_0(3)), barrier(ahead, 1)]
    first = single.process(numbered(backlog))
    assert (first.outputs, first.positions) == ([], {ahead: 0})
    assert single.held == {ahead}
    assert single.crowded(3) == {ahead}
    assert single.crowded(5) == frozenset()
    second = single.process(numbered(barrier(partition, 0) for partition in others))
    assert second.tally.rounds_closed == 1
    assert second.positions == {**dict.fromkeys(others, 1), ahead: 4}
    assert single.held == {ahead}


def test_every_partition_of_the_outputs_gets_one_barrier_a_round() -> None:
    commit = unit(BATCHING).process(numbered(barrier(partition, 0) for partition in PARTITIONS))
    assert sorted(record.partition for record in commit.outputs) == sorted(
        TOPICS.partitions("prices.charges")
    )
    assert {event.id for event in payloads(commit.outputs)} == {f"b.0/{ROUND_ENDED}/round/0"}
    keyed = unit(counting()).process([at_offset(barrier(PARTITIONS[0], 0), 0)])
    assert [each.partition for each in keyed.outputs] == [TopicPartition("prices.charges", 0)]


def test_a_barrier_that_comes_again_is_dropped_and_counted() -> None:
    keyed = unit(counting())
    keyed.process([at_offset(barrier(PARTITIONS[0], 0), 0)])
    again = keyed.process([at_offset(barrier(PARTITIONS[0], 0), 1)])
    assert (again.outputs, again.positions) == ([], {PARTITIONS[0]: 2})
    assert again.tally.copies_dropped == 1


def test_partitions_whose_first_barriers_were_deleted_do_not_block_the_others() -> None:
    single = unit(BATCHING)
    late, *others = PARTITIONS
    single.process([at_offset(barrier(late, 5), 40)])
    for number in range(6):
        single.process([at_offset(barrier(partition, number), number) for partition in others])
    assert single.held == frozenset()


@pytest.mark.parametrize("restarts", [False, True])
def test_a_copy_is_dropped_and_counted_also_by_whoever_comes_after(restarts: bool) -> None:
    first, second = at_partition_0(2)
    keyed = unit(counting())
    commit = keyed.process(numbered(encoded(first)))
    if restarts:
        keyed = unit(counting(), kept(commit))
    again = keyed.process(numbered(encoded(first, second)))
    assert [event.id for event in payloads(again.outputs)] == [f"c/{second.event.id}"]
    assert again.tally.copies_dropped == 1


def test_a_clock_that_goes_back_closes_no_round_until_it_has_passed_the_last_one() -> None:
    clocked = unit(counting(rounds=RoundSource.CLOCK))
    assert clocked.process([at_offset(barrier(PARTITIONS[0], 9), 0)]).positions == {
        PARTITIONS[0]: 1
    }
    clocked.close_round(START_US)
    clocked.process(numbered(encoded(*at_partition_0(1))))
    for now_us in (START_US - 5, START_US):
        assert clocked.close_round(now_us).tally.rounds_closed == 0
    [later] = payloads(clocked.close_round(START_US + 7).outputs)
    assert isinstance(later.payload, RoundEnded)
    assert (later.payload.round, later.payload.ended_at_us) == (1, START_US + 7)


SEQUENCER = "placement.sequencer.0"
INPUTS = TopicPartition("placement.inputs", 0)
BY_BARRIERS = Stage(
    "p", ("placement.inputs",), ("prices.charges",), lambda _n, _r: Batching(), True
)


def production() -> Unit:
    """A unit that goes by the sequencer's barriers; its last round is the third."""
    found = unit(BY_BARRIERS)
    marked = [barrier(INPUTS, number, START_US + number, SEQUENCER) for number in range(3)]
    assert found.process(numbered(marked), START_US).tally.rounds_closed == 3
    return found


def after_barrier(found: Unit, number: int, at_us: int, writer: str = SEQUENCER) -> Commit:
    """What one more barrier does."""
    return found.process([at_offset(barrier(INPUTS, number, at_us, writer), 3)], START_US)


@pytest.mark.parametrize(
    ("number", "at_us", "writer", "reason"),
    [
        (2**64 - 1, START_US + 3, SEQUENCER, "round: is 18446744073709551615, the next one is 3"),
        (4, START_US + 3, SEQUENCER, "round: is 4, the next one is 3"),
        (3, START_US + 3, "north", "ce_source: 'north' does not end rounds here"),
        (3, START_US + 3, "placement.sequencer.0x", "ce_source: "),
        (3, START_US + 3_600_000_000, SEQUENCER, "ended_at_us: "),
        (3, START_US - 1, SEQUENCER, "ended_at_us: "),
    ],
)
def test_a_barrier_that_cannot_be_is_a_dead_letter_and_rounds_go_on(
    number: int, at_us: int, writer: str, reason: str
) -> None:
    placing = production()
    refused = after_barrier(placing, number, at_us, writer)
    assert (refused.tally.rounds_closed, refused.tally.dead_letters) == (0, 1)
    [letter] = payloads(refused.outputs)
    assert isinstance(letter.payload, DeadLetter)
    assert letter.payload.reason.startswith(reason)
    copy = after_barrier(placing, 2, START_US + 2)
    assert (copy.tally.copies_dropped, copy.tally.dead_letters) == (1, 0)
    following = 4 if reason.startswith("ended_at_us") else 3
    assert after_barrier(placing, following, START_US + 9).tally.rounds_closed == 1


@pytest.mark.parametrize(
    ("number", "at_us"), [(2**64 - 1, START_US), (10**6, START_US + 10**15)], ids=["number", "time"]
)
def test_a_first_barrier_that_cannot_be_uses_no_number_up(number: int, at_us: int) -> None:
    placing = unit(BY_BARRIERS)
    far = barrier(INPUTS, number, at_us, SEQUENCER)
    assert placing.process([at_offset(far, 0)], START_US).tally.dead_letters == 1
    assert after_barrier(placing, 0, START_US).tally.rounds_closed == 1


@dataclass
class Alarm(Batching):
    """Waits for times."""

    due_us: int | None = None

    def wake_us(self) -> int | None:
        return self.due_us


def wanted(commit: Commit) -> list[int]:
    """What wake-ups a commit asks for."""
    found = [event.payload for event in payloads(commit.outputs)]
    return [payload.at_us for payload in found if isinstance(payload, WakeWanted)]


def test_a_wake_up_is_asked_for_once_and_again_when_it_has_passed() -> None:
    alarm = Alarm()
    outputs = ("prices.charges", "placement.wakes")
    waking = Stage(
        "p",
        ("placement.inputs",),
        outputs,
        lambda _n, _r: alarm,
        single=True,
        puts_barriers=False,
        wakes="placement.wakes",
    )
    waiting = unit(waking)
    asked = []
    due_s = [None, 300, 310, 250, 320, 320, 320]
    at_s = [0, 1, 2, 3, 4, 251, 252]
    for number, (due, at) in enumerate(zip(due_s, at_s, strict=True)):
        alarm.due_us = None if due is None else START_US + due * 1_000_000
        now_us = START_US + at * 1_000_000
        record = at_offset(barrier(INPUTS, number, now_us, SEQUENCER), number)
        asked.append([(us - START_US) // 1_000_000 for us in wanted(waiting.process([record]))])
    assert asked == [[], [300], [], [250], [], [320], []]


WAKING = counting(rounds=RoundSource.CLOCK, inputs=("placement.wakes",), single=True)


def test_a_clock_closes_a_round_for_what_waits_and_an_idle_system_still_writes_nothing() -> None:
    clocked = unit(WAKING)
    clocked.close_round(START_US)
    wake = Event("w", "placement.0", START_US, "region", WakeWanted(at_us=START_US + 50))
    asked = clocked.process(numbered(encoded(Publish("placement.wakes", wake))), START_US + 1)
    assert clocked.close_round(START_US + 49).is_empty
    for one in (clocked, unit(WAKING, kept(asked))):
        assert one.close_round(START_US + 50).tally.rounds_closed == 1
        assert one.close_round(START_US + 51).is_empty


@pytest.mark.parametrize("at_us", [0, -1, -(2**63)])
def test_a_forged_wake_up_before_1970_is_a_dead_letter(at_us: int) -> None:
    clocked = unit(WAKING)
    clocked.close_round(START_US)
    forged = Event("w", "nobody", START_US, "region", WakeWanted(at_us=at_us))
    commit = clocked.process(numbered(encoded(Publish("placement.wakes", forged))), START_US + 1)
    assert commit.tally.dead_letters == 1


def test_idle_rounds_of_the_clock_leave_no_trace_but_the_first_after_a_start() -> None:
    """What a predecessor handled may still wait for the end of its round."""
    clocked = unit(counting(rounds=RoundSource.CLOCK))
    assert not clocked.close_round(START_US).is_empty
    assert clocked.close_round(START_US + ROUND_US).is_empty
    clocked.process(numbered(encoded(*at_partition_0(1))))
    assert clocked.close_round(START_US + 2 * ROUND_US).tally.rounds_closed == 1


def test_an_event_far_ahead_of_the_last_round_is_refused() -> None:
    keyed = unit(counting())
    for days, letters in ((365, 0), (400, 1)):
        records = submitted_at(START_US + days * DAY_US)
        assert keyed.process(records).tally.dead_letters == letters


@pytest.mark.parametrize("submitted_at_us", [4_070_908_800_000_000, 2**63 - 1, -1])
def test_a_time_in_the_payload_is_held_to_the_same_limits(submitted_at_us: int) -> None:
    """Somebody may write to the topic without asking ingest."""
    [publish] = at_partition_0(1)
    assert isinstance(publish.event.payload, JobSubmitted)
    publish.event.payload.submitted_at_us = submitted_at_us
    records = numbered(encoded(publish))
    commit = unit(counting()).process(records)
    assert commit.tally.dead_letters == 1
    [letter] = payloads(commit.outputs)
    assert isinstance(letter.payload, DeadLetter)
    assert letter.payload.reason.startswith("submitted_at_us: ")


def test_rounds_that_skip_idle_months_carry_the_limit_along() -> None:
    keyed = unit(counting())
    keyed.process([at_offset(barrier(PARTITIONS[0], 0, START_US + 360 * DAY_US), 0)])
    assert keyed.process(submitted_at(START_US + 720 * DAY_US)).tally.dead_letters == 0


def test_by_the_wall_clock_the_future_begins_tomorrow() -> None:
    limit = EventTimeLimit.from_wall_clock(START_US)
    clocked = Unit(counting(rounds=RoundSource.CLOCK), 0, {}, CODEC, limit)
    tomorrow = submitted_at(START_US + 2 * DAY_US)
    assert clocked.process(tomorrow, START_US).tally.dead_letters == 1
    assert clocked.process(tomorrow, START_US + DAY_US).tally.dead_letters == 0


def test_by_the_wall_clock_a_job_may_begin_and_end_in_a_year() -> None:
    limit = EventTimeLimit.from_wall_clock(START_US)
    clocked = Unit(counting(rounds=RoundSource.CLOCK), 0, {}, CODEC, limit)
    [publish] = at_partition_0(1)
    job = publish.event.payload
    assert isinstance(job, JobSubmitted)
    job.begin_at_us = START_US + 366 * DAY_US
    job.deadline_at_us = job.begin_at_us + DAY_US
    assert clocked.process(numbered(encoded(publish)), START_US).tally.dead_letters == 0


class Renaming:
    """Stamps every event."""

    def stamp(self, stage: str, event: Event) -> Event:
        return event.traced(f"{event.traceparent}+{stage}")


def test_events_of_a_trace_are_stamped_and_others_are_not() -> None:
    class Passing(Batching):
        def handle(self, event: Event) -> Iterable[Publish]:
            payload = ChargeMade(job_id=event.key)
            yield Publish("prices.charges", replace(event, payload=payload))

    stage = replace(counting(), create=lambda _n, _r: Passing())
    traced, plain = at_partition_0(2)
    traced = Publish("jobs.events", traced.event.traced("trace"))
    stamped = Unit(stage, 0, {}, CODEC, hooks=Hooks(stamper=Renaming()))
    commit = stamped.process(numbered(encoded(traced, plain)))
    assert [event.traceparent for event in payloads(commit.outputs)] == ["trace+counting", ""]


def test_an_output_under_a_foreign_key_or_into_a_topic_that_is_not_listed_ends_the_worker() -> None:
    class Straying(Batching):
        def handle(self, event: Event) -> Iterable[Publish]:
            assert isinstance(event.payload, JobSubmitted)
            jobs = (f"x{i}" for i in range(100))
            job = next(j for j in jobs if TOPICS.partition_of("prices.charges", j)[1] != 0)
            yield Publish("prices.charges", replace(event, key=job, payload=ChargeMade(job_id=job)))

    stage = replace(counting(), create=lambda _n, _r: Straying())
    with pytest.raises(ValueError, match="unit 0 of counting may not write to"):
        unit(stage).process(numbered(encoded(*at_partition_0(1))))
    unlisted = replace(counting(), outputs=("placement.decisions",))
    with pytest.raises(ValueError, match=r"must list prices\.charges as an output"):
        unit(unlisted).process(numbered(encoded(*at_partition_0(1))))
    with pytest.raises(ValueError, match="must have equal counts"):
        unit_count(counting(inputs=("jobs.events", "commands")), TOPICS)


@dataclass
class Hoarding:
    """Keeps and publishes as much as is set."""

    state_bytes: int = 0
    reason_bytes: int = 0

    def handle(self, event: Event) -> Iterable[Publish]:
        return ()

    def end_round(self, ended: Round) -> Iterable[Publish]:
        payload = ChargeMade(job_id="j", user="u" * self.reason_bytes)
        return [Publish("prices.charges", Event("c", "c", ended.ended_at_us, "j", payload))]

    def changes(self) -> Mapping[str, bytes | None]:
        return {"hoard": bytes(self.state_bytes)}


def closing(processor: Hoarding) -> Commit:
    """The commit of a round of this processor."""
    stage = replace(BATCHING, create=lambda _number, _restored: processor, rounds=RoundSource.CLOCK)
    return unit(stage).close_round(START_US)


def test_state_or_an_output_that_no_topic_holds_fails_in_the_unit_and_is_named() -> None:
    assert closing(Hoarding(state_bytes=MAX_MESSAGE_BYTES)).changelog
    with pytest.raises(OversizeError, match="the state under 'hoard' has 1200005 bytes"):
        closing(Hoarding(state_bytes=1_200_000))
    with pytest.raises(OversizeError, match=r"stage b made c for prices\.charges: value: has"):
        closing(Hoarding(reason_bytes=MAX_MESSAGE_BYTES))
