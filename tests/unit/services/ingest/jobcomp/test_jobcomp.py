"""Slurm's messages become facts about jobs, or dead letters."""

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import orjson
import pytest
from coplace.v1.control_pb2 import DeadLetter
from coplace.v1.jobs_pb2 import JobFinished, JobOutcome, JobStarted, JobSubmitted
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from services.ingest.jobcomp.app import Jobcomp
from services.ingest.model import Intake
from shared.catalogue.codec import Codec
from shared.catalogue.event import Publish
from shared.catalogue.record import Record, TopicPartition
from shared.catalogue.topics import Topics
from shared.domain.hostlist import expand
from shared.slurm.facts import OUTCOMES, Site

NOW_S = 1_780_000_000.0
TOPICS = Topics(kafka_partitions=4)
MAX_BYTES = 1_048_576
JOBCOMP = Jobcomp(Intake(TOPICS), Site("north", "none", "m0"), MAX_BYTES)

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


def refusal(message: dict[str, Any]) -> str:
    """Why a message is a dead letter."""
    (publish,) = publishes(orjson.dumps(message))
    assert isinstance(publish.event.payload, DeadLetter)
    return publish.event.payload.reason


def test_a_start_tells_the_submission_and_the_start() -> None:
    submitted, started = facts(START)
    assert isinstance(submitted, JobSubmitted)
    assert isinstance(started, JobStarted)
    assert submitted.job_id == started.job_id == "north/c1/4242/1777888680"
    assert (submitted.user, submitted.account, submitted.app_id) == ("alice", "proj1", "cfd")
    assert (submitted.nodes, submitted.walltime_s) == (4, 7200)
    assert list(started.nodes) == ["n001", "n002", "n003", "n004"]


def test_an_end_tells_the_submission_and_all_that_a_price_needs() -> None:
    submitted, finished = facts(END)
    assert isinstance(finished, JobFinished)
    assert submitted == facts(START)[0]
    assert finished.outcome == JobOutcome.JOB_OUTCOME_COMPLETED
    assert (finished.nodes, finished.cores_per_node, finished.node_model) == (4, 48, "m0")
    assert (finished.cores, dict(finished.resources)) == (190, {})
    assert finished.ended_at_us - finished.started_at_us == 3_600_000_000


def test_events_of_one_job_have_natural_keys_that_copies_repeat() -> None:
    found = [
        publish.event.id for value in (START, END) for publish in publishes(orjson.dumps(value))
    ]
    job = "north/c1/4242/1777888680"
    assert found == [
        f"north/coplace.v1.JobSubmitted/{job}/1",
        f"north/coplace.v1.JobStarted/{job}/1",
        f"north/coplace.v1.JobSubmitted/{job}/1",
        f"north/coplace.v1.JobFinished/{job}/1",
    ]


def test_a_local_id_used_again_is_another_job() -> None:
    again = facts(END | {"@submit": "2026-05-04T09:59:00Z"})[0]
    assert again.job_id != facts(END)[0].job_id


@pytest.mark.parametrize(
    ("changes", "local_id"),
    [
        ({"array_job_id": 4000, "array_task_id": 0}, "4000_0"),
        ({"array_job_id": 4000, "array_task_id": 4294967294}, "4242"),
        ({"array_job_id": 0, "array_task_id": 0}, "4242"),
        ({"het_job_id": 4241, "het_job_offset": 1}, "4241+1"),
        ({"het_job_id": 4242}, "4242"),
    ],
)
def test_array_tasks_and_parts_of_heterogeneous_jobs_have_ids_as_slurm_prints_them(
    changes: dict[str, Any], local_id: str
) -> None:
    assert facts(END | changes)[0].job_id == f"north/c1/{local_id}/1777888680"


@pytest.mark.parametrize(
    ("comment", "app_id"),
    [("app_id=hpcg", "hpcg"), ("please, app_id=lu; thanks", "lu"), ("none", "cfd"), (None, "cfd")],
)
def test_the_application_is_what_the_comment_says_else_the_jobs_name(
    comment: str | None, app_id: str
) -> None:
    assert facts(END | {"comment": comment})[0].app_id == app_id


@pytest.mark.parametrize("state", sorted(OUTCOMES))
def test_every_final_state_of_slurm_is_an_outcome(state: str) -> None:
    assert facts(END | {"state": state})[1].outcome == OUTCOMES[state]


def test_a_job_cancelled_in_the_queue_never_started() -> None:
    changes = {"state": "CANCELLED by 1001", "@start": "Unknown"}
    finished = facts(END | changes)[1]
    assert finished.outcome == JobOutcome.JOB_OUTCOME_CANCELLED
    assert finished.started_at_us == 0


def test_a_job_without_an_account_or_a_limit_gets_those_of_the_site() -> None:
    submitted = facts(END | {"account": None, "time_limit": 4294967295})[0]
    assert (submitted.account, submitted.walltime_s) == ("none", 366 * 86_400)


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("total_cpus", {"total_cpus": "many"}),
        ("total_nodes", {"total_nodes": -4}),
        ("total_nodes", {"total_nodes": True}),
        ("jobid", {"jobid": 0}),
        ("jobid", {"jobid": 2**40}),
        ("username", {"username": 7}),
        ("job_submitted.user", {"username": ""}),
        ("@end", {"@end": "yesterday"}),
        ("job_submitted.submitted_at_us", {"@submit": None}),
        ("job_submitted.submitted_at_us", {"@submit": "1970-05-04T09:58:00Z"}),
        ("job_finished.ended_at_us", {"@end": "2099-05-04T09:58:00Z"}),
        ("job_finished.ended_at_us", {"@end": "2026-05-04T10:00:00Z"}),
        ("state", {"state": "SOMEWHAT"}),
        ("state", {"state": " "}),
        ("nodes", {"state": None, "nodes": "n[1-"}),
        ("tres_req", {"tres_req": "cpu"}),
        ("tres_req", {"tres_req": "cpu=8,"}),
        ("tres_req", {"tres_req": "cpu=-8"}),
        ("tres_req", {"tres_req": "cpu=8 node=1"}),
        ("tres_req", {"tres_req": "cpu=eight"}),
        ("tres_req", {"tres_req": "cpu=1.5,node=1"}),
        ("tres_req", {"tres_req": "cpu=8,cpu=8"}),
        ("tres_req", {"tres_req": "mem=16Q"}),
        ("tres_req", {"tres_req": 8}),
        ("tres_alloc", {"tres_alloc": "gres/gpu=0.5"}),
        ("tres_alloc", {"tres_alloc": "gres/gpu"}),
        ("job_submitted.nodes", {"tres_req": "cpu=8,node=100001"}),
        ("job_submitted.cores_per_unit", {"tres_req": "cpu=10001,node=1"}),
        ("job_submitted.memory_gib_per_unit", {"tres_req": "mem=9E,node=1"}),
        ("job_submitted.resources_per_unit", {"tres_req": "cpu=1,gres/shards=1M,node=1"}),
        ("job_finished.cores", {"total_cpus": 2_000_000_000, "total_nodes": 100_000}),
        ("job_finished.resources", {"tres_alloc": ",".join(f"gres/x{i}=1" for i in range(17))}),
    ],
)
def test_a_message_that_cannot_be_used_names_the_field(field: str, changes: dict[str, Any]) -> None:
    assert refusal(END | changes).startswith(field)


@pytest.mark.parametrize(
    "value", [b"{", b"[]", b"", None, b'{"jobid": "\xff"}', b"x" * (MAX_BYTES + 1)]
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


def test_what_was_asked_for_becomes_equal_units_one_a_node() -> None:
    submitted = facts(GPU_JOB)[0]
    assert (submitted.nodes, submitted.cores_per_unit, submitted.units_per_node) == (2, 15, 1)
    assert submitted.memory_gib_per_unit == 60.0
    assert dict(submitted.resources_per_unit) == {"gpu": 2}
    assert submitted == facts(GPU_JOB | {"state": None})[0]


def test_what_was_allocated_becomes_what_the_job_held() -> None:
    finished = facts(GPU_JOB)[1]
    assert (finished.nodes, finished.cores_per_node, finished.cores) == (2, 16, 32)
    assert dict(finished.resources) == {"gpu": 4, "gpu:a100": 4}


@pytest.mark.parametrize(
    ("memory", "memory_gib_per_unit"),
    [
        ("16384", 16.0),
        ("768M", 0.75),
        ("187.50G", 187.5),
        ("1.5T", 1536.0),
        ("2097152K", 2.0),
        ("10M", 0.1),
        ("0", 0.0),
    ],
)
def test_memory_is_read_in_each_of_slurms_units(memory: str, memory_gib_per_unit: float) -> None:
    submitted = facts(END | {"tres_req": f"cpu=1,mem={memory},node=1"})[0]
    assert submitted.memory_gib_per_unit == memory_gib_per_unit


def test_licences_are_held_and_what_is_measured_or_a_price_is_not() -> None:
    held = "cpu=4,node=1,license/matlab=2,bb/datawarp=100G,fs/disk=7,ic/ofed=9,vmem=1G,pages=3"
    changes = {"total_cpus": 4, "total_nodes": 1, "tres_req": held, "tres_alloc": held}
    submitted, finished = facts(END | changes)
    assert dict(submitted.resources_per_unit) == {}
    assert dict(finished.resources) == {"license/matlab": 2}


def test_a_job_cancelled_before_it_had_nodes_is_told_by_what_it_asked_for() -> None:
    changes = {"state": "CANCELLED", "@start": None, "total_nodes": 0, "total_cpus": 30}
    submitted, finished = facts(GPU_JOB | changes | {"tres_alloc": None})
    assert (submitted.nodes, finished.nodes, finished.cores) == (2, 2, 30)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(),
    lambda children: st.lists(children, max_size=3),
    max_leaves=4,
)


@given(st.text(alphabet="cpumenodgr/=,.0189KMG:", max_size=40))
def test_whatever_a_list_of_resources_holds_nothing_stops(tres: str) -> None:
    assert publishes(orjson.dumps(END | {"tres_req": tres, "tres_alloc": tres}))


@given(st.sampled_from(sorted(END)), json_values)
def test_whatever_a_field_holds_nothing_stops(field: str, value: object) -> None:
    for message in (START, END):
        assert publishes(orjson.dumps(message | {field: value}))


@given(st.binary(max_size=200))
def test_any_bytes_become_something(value: bytes) -> None:
    assert publishes(value)


@pytest.mark.parametrize(
    ("hostlist", "nodes"),
    [
        ("login1", ["login1"]),
        ("n[001-003,7],gpu2", ["n001", "n002", "n003", "n7", "gpu2"]),
        ("r[1-2]n[0-1]", ["r1n0", "r1n1", "r2n0", "r2n1"]),
    ],
)
def test_host_lists_expand_as_slurm_writes_them(hostlist: str, nodes: list[str]) -> None:
    assert expand(hostlist) == nodes


@pytest.mark.parametrize(
    "hostlist",
    [
        *("", "n[", "n]", "n[a-b]", "a,,b", "n[]", ",n[1-2", "n[5-3]"),
        *("n[1-999999999]", "n[1-9999]m[1-9999]"),
        pytest.param(f"n[{'0-99999,' * 100_000}7]", id="many ranges"),
        pytest.param("[0-99999]" * 100_000, id="many brackets"),
    ],
)
def test_a_host_list_that_is_broken_or_endless_is_refused(hostlist: str) -> None:
    with pytest.raises(RejectedError, match="nodes"):
        expand(hostlist)


@given(st.text(alphabet="n[]-,0123456789", max_size=30))
def test_any_host_list_is_expanded_or_refused(hostlist: str) -> None:
    try:
        nodes = expand(hostlist)
    except RejectedError as error:
        nodes = [error.field]
    assert 1 <= len(nodes) <= 100_000


def test_the_plugins_own_example_is_understood(data_dir: Path) -> None:
    path = data_dir / "slurm" / "jobcomp_kafka_example.json"
    submitted, finished = facts(orjson.loads(path.read_bytes()))
    assert submitted.job_id == "north/c1/4242/1777888680"
    assert (submitted.nodes, submitted.cores_per_unit) == (4, 48)
    assert submitted.memory_gib_per_unit == 187.5
    assert (finished.cores_per_node, finished.cores) == (48, 192)
