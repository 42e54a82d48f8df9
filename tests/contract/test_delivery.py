"""What both logs promise to every stage."""

import hashlib
from collections.abc import Callable
from itertools import count

from coplace.v1.control_pb2 import DeadLetter
from coplace.v1.jobs_pb2 import JobSubmitted

from shared.catalogue.record import NewRecord, Record, TopicPartition
from shared.catalogue.topics import ROUND_ENDED
from shared.streams.stages.dead_letters import KEPT_BYTES
from shared.streams.stages.failures import DEFAULT_AFTER
from shared.streams.stages.hooks import POINTS
from shared.streams.stages.provenance import PROVENANCE_KEY
from tests.contract.backends import Backend, Plan, Worker
from tests.contract.in_memory import MemoryBackend
from tests.contract.marks import KAFKA_IN_REST, at_points
from tests.support.messaging import TOPICS, barriers, encoded, payloads, submission

JOBS = 120
ROUNDS = 3

Found = list[list[tuple[str, bytes]]]
State = dict[tuple[int, str], bytes]


def work(rounds: int = ROUNDS) -> list[NewRecord]:
    """Submissions of a few users, some of them sent twice, with the barriers of their rounds."""
    records = []
    for number in range(rounds):
        fresh = [submission(f"j{number}-{i}", user=f"u{i % 7}") for i in range(JOBS)]
        records += encoded(*fresh, *fresh[::10])
        records += barriers(number, "jobs.events")
    return records


def header(record: Record, name: str) -> str:
    """One header as text."""
    return dict(record.headers)[name].decode()


def outputs(backend: Backend) -> Found:
    """Id and content of every record of every partition of the output topic."""
    return [
        [(header(record, "ce_id"), record.value or b"") for record in backend.read(partition)]
        for partition in TOPICS.partitions("prices.charges")
    ]


def state(backend: Backend, stage: str = "counting") -> State:
    """What the changelog says: the latest value of each key that is not deleted."""
    latest = {
        (number, record.key.decode()): record.value
        for number in range(4)
        for record in backend.read(TopicPartition(f"changelog.{stage}", number))
        if record.key.decode() != PROVENANCE_KEY
    }
    return {key: value for key, value in latest.items() if value is not None}


def undisturbed(records: list[NewRecord]) -> tuple[Found, State]:
    """Outputs and state of a run in memory in which nothing happens."""
    clean = MemoryBackend()
    clean.append(records)
    clean.start(Plan())
    clean.until(rounds_closed(clean, ROUNDS))
    return outputs(clean), state(clean)


def rounds_closed(backend: Backend, rounds: int) -> Callable[[], bool]:
    """Whether every partition of the output topic has the barriers of so many rounds."""

    def barriers_at(partition: TopicPartition) -> int:
        return sum(header(found, "ce_type") == ROUND_ENDED for found in backend.read(partition))

    return lambda: all(
        barriers_at(partition) >= rounds for partition in TOPICS.partitions("prices.charges")
    )


def test_every_partition_gets_its_outputs_in_the_order_of_its_inputs(backend: Backend) -> None:
    backend.append(work())
    backend.start(Plan())
    backend.until(rounds_closed(backend, ROUNDS))
    found = outputs(backend)
    for number, partition in enumerate(TOPICS.partitions("jobs.events")):
        inputs = dict.fromkeys(
            f"c/{header(Record(new.partition, 0, new.key, new.value, new.headers), 'ce_id')}"
            for new in work()
            if new.partition == partition and dict(new.headers)["ce_type"] != ROUND_ENDED.encode()
        )
        assert [event for event, _ in found[number] if event.startswith("c/")] == list(inputs)
    assert (found, state(backend)) == undisturbed(work())


def test_two_members_share_the_units_and_one_takes_over_what_the_other_leaves(
    backend: Backend,
) -> None:
    records = work()
    half = len(records) // 2
    backend.append(records[:half])
    first, second = backend.start(Plan()), backend.start(Plan())
    backend.until(rounds_closed(backend, 1))
    first.stop()
    backend.append(records[half:])
    backend.until(rounds_closed(backend, ROUNDS))
    assert not second.ended
    assert (outputs(backend), state(backend)) == undisturbed(work())


@at_points(POINTS, on_kafka=("outputs sent", "committing", "committed"))
def test_a_crash_at_any_point_loses_and_doubles_nothing(backend: Backend, point: str) -> None:
    backend.append(work())
    dying = backend.start(Plan(point=point))
    backend.until(lambda: dying.ended)
    backend.start(Plan())
    backend.until(rounds_closed(backend, ROUNDS))
    assert (outputs(backend), state(backend)) == undisturbed(work())


@at_points(("handled", "outputs sent", "committing"), on_kafka=("committing",))
def test_a_stalled_worker_that_returns_is_fenced(backend: Backend, point: str) -> None:
    backend.append(work())
    stalling = backend.start(Plan(point=point, action="stall"))
    backend.start(Plan())
    backend.until(rounds_closed(backend, ROUNDS))
    stalling.resume()
    backend.until(lambda: stalling.ended)
    assert "Fenced" in stalling.last_words
    assert (outputs(backend), state(backend)) == undisturbed(work())


def test_a_bug_in_the_handler_ends_the_worker_and_loses_nothing(backend: Backend) -> None:
    backend.append(work())
    failing = backend.start(Plan(bug_at=f"j1-{JOBS // 2}"))
    backend.until(lambda: failing.ended)
    assert "a bug in the processor" in failing.last_words
    backend.start(Plan())
    backend.until(rounds_closed(backend, ROUNDS))
    assert (outputs(backend), state(backend)) == undisturbed(work())


def until_ended(backend: Backend, worker: Worker) -> None:
    """Let it work until it ends by itself."""
    backend.until(lambda: worker.ended)


def test_what_fails_again_after_restarts_is_isolated_and_nothing_else_is_lost(
    backend: Backend,
) -> None:
    good = [f"good-{i}" for i in range(JOBS)]
    bad = ["poison-1", "pair-1", "pair-2", "poison-2", "undecidable-1", "big-1"]
    names = [*good[:50], *bad, *good[50:]]
    backend.append(encoded(*[submission(name) for name in names]))
    backend.append(barriers(0, "jobs.events"))
    plan = Plan(single=True, fragile=True)
    for _life in range(DEFAULT_AFTER):
        until_ended(backend, backend.start(plan))
    survivor = backend.start(plan)
    backend.until(rounds_closed(backend, 1))
    assert not survivor.ended
    charged = {event for found in outputs(backend) for event, _ in found if event.startswith("c/")}
    letters = {JobSubmitted.FromString(letter.value).job_id for letter in dead_letters(backend)}
    assert {letter.kind for letter in dead_letters(backend)} == {"quarantined"}
    assert letters >= {"poison-1", "poison-2", "big-1"}
    assert letters - {"poison-1", "poison-2", "big-1"} < {"pair-1", "pair-2"}
    left_out = {f"c/{name}" for name in [*letters, "undecidable-1"]}
    assert charged == {f"c/{name}" for name in names} - left_out


@KAFKA_IN_REST
def test_what_kills_its_process_again_and_again_is_isolated_and_nothing_else_is_lost(
    backend: Backend,
) -> None:
    good = [f"good-{i}" for i in range(JOBS)]
    names = [*good[:50], "deadly-1", "deadly-2", *good[50:], "fatal-1"]
    backend.append(encoded(*[submission(name) for name in names]))
    backend.append(barriers(0, "jobs.events"))
    assert DEFAULT_AFTER < lives_of(backend, Plan(single=True, fragile=True)) <= 3 * DEFAULT_AFTER
    assert {job_id(letter) for letter in dead_letters(backend)} == {"deadly-1", "deadly-2"}
    assert {letter.kind for letter in dead_letters(backend)} == {"quarantined"}
    assert all("the process died: SIGKILL" in letter.reason for letter in dead_letters(backend))
    charged = {event for found in outputs(backend) for event, _ in found if event.startswith("c/")}
    assert charged == {f"c/{name}" for name in good}


def lives_of(backend: Backend, plan: Plan) -> int:
    """Start a worker until one lives when a round is closed; how many it took."""
    for lives in count(1):
        worker = backend.start(plan)
        backend.until(ended_or_closed(backend, worker))
        if not worker.ended:
            return lives
    raise AssertionError


def ended_or_closed(backend: Backend, worker: Worker) -> Callable[[], bool]:
    """Whether a worker has ended, or the first round has."""
    return lambda: worker.ended or rounds_closed(backend, 1)()


@KAFKA_IN_REST
def test_whoever_kills_a_worker_again_and_again_has_nothing_isolated(backend: Backend) -> None:
    backend.append(work())
    for _life in range(DEFAULT_AFTER + 1):
        until_ended(backend, backend.start(Plan(single=True, point="handled")))
    backend.start(Plan(single=True))
    backend.until(rounds_closed(backend, ROUNDS))
    assert dead_letters(backend) == []
    assert len({found for each in outputs(backend) for found, _ in each}) > ROUNDS * JOBS


def test_copies_under_new_offsets_change_nothing(backend: Backend) -> None:
    records = work()
    cut = len(work(1)) - 4
    backend.append([*records[:cut], *records[:cut], *records[cut:], *records])
    backend.start(Plan())
    backend.until(rounds_closed(backend, ROUNDS))
    assert outputs(backend) == undisturbed(work())[0]


def test_bad_records_become_dead_letters_with_reason_and_original_bytes(backend: Backend) -> None:
    [good] = encoded(submission("good"))
    big = b"\xff" * (KEPT_BYTES + 1)
    bad = {
        "must be a protobuf": NewRecord(good.partition, good.key, big, good.headers),
        "ce_type: is missing": NewRecord(good.partition, good.key, good.value),
        "ce_time: is": encoded(submission("y2099", time_us=4_070_908_800_000_000))[0],
        "nodes: must be": encoded(submission("nothing", nodes=0))[0],
        "key: must be UTF-8": NewRecord(good.partition, b"\xff\xfe", good.value, good.headers),
    }
    backend.append([*bad.values(), *work()])
    backend.start(Plan())
    backend.until(rounds_closed(backend, ROUNDS))
    assert outputs(backend) == undisturbed(work())[0]
    letters = dead_letters(backend)
    assert len(letters) == len(bad)
    for reason, original in bad.items():
        [letter] = [found for found in letters if reason in found.reason]
        value = original.value or b""
        assert (letter.topic, letter.kafka_partition) == original.partition
        assert (letter.key, letter.value) == (original.key, value[:KEPT_BYTES])
        assert letter.value_sha256 == hashlib.sha256(value).digest()
        assert letter.value_size_bytes == len(value)
        assert dict(letter.headers) == dict(original.headers)


def job_id(letter: DeadLetter) -> str:
    """The job whose submission a dead letter holds."""
    return JobSubmitted.FromString(letter.value).job_id


def dead_letters(backend: Backend) -> list[DeadLetter]:
    """Everything in the dead-letter queue."""
    partitions = TOPICS.partitions("dlq.jobs.events")
    events = payloads(record for partition in partitions for record in backend.read(partition))
    return [event.payload for event in events if isinstance(event.payload, DeadLetter)]


@KAFKA_IN_REST
def test_a_partition_ahead_of_its_round_is_held_back(backend: Backend) -> None:
    """One partition of a single unit is three rounds ahead, far beyond what a unit keeps
    waiting."""
    [ahead, *others] = TOPICS.partitions("jobs.events")
    backlog = [new for new in work() if new.partition == ahead]
    many = encoded(*[submission(f"m{i}") for i in range(20_000)])
    backlog[-1:-1] = [new for new in many if new.partition == ahead]
    backend.append(backlog)
    worker = backend.start(Plan(single=True))
    behind = [new for new in work() if new.partition in others]
    backend.append(behind)
    backend.until(rounds_closed(backend, ROUNDS))
    assert not worker.ended
    charged = {event for found in outputs(backend) for event, _ in found if event.startswith("c/")}
    assert len(charged) == ROUNDS * JOBS + sum(new.partition == ahead for new in many)


@KAFKA_IN_REST
def test_a_replay_from_the_start_gives_the_same_outputs(backend: Backend) -> None:
    backend.append(work())
    first = backend.start(Plan())
    backend.until(rounds_closed(backend, ROUNDS))
    first.stop()
    once = outputs(backend)
    backend.start(Plan(stage="replay"))
    backend.until(rounds_closed(backend, 2 * ROUNDS))
    for before, both in zip(once, outputs(backend), strict=True):
        again = [(name.replace("replay.", "counting."), value) for name, value in both]
        assert again[len(before) :] == before
    assert state(backend, "replay") == state(backend)
