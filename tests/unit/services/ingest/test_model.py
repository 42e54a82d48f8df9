"""What ingest takes and what it refuses, naming the field."""

import re
from contextlib import suppress

import pytest
from coplace.v1.authority_pb2 import AuthorityDeclared
from coplace.v1.ingest_service_pb2 import Envelope, PublishRequest
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from services.ingest.model import Intake, check_source, parse_envelope
from shared.catalogue.codec import Codec
from shared.catalogue.options import owners
from shared.catalogue.topics import Topics
from shared.streams.stages.unit import EventTimeLimit
from tests.unit.services.ingest.envelopes import (
    JOB,
    NOW_S,
    NOW_US,
    PAYLOADS,
    broken,
    envelope,
)

TOPICS = Topics(kafka_partitions=4)
INTAKE = Intake(TOPICS)
DAY_US = 86_400_000_000
JOB_ID = str(JOB["jobId"])
AFTER = {"jobId": "north/alpha/4710/1767225500", "condition": "DEPENDENCY_CONDITION_AFTER_ANY"}
YEAR_2099_US = 4_070_908_800_000_000
MANY_KINDS = {f"kind{number}": 1 for number in range(17)}


KINDS_OF_TOPICS = {
    "jobs.events": "jobSubmitted jobStarted jobFinished jobRequeued jobDeclined jobSeized"
    " jobCancelled jobHeld jobReleased",
    "telemetry.signatures": "signatureMeasured",
    "telemetry.nodes": "nodeSamples",
    "telemetry.shutters": "shuttersMeasured",
    "commands": "clusterDeclared clusterLost clusterReturned limitsDeclared powerCapDeclared",
}
KEYS = {
    "signatureMeasured": "hpcg|m0",
    "nodeSamples": "n1",
    "clusterDeclared": "alpha",
    "clusterLost": "alpha",
    "clusterReturned": "alpha",
    "limitsDeclared": "ada",
    "powerCapDeclared": "alpha",
}


@pytest.mark.parametrize(
    ("kind", "topic"),
    [(kind, topic) for topic, kinds in KINDS_OF_TOPICS.items() for kind in kinds.split()],
)
def test_each_kind_goes_to_its_topic_under_its_key_in_a_record_that_its_readers_accept(
    kind: str, topic: str
) -> None:
    accepted = INTAKE.accept(envelope(kind), NOW_S)
    assert (accepted.topic, accepted.event.key) == (topic, KEYS.get(kind, JOB_ID))
    assert Codec(TOPICS).encode(accepted).partition.topic == topic


@pytest.mark.parametrize("job_id", ["4711", "north/alpha", "a//b/", "Jöb 7", "x" * 256])
def test_a_job_id_of_another_form_is_taken_as_it_is(job_id: str) -> None:
    accepted = INTAKE.accept(envelope("jobSubmitted", jobId=job_id), NOW_S)
    assert accepted.event.key == job_id
    assert Codec(TOPICS).encode(accepted).key == job_id.encode()


# What a field of a kind refuses under its own name.
REFUSED: dict[str, dict[str, list[object]]] = {
    "jobSubmitted": {
        "jobId": [""],
        "nodes": [0],
        "walltimeS": [-1, "NaN", "Infinity", 1e12],
        "user": ["a\x00b"],
        "account": ["x" * 257],
        "submittedAtUs": [-5, YEAR_2099_US],
        "priority": [101],
        "memoryGib": [-1],
        "dependsOn": [[AFTER | {"jobId": JOB_ID}], [AFTER] * 65],
        "coresPerUnit": [10_001],
        "unitsPerNode": [10_001],
        "memoryGibPerUnit": [64],
        "resourcesPerUnit": [{"": 1}, {"g\n": 1}, MANY_KINDS],
    },
    "jobStarted": {"nodes": [[]], "nodeUnits": [[2], [1] * 100_001]},
    "jobFinished": {
        "outcome": ["JOB_OUTCOME_UNSPECIFIED", 99],
        "cores": [193, 2**32 - 1],
        "resources": [MANY_KINDS, {"": 1}],
        "endedAtUs": [NOW_US - 1],
        "energyJ": [-0.5],
    },
    "jobCancelled": {"cancelledAtUs": [0]},
    "jobHeld": {"jobId": [""]},
    "jobDeclined": {"grant": [0], "declinedAtUs": [-1]},
    "jobSeized": {"reason": [""], "attempt": [0]},
    "signatureMeasured": {"cpi": [0], "powerW": [1e300]},
    "nodeSamples": {"samples": [[]]},
    "shuttersMeasured": {"endedAtUs": [NOW_US - 1]},
    "clusterDeclared": {
        "pstatesGhz": [[2.4, 1.2]],
        "nodeNames": [["n[1-3]"]],
        "memoryGibPerNode": [-1],
        "nodeClasses": [[{"nodes": 511}], [{"nodes": 512}, {"nodes": 1}], [{"nodes": 1}] * 65],
    },
    "clusterLost": {"cluster": [""]},
    "limitsDeclared": {"subject": ["LIMIT_SUBJECT_UNSPECIFIED"]},
    "powerCapDeclared": {
        "scope": [0],
        "name": [""],
        "steps": [
            [],
            [{"fromUs": NOW_US}] * 1001,
            [{"fromUs": NOW_US - 2, "watts": 1}, {"fromUs": NOW_US - 1}],
        ],
    },
}
# What is refused under another name, or under that of a part.
REFUSED_ELSEWHERE: list[tuple[str, str, dict[str, object]]] = [
    ("architectures[0]", "jobSubmitted", {"architectures": [""]}),
    ("depends_on[0].condition", "jobSubmitted", {"dependsOn": [{"jobId": AFTER["jobId"]}]}),
    ("units_per_node", "jobSubmitted", {"coresPerUnit": 0}),
    ("memory_gib_per_unit", "jobSubmitted", {"memoryGib": 0, "memoryGibPerUnit": 1e7}),
    ("name", "powerCapDeclared", {"scope": 3}),
    ("steps[0].watts", "powerCapDeclared", {"steps": [{"fromUs": NOW_US, "watts": 0}]}),
    ("steps[0].watts", "powerCapDeclared", {"steps": [{"fromUs": NOW_US, "watts": -90_000}]}),
    ("steps[1].from_us", "powerCapDeclared", {"steps": [{"fromUs": NOW_US, "watts": 1}] * 2}),
    ("nodes[1]", "jobStarted", {"nodes": ["n1", ""]}),
    ("node_units[1]", "jobStarted", {"nodeUnits": [1, 0]}),
    ("started_at_us", "jobFinished", {"submittedAtUs": NOW_US + 1}),
    ("samples[0].power_w", "nodeSamples", {"samples": [{"timeUs": NOW_US, "powerW": -1}]}),
    ("shutters[0].ipc_during", "shuttersMeasured", {"shutters": [{"ipcBefore": 1}]}),
    ("node_classes[0].nodes", "clusterDeclared", {"nodeClasses": [{}]}),
    (
        "node_classes[0].memory_gib",
        "clusterDeclared",
        {"nodeClasses": [{"nodes": 512, "memoryGib": -1}]},
    ),
    (
        "node_classes[0].millicores_per_node",
        "clusterDeclared",
        {"nodeClasses": [{"nodes": 512, "millicoresPerNode": 10_000_001}]},
    ),
]


def snake(name: str) -> str:
    return re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)


@pytest.mark.parametrize(
    ("field", "kind", "changes"),
    [
        *(
            (snake(name), kind, {name: value})
            for kind, fields in REFUSED.items()
            for name, values in fields.items()
            for value in values
        ),
        *REFUSED_ELSEWHERE,
    ],
)
def test_what_is_refused_names_the_field(field: str, kind: str, changes: dict[str, object]) -> None:
    with pytest.raises(RejectedError) as error:
        INTAKE.accept(envelope(kind, **changes), NOW_S)
    assert error.value.field == f"{snake(kind)}.{field}"


@pytest.mark.parametrize(
    ("kind", "changes", "refusal"),
    [
        (
            "clusterDeclared",
            {"pstatesGhz": [1200, 2400]},
            "cluster_declared.pstates_ghz[0]: must be from 0.1 to 10 GHz, got 1200.0: is that MHz?",
        ),
        ("jobStarted", {"freqGhz": 2.4e6}, "is that kHz?"),
        ("signatureMeasured", {"powerW": 0.3}, "is that kW?"),
        (
            "jobSubmitted",
            {"walltimeS": 1e9},
            "walltime_s: must be from 0.001 to 31,622,400 s",
        ),
        ("jobSubmitted", {"memoryGib": 1e15}, "job_submitted.memory_gib: must be"),
        ("clusterDeclared", {"memoryGibPerNode": 1e-9}, "memory_gib_per_node: must be"),
        (
            "clusterDeclared",
            {"nodeClasses": [{"nodes": 500}]},
            "cluster_declared.node_classes: must be 512 nodes, got 500",
        ),
        ("jobSubmitted", {"coresPerUnit": 0}, "needs cores_per_unit: whole nodes are one a node"),
        ("jobSubmitted", {"memoryGibPerUnit": 8}, "must not be set beside memory_gib"),
        ("jobFinished", {"cores": 193}, "must be at most 192 (nodes x cores_per_node), got 193"),
        ("jobFinished", {"cores": 2, "millicores": 250}, "must be 1, as 250 thousandths"),
        ("jobSubmitted", {"millicoresPerUnit": 250}, "must be 1, as 250 thousandths"),
        ("jobSubmitted", {"coresPerUnit": 1, "millicoresPerUnit": 10000001}, "millicores_per_unit"),
        ("jobFinished", {"nodes": 100_001}, "job_finished.nodes: must be from 1 to 100,000 nodes"),
        ("nodeSamples", {"samples": [{"timeUs": NOW_US}] * 3_601}, "must hold at most 3,600"),
    ],
)
def test_what_no_machine_has_is_refused_with_what_was_meant(
    kind: str, changes: dict[str, object], refusal: str
) -> None:
    with pytest.raises(RejectedError) as error:
        INTAKE.accept(envelope(kind, **changes), NOW_S)
    assert refusal in str(error.value)


@pytest.mark.parametrize(
    ("field", "attribute", "value"),
    [
        ("id", "id", ""),
        ("id", "id", "x" * 1025),
        ("source", "source", "nor\nth"),
        ("time_us", "time_us", 0),
        ("time_us", "time_us", YEAR_2099_US),
    ],
)
def test_bad_attributes_are_refused(field: str, attribute: str, value: object) -> None:
    bad = envelope("jobSubmitted")
    setattr(bad, attribute, value)
    with pytest.raises(RejectedError) as error:
        INTAKE.accept(bad, NOW_S)
    assert error.value.field == field


def test_an_envelope_without_a_payload_says_what_it_may_hold() -> None:
    empty = Envelope(id="x", source="north", time_us=NOW_US)
    with pytest.raises(RejectedError, match="payload: must be one of job_submitted"):
        INTAKE.accept(empty, NOW_S)


def test_a_site_of_a_hub_takes_no_table_of_authority() -> None:
    """It would hold at the site alone: the topic comes down from the hub."""
    table = Envelope(authority_declared=AuthorityDeclared())
    with pytest.raises(RejectedError, match="must be declared at the hub of the site north"):
        Intake(TOPICS, of_site="north").accept(table, NOW_S)
    Intake(TOPICS, of_site="north").accept(envelope("jobSubmitted"), NOW_S)


def test_facts_may_lie_ahead_of_the_clock_up_to_the_horizon() -> None:
    ahead = envelope("jobSubmitted", submittedAtUs=NOW_US + 2 * DAY_US)
    INTAKE.accept(ahead, NOW_S)
    with pytest.raises(RejectedError, match="horizon"):
        Intake(TOPICS, ahead_us=DAY_US).accept(ahead, NOW_S)


def test_a_begin_and_a_deadline_may_lie_a_year_ahead_of_the_clock_in_production() -> None:
    """They are planned: nobody says that they happened."""
    begin_us = NOW_US + 366 * DAY_US
    later = {"beginAtUs": begin_us, "deadlineAtUs": begin_us + DAY_US}
    intake = Intake(TOPICS, ahead_us=EventTimeLimit.from_wall_clock().ahead_us)
    intake.accept(envelope("jobSubmitted", **later), NOW_S)


def test_commands_lie_ahead_of_the_clock_by_its_tolerance_at_most() -> None:
    intake = Intake(TOPICS, ahead_us=DAY_US, command_ahead_us=10_000_000)
    for name in sorted(PAYLOADS):
        event = envelope(name)
        payload = getattr(event, str(event.WhichOneof("payload")))
        is_command = payload.DESCRIPTOR.full_name in owners()
        event.time_us = NOW_US + 10_000_000
        intake.accept(event, NOW_S)
        event.time_us += 1_000_000
        if is_command:
            with pytest.raises(
                RejectedError, match=r"11 s ahead .*may lie 10 s ahead: set the clo"
            ):
                intake.accept(event, NOW_S)
        else:
            intake.accept(event, NOW_S)


def test_a_message_beyond_the_limit_is_refused_and_one_at_the_limit_fits_a_record() -> None:
    samples = [{"timeUs": NOW_US, "powerW": 250}] * 500
    large = envelope("nodeSamples", samples=samples)
    needed = large.ByteSize() + 8_192
    accepted = Intake(TOPICS, max_message_bytes=needed).accept(large, NOW_S)
    record = Codec(TOPICS, needed).encode(accepted)
    size = len(record.value or b"") + sum(len(n) + len(v) for n, v in record.headers)
    assert size < needed
    with pytest.raises(RejectedError, match="event: has"):
        Intake(TOPICS, max_message_bytes=needed - 1).accept(large, NOW_S)


@given(broken())
def test_whatever_one_field_holds_it_is_refused_by_name_or_fits_its_topic(found: Envelope) -> None:
    kind = str(found.WhichOneof("payload"))
    try:
        accepted = INTAKE.accept(found, NOW_S)
    except RejectedError as error:
        refused = error
    else:
        Codec(TOPICS).encode(accepted)
        return
    assert refused.field.startswith(f"{kind}.")


@given(st.binary(max_size=400))
def test_bytes_that_are_no_request_are_refused(data: bytes) -> None:
    with suppress(RejectedError):
        assert isinstance(parse_envelope(PublishRequest, data), Envelope)


def test_a_string_that_is_not_utf_8_is_refused() -> None:
    request = PublishRequest(event=envelope("jobSubmitted")).SerializeToString()
    with pytest.raises(RejectedError, match="UTF-8"):
        parse_envelope(PublishRequest, request.replace(b"physics", b"phys\xff\xfes"))


def test_fields_of_a_later_version_are_carried_and_not_read() -> None:
    request = PublishRequest(event=envelope("jobRequeued"))
    later = request.event.job_requeued.SerializeToString() + b"\xfa\x07\x03new"
    request.event.job_requeued.ParseFromString(later)
    accepted = INTAKE.accept(parse_envelope(PublishRequest, request.SerializeToString()), NOW_S)
    assert accepted.event.payload.SerializeToString() == later


def test_a_message_of_little_else_than_unknown_fields_is_refused() -> None:
    found = envelope("jobRequeued")
    payload = found.job_requeued
    payload.ParseFromString(payload.SerializeToString() + b"\xf8\x3f\x01" * 6_000)
    with pytest.raises(RejectedError, match="does not know: fill 18000 bytes"):
        INTAKE.accept(found, NOW_S)


def test_a_callers_trace_is_continued_and_else_a_job_has_one_trace_of_its_own() -> None:
    given_trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    traced = envelope("jobSubmitted")
    traced.traceparent = given_trace
    assert INTAKE.accept(traced, NOW_S).event.traceparent == given_trace
    first = INTAKE.accept(envelope("jobSubmitted"), NOW_S).event.traceparent
    broken_trace = envelope("jobFinished")
    broken_trace.traceparent = "nonsense"
    assert first == INTAKE.accept(broken_trace, NOW_S).event.traceparent != ""
    assert INTAKE.accept(envelope("nodeSamples"), NOW_S).event.traceparent == ""


def test_who_speaks_must_be_the_source_or_above_it() -> None:
    found = envelope("jobSubmitted")
    check_source(found, "north")
    found.source = "north/alpha"
    check_source(found, "north")
    for speaker in ("south", "nort"):
        with pytest.raises(RejectedError, match="source"):
            check_source(found, speaker)
