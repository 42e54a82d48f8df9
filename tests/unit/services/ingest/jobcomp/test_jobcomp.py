"""Slurm's messages become facts about jobs, or dead letters."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

import orjson
import pytest
from coplace.v1.control_pb2 import DeadLetter
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobFinished, JobOutcome, JobStarted, JobSubmitted
from hypothesis import given
from hypothesis import strategies as st

from services.ingest.jobcomp import app
from services.ingest.jobcomp.app import Jobcomp
from services.ingest.jobcomp.meter import JobcompMeter
from services.ingest.model import Intake
from shared.catalogue.codec import Codec
from shared.catalogue.event import Publish
from shared.catalogue.record import Record, TopicPartition
from shared.catalogue.topics import Topics
from shared.slurm.clusters import ClusterMap
from shared.slurm.facts import OUTCOMES, Site, envelopes
from shared.slurm.message import Message

NOW_S = 1_780_000_000.0
TOPICS = Topics(kafka_partitions=4)
MAX_BYTES = 1_048_576
SITE = Site("north", "none", "m0")
JOBCOMP = Jobcomp(Intake(TOPICS), SITE, MAX_BYTES)

END: dict[str, Any] = {
    "jobid": 4242,
    "username": "alice",
    "account": "proj1",
    "@submit": "2026-05-04T09:58:00Z",
    "@start": "2026-05-04T10:00:05Z",
    "@end": "2026-05-04T11:00:05Z",
    "total_cpus": 190,
    "total_nodes": 4,
    "nodes": "n[001-004]",
    "state": "COMPLETED",
    "cluster": "c1",
    "time_limit": 7200,
    "job_name": "cfd",
    "comment": None,
}
START = {name: value for name, value in END.items() if name != "@end"} | {"state": None}


def record(value: bytes | None) -> Record:
    """A record as the plugin leaves it: without a key."""
    return Record(TopicPartition("slurm.jobcomp", 2), 17, b"", value)


def publishes(value: bytes | None) -> list[Publish]:
    """What one record becomes."""
    found = asyncio.run(JOBCOMP.publishes([record(value)], NOW_S))
    codec = Codec(TOPICS)
    for publish in found:
        codec.encode(publish)
    return found


def facts(message: dict[str, Any]) -> list[Any]:
    """The payloads of a message's events, none of which is a dead letter."""
    found = publishes(orjson.dumps(message))
    assert {publish.topic for publish in found} == {"jobs.events"}
    return [publish.event.payload for publish in found]


def test_a_start_shows_the_submission_and_the_start() -> None:
    submitted, started = facts(START)
    assert isinstance(submitted, JobSubmitted)
    assert isinstance(started, JobStarted)
    assert submitted.job_id == started.job_id == "north/c1/4242/1777888680"
    assert (submitted.user, submitted.account, submitted.app_id) == ("alice", "proj1", "cfd")
    assert (submitted.nodes, submitted.walltime_s) == (4, 7200)
    assert list(started.nodes) == ["n001", "n002", "n003", "n004"]


def test_an_end_shows_the_submission_and_all_that_a_price_needs() -> None:
    submitted, finished = facts(END)
    assert isinstance(finished, JobFinished)
    assert submitted == facts(START)[0]
    assert finished.outcome == JobOutcome.JOB_OUTCOME_COMPLETED
    assert (finished.nodes, finished.cores_per_node, finished.node_model) == (4, 48, "m0")
    assert (finished.cores, dict(finished.resources)) == (190, {})
    assert finished.ended_at_us - finished.started_at_us == 3_600_000_000


def test_events_of_one_job_have_natural_keys_that_copies_repeat() -> None:
    start, end = ([each.event.id for each in publishes(orjson.dumps(m))] for m in (START, END))
    kinds = ("JobSubmitted", "JobStarted", "JobFinished")
    submitted, started, finished = (
        f"north/coplace.v1.{kind}/north/c1/4242/1777888680/1" for kind in kinds
    )
    submitted += "/run"  # of one that waits more may be known
    assert (start, end) == ([submitted, started], [submitted, finished])


def of_id(local_id: str, submitted_s: int = 1777888680) -> dict[str, Any]:
    return {"job_id": f"north/c1/{local_id}/{submitted_s}"}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        # Array tasks and parts of heterogeneous jobs have ids as Slurm prints them.
        ({"array_job_id": 4000, "array_task_id": 0}, {"job_id": "north/c1/4000/1777888680_0"}),
        ({"array_job_id": 4000, "array_task_id": 4294967294}, of_id("4242")),
        ({"array_job_id": 0, "array_task_id": 0}, of_id("4242")),
        ({"het_job_id": 4241, "het_job_offset": 1}, of_id("4241+1")),
        ({"het_job_id": 4242}, of_id("4242")),
        # A local id that is used again is another job.
        ({"@submit": "2026-05-04T09:59:00Z"}, of_id("4242", 1777888740)),
        # The application is what the comment says, else the job's name.
        ({"comment": "app_id=hpcg"}, {"app_id": "hpcg"}),
        ({"comment": "please, app_id=lu; thanks"}, {"app_id": "lu"}),
        ({"comment": "none"}, {"app_id": "cfd"}),
        ({"comment": None}, {"app_id": "cfd"}),
        # Without an account or a limit it gets those of the site.
        ({"account": None}, {"account": "none"}),
        ({"time_limit": 4294967295}, {"walltime_s": 366 * 86_400}),
        # Memory is read in each of Slurm's units.
        ({"tres_req": "cpu=1,mem=16384,node=1"}, {"memory_gib_per_unit": 16.0}),
        ({"tres_req": "cpu=1,mem=768M,node=1"}, {"memory_gib_per_unit": 0.75}),
        ({"tres_req": "cpu=1,mem=187.50G,node=1"}, {"memory_gib_per_unit": 187.5}),
        ({"tres_req": "cpu=1,mem=1.5T,node=1"}, {"memory_gib_per_unit": 1536.0}),
        ({"tres_req": "cpu=1,mem=2097152K,node=1"}, {"memory_gib_per_unit": 2.0}),
        ({"tres_req": "cpu=1,mem=10M,node=1"}, {"memory_gib_per_unit": 0.1}),
        ({"tres_req": "cpu=1,mem=0,node=1"}, {"memory_gib_per_unit": 0.0}),
    ],
)
def test_what_slurm_says_of_a_job_becomes_its_submission(
    changes: dict[str, Any], told: dict[str, Any]
) -> None:
    submitted = facts(END | changes)[0]
    assert {name: getattr(submitted, name) for name in told} == told


@pytest.mark.parametrize("state", sorted(OUTCOMES))
def test_every_final_state_of_slurm_is_an_outcome(state: str) -> None:
    assert facts(END | {"state": state})[1].outcome == OUTCOMES[state]


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        *(("jobid", {"jobid": number}) for number in (0, -1, 2**40, None, "7")),
        *(("@submit", {"@submit": time}) for time in (None, "yesterday", 7, ["2026-05-04"])),
        ("submitted_at_us", {"@submit": "1970-05-04T09:58:00Z"}),
        ("job_submitted.submitted_at_us", {"@submit": "2099-05-04T09:58:00Z", "@end": None}),
        ("cluster", {"cluster": None}),
        ("cluster", {"cluster": 7}),
        ("@start", {"state": "RESIZING", "@start": END["@end"], "@queue_wait": None}),
        ("state", {"state": "SOMEWHAT", "@end": None}),
        ("nodes", {"state": None, "nodes": "n[1-"}),
        ("@start", {"state": None, "@start": "yesterday"}),
    ],
)
def test_a_message_that_identifies_no_job_and_no_start_names_the_field(
    field: str, changes: dict[str, Any]
) -> None:
    (publish,) = publishes(orjson.dumps(END | changes))
    assert isinstance(publish.event.payload, DeadLetter)
    assert publish.event.payload.reason.startswith(field)


@pytest.mark.parametrize(
    "value", [b"{", b"[]", b"", None, b"\xff", b"[" * 99_999, b"x" * (MAX_BYTES + 1)]
)
def test_what_is_no_message_is_kept_with_the_reason_and_the_original_bytes(
    value: bytes | None,
) -> None:
    (publish,) = publishes(value)
    letter = publish.event.payload
    assert isinstance(letter, DeadLetter)
    assert publish.topic == "dlq.slurm.jobcomp"
    assert letter.reason.startswith("value")
    assert (letter.kafka_partition, letter.offset) == (2, 17)
    assert letter.value == (value or b"")[:65_536]
    assert letter.value_sha256 == hashlib.sha256(value or b"").digest()


# As sacct shows them of real clusters: half a node with two GPUs, and four whole ones.
GPU_JOB = END | {
    "total_cpus": 32,
    "total_nodes": 2,
    "nodes": "gpu[003-004]",
    "tres_req": "billing=32,cpu=30,gres/gpu=3,mem=120G,node=2",
    "tres_alloc": "billing=32,cpu=32,energy=812345,gres/gpu:a100=4,gres/gpu=4,mem=120G,node=2",
}


def test_what_was_asked_for_becomes_equal_units_one_a_node_and_what_was_allocated_was_held() -> (
    None
):
    submitted, finished = facts(GPU_JOB)
    assert (submitted.nodes, submitted.cores_per_unit, submitted.units_per_node) == (2, 15, 1)
    assert submitted.memory_gib_per_unit == 60.0
    assert dict(submitted.resources_per_unit) == {"gpu": 2}
    assert submitted == facts(GPU_JOB | {"state": None})[0]
    assert (finished.nodes, finished.cores_per_node, finished.cores) == (2, 16, 32)
    assert dict(finished.resources) == {"gpu": 4, "gpu:a100": 4}


def test_licences_are_held_and_what_is_measured_or_a_price_is_not() -> None:
    held = "cpu=4,node=1,license/matlab=2,bb/datawarp=100G,fs/disk=7,ic/ofed=9,vmem=1G,pages=3"
    changes = {"total_cpus": 4, "total_nodes": 1, "tres_req": held, "tres_alloc": held}
    submitted, finished = facts(END | changes)
    assert dict(submitted.resources_per_unit) == {}
    assert dict(finished.resources) == {"license/matlab": 2}


def test_a_job_cancelled_in_the_queue_never_started_and_is_reported_by_what_it_asked_for() -> None:
    changes = {"state": "CANCELLED by 1001", "total_nodes": 0, "total_cpus": 30}
    for start in ("Unknown", None):
        message = GPU_JOB | changes | {"@start": start, "tres_alloc": None}
        submitted, finished = facts(message)
        assert finished.outcome == JobOutcome.JOB_OUTCOME_CANCELLED
        assert finished.started_at_us == 0
        assert (submitted.nodes, finished.nodes, finished.cores) == (2, 2, 30)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(),
    lambda children: st.lists(children, max_size=3),
    max_leaves=4,
)
FIELDS = st.dictionaries(st.sampled_from(sorted(END)), JSON, max_size=1)
RESOURCES = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("tres_req", "tres_alloc"), st.text("cpumenodgr/=,.0189KMG:"))
)


@given(st.sampled_from([START, END]), FIELDS | RESOURCES)
def test_whatever_a_field_holds_nothing_stops(
    message: dict[str, Any], changes: dict[str, Any]
) -> None:
    assert publishes(orjson.dumps(message | changes))


@given(st.binary(max_size=200))
def test_any_bytes_become_something(value: bytes) -> None:
    assert publishes(value)


def test_a_record_that_fails_again_is_quarantined_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failing = {2: 2, 3: 1}

    def fails_at_some(message: Message, site: Site, latest_us: int) -> list[Envelope]:
        number = message.needed_number("jobid")
        failing[number] = failing.get(number, 0) - 1
        if failing[number] >= 0:
            raise ZeroDivisionError
        return envelopes(message, site, latest_us)

    monkeypatch.setattr(app, "envelopes", fails_at_some)
    records = [record(orjson.dumps(END | {"jobid": number})) for number in (1, 2, 3, 4)]
    found = asyncio.run(JOBCOMP.publishes(records, NOW_S))
    letters = [each.event.payload for each in found if isinstance(each.event.payload, DeadLetter)]
    ended = [each.event.payload for each in found if isinstance(each.event.payload, JobFinished)]
    assert [(letter.kind, letter.value) for letter in letters] == [
        ("quarantined", orjson.dumps(END | {"jobid": 2}))
    ]
    assert [each.job_id.split("/")[2] for each in ended] == ["1", "3", "4"]


def test_what_is_left_out_is_counted_by_field() -> None:
    meter = Meter()
    counted = Jobcomp(Intake(TOPICS), SITE, MAX_BYTES, meter=meter)
    messages = [END, END | {"job_name": "a\tb", "qos": "q" * 300}, END | {"job_name": "\x01"}]
    asyncio.run(counted.publishes([record(orjson.dumps(each)) for each in messages], NOW_S))
    assert meter.counted == {"job_name": 2, "qos": 1}


class Meter(JobcompMeter):
    """Remembers what is counted."""

    def __init__(self) -> None:
        self.counted = Counter[str]()

    def repaired(self, job_id: str, fields: Collection[str]) -> None:
        self.counted.update(fields)


def test_the_plugins_own_example_is_understood(data_dir: Path) -> None:
    path = data_dir / "slurm" / "jobcomp_kafka_example.json"
    submitted, finished = facts(orjson.loads(path.read_bytes()))
    assert submitted.job_id == "north/c1/4242/1777888680"
    assert (submitted.nodes, submitted.cores_per_unit) == (4, 48)
    assert submitted.memory_gib_per_unit == 187.5
    assert (finished.cores_per_node, finished.cores) == (48, 192)


class Declared:
    """What is declared of two clusters, from the second batch on."""

    def __init__(self) -> None:
        self._asked = 0

    async def now(self) -> ClusterMap:
        self._asked += 1
        return ClusterMap("gold", {"n002": "rome"} if self._asked > 1 else {})


def test_a_run_is_of_the_cluster_that_its_nodes_are_of_when_the_record_comes() -> None:
    mapping = Jobcomp(Intake(TOPICS), SITE, MAX_BYTES, clusters=Declared())  # type: ignore[arg-type]
    told = orjson.dumps({**END, "nodes": "n[002-004]"})
    for cluster in ("gold", "rome"):
        _, finished = asyncio.run(mapping.publishes([record(told)], NOW_S))
        assert isinstance(finished.event.payload, JobFinished)
        assert (finished.event.payload.cluster, finished.event.id[-5:]) == (
            cluster,
            f"/on-{cluster}"[-5:],
        )
