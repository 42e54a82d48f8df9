"""What a stage skips before it decodes."""

from dataclasses import replace

import pytest
from coplace.v1.jobs_pb2 import JobSubmitted

from cli.stages import every_stage
from shared.catalogue.record import Record
from shared.catalogue.schemas import names_of
from shared.catalogue.topics import ROUND_ENDED, Topics
from shared.process.settings import Settings
from shared.streams.stages.consumption import Skipping
from shared.streams.stages.stage import Stage
from shared.streams.stages.unit import Commit, Unit
from tests.support.messaging import CODEC, at_offset, barrier, counting, encoded, submission

STAGE = replace(counting(), consumes=names_of(JobSubmitted))


def of_type(name: str, value: bytes = b"") -> Record:
    """A submission's record that says of itself that it is something else."""
    [new] = encoded(submission("j1"))
    headers = tuple((key, name.encode() if key == "ce_type" else of) for key, of in new.headers)
    return at_offset(replace(new, headers=headers, value=value or new.value), 0)


def processed(record: Record, stage: Stage = STAGE) -> Commit:
    """What a unit makes of one record."""
    unit = Unit(stage, record.partition.kafka_partition, {}, CODEC)
    return unit.process([record])


@pytest.mark.parametrize(
    ("name", "skipped", "dead_letters"),
    [
        ("coplace.v1.JobSubmitted", 0, 0),
        ("coplace.v1.JobCancelled", 1, 0),
        ("coplace.v1.ReservationDeclaredNextYear", 1, 0),
        # In the wrong topic, of somebody else, or of nobody.
        ("coplace.v1.ClusterDeclared", 0, 1),
        ("org.example.JobSubmitted", 0, 1),
        ("", 0, 1),
    ],
)
def test_what_a_stage_does_not_consume_is_skipped_and_counted(
    name: str, skipped: int, dead_letters: int
) -> None:
    record = of_type(name)
    commit = processed(record)
    assert (commit.tally.skipped, commit.tally.dead_letters) == (skipped, dead_letters)
    assert commit.positions == {record.partition: record.offset + 1}


def test_what_is_skipped_is_not_decoded() -> None:
    commit = processed(of_type("coplace.v1.JobCancelled", b"\xff no protobuf"))
    assert (commit.tally.skipped, commit.tally.dead_letters) == (1, 0)
    all_of_it = replace(STAGE, consumes=None)
    commit = processed(of_type("coplace.v1.JobCancelled", b"\xff no protobuf"), all_of_it)
    assert (commit.tally.skipped, commit.tally.dead_letters) == (0, 1)


def test_of_two_types_that_counts_which_decoding_takes() -> None:
    later = ("ce_type", b"coplace.v1.ReservationDeclaredNextYear")
    record = of_type("coplace.v1.JobSubmitted")
    good = processed(replace(record, headers=(later, *record.headers)))
    assert (good.tally.skipped, good.tally.dead_letters) == (0, 0)
    assert processed(replace(record, headers=(*record.headers, later))).tally.skipped == 1


def test_the_barriers_of_rounds_are_never_skipped() -> None:
    [new] = encoded(submission("j1"))
    record = at_offset(barrier(new.partition, 0, 1, "ingest"), 0)
    assert dict(record.headers)["ce_type"] == ROUND_ENDED.encode()
    assert not Skipping(STAGE, CODEC.topics).has(record)


@pytest.mark.parametrize("stage", every_stage(Settings()), ids=lambda stage: stage.name)
def test_every_stage_consumes_only_what_its_inputs_hold(stage: Stage) -> None:
    topics = Topics()
    held = {name for topic in stage.inputs for name in topics.spec(topic).messages}
    assert stage.consumes is not None
    assert stage.consumes <= held
    of_units = {"placement.wakes"}
    for topic in {*stage.inputs} - of_units:
        assert stage.consumes & topics.spec(topic).messages.keys(), topic
