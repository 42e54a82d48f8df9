"""Bad input straight into a topic, while a run is going: it stops nothing and changes nothing."""

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pytest
from coplace.v1.control_pb2 import DeadLetter
from coplace.v1.jobs_pb2 import JOB_OUTCOME_COMPLETED, JobFinished, JobStarted, JobSubmitted
from coplace.v1.placement_pb2 import (
    PREDICTION_BASIS_FIRST_RUN,
    VERDICT_REJECTED,
    VERDICT_START,
    PlacementDecided,
)
from google.protobuf.message import Message

from cli.dlq.dead_letters import DeadLetters
from deploy.local.servers import LocalServers
from lab.demo.history import payloads
from lab.demo.options import DemoOptions
from lab.demo.parity import first_difference
from lab.demo.run import PATIENCE_S, write_files
from lab.demo.servers import RunningSystem, playing
from lab.emulator.adapters import MARKED, barrier_of
from lab.emulator.facts import EPOCH_US
from shared.catalogue.event import Event, Publish
from shared.catalogue.record import NewRecord, Record
from shared.streams.on_kafka.clients import Publisher, Reader
from shared.streams.stages.dead_letters import KEPT_BYTES
from shared.streams.stages.stage import Round

JOBS: Final = "jobs.events"
INPUTS: Final = "placement.inputs"
ROUND_US: Final = 30_000_000
YEAR_2099_US: Final = 4_070_908_800_000_000
# Field 999, a varint: no version of a message has it.
UNKNOWN_FIELD: Final = b"\xb8\x3e\x01"


@dataclass(frozen=True)
class Bad:
    """A record, what its dead letter must say, and in which topic the first stage refuses it."""

    record: NewRecord
    reason: str
    topic: str = JOBS


def submitted(name: str, *, nodes: int = 1, time_us: int = EPOCH_US, app: str = "") -> JobSubmitted:
    return JobSubmitted(
        job_id=f"demo/p1/{name}/1767225600",
        attempt=1,
        app_id=app,
        user="user",
        account="account",
        nodes=nodes,
        walltime_s=600,
        reference_cluster="p1",
        submitted_at_us=time_us,
    )


def never_submitted() -> JobFinished:
    return JobFinished(
        job_id="demo/p1/never-submitted/1767225600",
        attempt=1,
        outcome=JOB_OUTCOME_COMPLETED,
        cluster="p1",
        user="user",
        account="account",
        nodes=1,
        cores_per_node=48,
        freq_ghz=2.7,
        submitted_at_us=EPOCH_US,
        started_at_us=EPOCH_US + 1,
        ended_at_us=EPOCH_US + 2,
    )


def record_of(
    system: RunningSystem, payload: JobSubmitted | JobFinished, time_us: int = EPOCH_US
) -> NewRecord:
    event_id = f"test/{payload.DESCRIPTOR.full_name}/{payload.job_id}"
    event = Event(event_id, "test", time_us, payload.job_id, payload)
    return system.deployment.codec.encode(Publish(JOBS, event))


def bad_records(system: RunningSystem) -> dict[str, Bad]:
    """One of each kind, by name."""
    good = record_of(system, submitted("good"))
    renamed = tuple((k, b"\xff\xfe" if k == "ce_id" else v) for k, v in good.headers)
    return {
        "wrong type": Bad(replace_value(good, b"\xff not a message"), "must be a protobuf"),
        "no type": Bad(NewRecord(good.partition, good.key, b"{}", ()), "ce_type"),
        "no value": Bad(NewRecord(good.partition, good.key, None, good.headers), "a tombstone"),
        "negative time": Bad(
            record_of(system, submitted("negative", time_us=-5)), "submitted_at_us: must not lie"
        ),
        "never submitted": Bad(record_of(system, never_submitted()), "never submitted"),
        "beyond the limit": Bad(replace_value(good, b"x" * 1_060_000), "the limit is 1048576"),
        "not UTF-8": Bad(NewRecord(good.partition, good.key, good.value, renamed), "UTF-8"),
        "year 2099": Bad(record_of(system, submitted("late"), YEAR_2099_US), "the latest now is"),
    }


def replace_value(record: NewRecord, value: bytes) -> NewRecord:
    return NewRecord(record.partition, record.key, value, record.headers)


@dataclass
class Disturbance:
    """Notified of finished jobs, it writes bad and odd records in the middle of the run."""

    system: RunningSystem
    bad: dict[str, Bad] = field(default_factory=dict)
    finished: int = 0

    def __call__(self, finished: int) -> None:
        """So many more jobs have finished."""
        self.finished += finished
        if self.finished >= 10 and not self.bad:
            self.bad = bad_records(self.system)
            odd = list(odd_records(self.system))
            with Publisher(self.system.deployment) as publisher:
                publisher.append(bad.record for bad in self.bad.values())
                publisher.append(odd)


def odd_records(system: RunningSystem) -> Iterator[NewRecord]:
    """What is no error: copies, unknown fields, a start after its finish."""
    done = {event.payload.job_id for event in events(system, JobFinished)}  # type: ignore[attr-defined]
    for record in records(system):
        payload = system.deployment.codec.decode(record).payload
        if isinstance(payload, JobSubmitted | JobStarted) and payload.job_id in done:
            value = (record.value or b"") + UNKNOWN_FIELD
            yield NewRecord(record.partition, record.key, value, record.headers)
        if isinstance(payload, JobStarted) and payload.job_id in done:
            late = tuple((k, v + b"/late" if k == "ce_id" else v) for k, v in record.headers)
            yield NewRecord(record.partition, record.key, record.value, late)


def records(system: RunningSystem) -> list[Record]:
    with Reader(system.deployment, system.deployment.topics.partitions(JOBS)) as reader:
        return list(reader.to_end())


def events(system: RunningSystem, kind: type[Message]) -> list[Event]:
    return [event for event in system.topics.topic(JOBS) if isinstance(event.payload, kind)]


@dataclass(frozen=True)
class Disturbed:
    """A run that is over, with what was done to it; its services still run."""

    system: RunningSystem
    bad: dict[str, Bad]
    out: Path

    def letters(self, topic: str) -> list[DeadLetter]:
        """The dead letters of a topic, each of the stages that refused the record."""
        return list(DeadLetters(self.system.deployment).of(topic))

    def letters_of(self, bad: Bad) -> list[DeadLetter]:
        """Those of one record; the key distinguishes records without a value."""
        return [letter for letter in self.letters(bad.topic) if bad.reason in letter.reason]

    def coplace(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command line on this run's topics."""
        settings = self.system.deployment.settings
        environment = {
            **os.environ,
            "COPLACE_KAFKA_BOOTSTRAP": settings.kafka_bootstrap,
            "COPLACE_NAMESPACE": settings.namespace,
            "COPLACE_KAFKA_PARTITIONS": str(settings.kafka_partitions),
            "COPLACE_ROUNDS": settings.rounds.value,
        }
        command = [str(Path(sys.executable).with_name("coplace")), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def disturbed(
    undisturbed: DemoOptions, servers: LocalServers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Disturbed]:
    """A run into which bad records were written."""
    out = tmp_path_factory.mktemp("disturbed")
    with playing(replace(undisturbed, out=out), servers) as system:
        disturbance = Disturbance(system)
        system.topics.follow(disturbance, PATIENCE_S)
        write_files(system.topics, out)
        yield Disturbed(system, disturbance.bad, out)


def test_bad_input_changes_nothing_of_a_run(disturbed: Disturbed, undisturbed: DemoOptions) -> None:
    assert first_difference(undisturbed.out, disturbed.out) is None


def test_every_bad_record_becomes_a_dead_letter_with_all_that_is_needed(
    disturbed: Disturbed,
) -> None:
    for name, bad in disturbed.bad.items():
        letters = disturbed.letters_of(bad)
        assert letters, f"no dead letter says {bad.reason!r} of: {name}"
        for letter in letters:
            assert letter.stage
            assert letter.offset >= 0
            value = bad.record.value or b""
            assert letter.value_sha256 == hashlib.sha256(value).digest(), name
            assert letter.value == value[:KEPT_BYTES], name
            assert letter.value_size_bytes == len(value), name


def test_copies_unknown_fields_and_late_starts_are_no_errors(disturbed: Disturbed) -> None:
    reasons = [bad.reason for bad in disturbed.bad.values()]
    for topic in (JOBS, INPUTS):
        for letter in disturbed.letters(topic):
            assert any(reason in letter.reason for reason in reasons), letter.reason


def test_an_unknown_application_is_a_first_run_and_too_big_a_job_is_rejected(
    disturbed: Disturbed,
) -> None:
    system = disturbed.system
    last = max(event.payload.ended_at_us for event in events(system, JobFinished))  # type: ignore[attr-defined]
    now_us = last + 10 * ROUND_US
    unknown = submitted("unknown", time_us=now_us, app="never-seen")
    big = submitted("big", time_us=now_us, nodes=5_000)
    jobs = [record_of(system, job, now_us) for job in (unknown, big)]
    write_round(system, jobs, now_us + ROUND_US)
    assert until_decided(system, big.job_id).verdict == VERDICT_REJECTED
    decided = until_decided(system, unknown.job_id)
    assert decided.verdict == VERDICT_START
    assert {each.basis for each in decided.candidates} == {PREDICTION_BASIS_FIRST_RUN}


def write_round(system: RunningSystem, records: list[NewRecord], ended_at_us: int) -> None:
    """Write one more round after the emulator's last."""
    codec = system.deployment.codec
    barrier = barrier_of(Round(1_000_000, ended_at_us))
    places = [place for topic in MARKED for place in codec.topics.partitions(topic)]
    with Publisher(system.deployment) as publisher:
        publisher.append(records)
        publisher.append(codec.encode_barrier(place, barrier) for place in places)


def until_decided(system: RunningSystem, job_id: str) -> PlacementDecided:
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        for decided in payloads(system.topics.topic("placement.decisions"), PlacementDecided):
            if decided.job_id == job_id:
                return decided
        time.sleep(0.2)
    raise TimeoutError(f"nothing is decided on {job_id}")


def test_dead_letters_are_listed_shown_and_replayed(disturbed: Disturbed) -> None:
    letter = disturbed.letters_of(disturbed.bad["wrong type"])[0]
    place = f"{letter.topic}/{letter.kafka_partition}/{letter.offset}"
    listed = disturbed.coplace("dlq", "list", JOBS)
    assert f"{place}\t" in listed.stdout, listed.stderr
    shown = json.loads(disturbed.coplace("dlq", "show", place).stdout)
    assert b64decode(shown["value"]) == letter.value
    before = len(disturbed.letters(JOBS))
    replayed = disturbed.coplace("dlq", "replay", place)
    assert replayed.returncode == 0, replayed.stderr
    deadline_s = time.monotonic() + PATIENCE_S
    while len(disturbed.letters(JOBS)) == before:
        assert time.monotonic() < deadline_s, "the replayed record is not refused again"
        time.sleep(0.2)


def test_a_dead_letter_that_holds_a_part_of_its_record_is_not_replayed(
    disturbed: Disturbed,
) -> None:
    letter = disturbed.letters_of(disturbed.bad["beyond the limit"])[0]
    place = f"{letter.topic}/{letter.kafka_partition}/{letter.offset}"
    refused = disturbed.coplace("dlq", "replay", place)
    assert refused.returncode != 0
    said = re.sub(r"[│\s]+", " ", refused.stderr)
    assert "had 1060000 bytes, 65536 are kept: send it anew" in said
