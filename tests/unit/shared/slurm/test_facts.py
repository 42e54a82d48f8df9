"""What describes a job is cleaned, cut or left out, and never costs a start or an end."""

from collections.abc import Mapping
from typing import Any, Final

import orjson
import pytest
from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_CANCELLED,
    JOB_OUTCOME_COMPLETED,
    JOB_OUTCOME_FAILED,
    JOB_OUTCOME_TIMED_OUT,
    JobFinished,
    JobStarted,
    JobSubmitted,
)
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from services.ingest.model import Intake
from shared.catalogue.codec import Codec
from shared.catalogue.payloads.domain_types import millicores_of, run_us
from shared.catalogue.topics import Topics
from shared.slurm.facts import Site, envelopes
from shared.slurm.message import Message

TOPICS = Topics()
NOW_S: Final = 1_795_700_000.0
SITE: Final = Site("north", "none", "m0")
# As jobcomp/kafka of Slurm 24.11 has it, as far as it is read.
ENDED: Final[Mapping[str, Any]] = {
    "jobid": 46,
    "username": "user1",
    "user_id": 2001,
    "@start": "2026-11-26T19:25:31",
    "@end": "2026-11-26T19:25:45",
    "elapsed": 14,
    "partition": "big",
    "nodes": "b[1-2]",
    "total_cpus": 4,
    "total_nodes": 2,
    "state": "COMPLETED",
    "failed_node": None,
    "het_job_id": 0,
    "het_job_offset": 0,
    "@submit": "2026-11-26T19:25:21",
    "cluster": "alpha",
    "qos": "normal",
    "time_limit": 540,
    "job_name": "lu.C",
    "tres_req": "cpu=4,mem=200M,node=2,billing=4",
    "tres_alloc": "cpu=4,mem=200M,node=2,billing=4",
    "account": "account1",
    "script": "#!/bin/sh\nsleep 20\n",
}
STARTED: Final = {**ENDED, "state": None, "@end": None}
NEVER_RAN: Final = {
    "nodes": None,
    "total_cpus": 0,
    "total_nodes": 0,
    "tres_alloc": None,
    "state": "CANCELLED",
    "elapsed": 0,
    "@start": "2026-11-26T19:25:45",
}


def read(value: bytes, site: Site = SITE) -> tuple[list[Any], set[str]]:
    """What ingest takes of a record, and of which fields something was left out."""
    message = Message.parse(value, 1_048_576)
    intake = Intake(TOPICS, ahead_us=86_400_000_000)
    told = envelopes(message, site, intake.latest_us(NOW_S))
    found = [intake.accept(each, NOW_S) for each in told]
    for publish in found:
        Codec(TOPICS).encode(publish)
    return [each.event.payload for each in found], message.repaired


def end(site: Site = SITE, **changes: Any) -> tuple[JobSubmitted, JobFinished, set[str]]:
    (submitted, finished), repaired = read(orjson.dumps({**ENDED, **changes}), site)
    assert isinstance(finished, JobFinished)
    return submitted, finished, repaired


def core_s(finished: JobFinished) -> float:
    return millicores_of(finished) / 1000 * run_us(finished) / 1e6


@pytest.mark.parametrize(
    ("field", "value", "app_id"),
    [
        ("job_name", "a\tb", "a_b"),
        ("job_name", "a\nb", "a_b"),
        ("job_name", "a\u00a0b", "a_b"),
        ("job_name", "a\u200bb", "a_b"),
        ("job_name", "\x1b[31mred", "_[31mred"),
        ("job_name", "x" * 300, "x" * 256),
        ("job_name", "", ""),
        ("job_name", 7, ""),
        ("comment", "hello\napp_id=y\u200b", "y_"),
        ("comment", "app_id=" + "y" * 300, "y" * 256),
        ("comment", ["app_id=lu"], "lu.C"),
    ],
)
def test_a_name_that_cannot_be_an_applications_is_made_one(
    field: str, value: Any, app_id: str
) -> None:
    submitted, finished, repaired = end(**{field: value})
    assert submitted.app_id == finished.app_id == app_id
    assert repaired == (set() if value == "" else {field})
    assert core_s(finished) == 56
    (_, started), _ = read(orjson.dumps({**STARTED, field: value}))
    assert isinstance(started, JobStarted)


@pytest.mark.parametrize(
    ("changes", "repaired"),
    [
        ({"qos": "q" * 300}, {"qos"}),
        ({"partition": ",".join(f"part{n}" for n in range(100))}, {"partition"}),
        ({"account": "a\tb"}, {"account"}),
        ({"username": None}, {"username"}),
        ({"username": None, "user_id": None}, {"username"}),
        ({"time_limit": 400 * 86_400}, {"time_limit"}),
        ({"time_limit": -1}, {"time_limit"}),
        ({"tres_req": "cpu=4,mem=9999P,node=2"}, {"memory_gib_per_unit"}),
        ({"tres_alloc": "cpu=4,mem=9999P,node=2"}, {"memory_gib"}),
        ({"tres_req": "cpu=99999999999,node=2"}, {"tres_req"}),
        ({"tres_req": "cpu=4,node=99999999999"}, {"tres_req"}),
        ({"tres_req": "cpu=1.5,node=2"}, {"tres_req"}),
        ({"tres_req": "cpu=4,node=2,"}, {"tres_req"}),
        ({"tres_alloc": "cpu"}, {"tres_alloc"}),
        ({"tres_alloc": 7}, {"tres_alloc"}),
        ({"tres_alloc": "gres/gpu=0.5"}, {"tres_alloc"}),
        ({"tres_alloc": "cpu=4,cpu=5"}, {"tres_alloc"}),
        ({"tres_alloc": "gres/\u200bx=1"}, {"tres_alloc"}),
        ({"total_nodes": 2**32 - 3}, {"total_nodes"}),
        ({"total_cpus": 2**32 - 3}, {"total_cpus"}),
        ({"total_cpus": "many"}, {"total_cpus"}),
        ({"state": "NODE_FAIL", "nodes": "b[1-", "failed_node": None}, {"nodes"}),
        ({"@start": "2026-11-26T19:25:20", "@end": "2026-11-26T19:25:34"}, {"@submit"}),
        ({"@submit": "2026-11-26T19:25:32"}, {"@submit"}),
        ({"@end": None}, {"@end"}),
        ({"@end": "2099-11-26T19:25:45"}, {"@end"}),
        ({"@start": "never"}, {"@start"}),
        ({"@start": "2026-11-26T20:25:31"}, {"@start"}),
        ({"@start": "2001-11-26T20:25:31"}, {"@start"}),
    ],
)
def test_a_part_that_cannot_be_is_left_out_and_the_run_is_as_long_as_it_was(
    changes: dict[str, Any], repaired: set[str]
) -> None:
    _, finished, found = end(**changes)
    assert found == repaired
    assert core_s(finished) == 56


def test_an_end_without_any_time_frees_the_nodes() -> None:
    no_time: dict[str, Any] = {"@start": None, "@end": "?", "elapsed": None}
    _, finished, repaired = end(**no_time)
    assert (finished.nodes, finished.started_at_us, repaired) == (2, 0, {"@end"})
    early: dict[str, Any] = {"@end": "2026-11-26T19:25:30", "elapsed": None}
    _, finished, repaired = end(**early)
    assert (core_s(finished), repaired) == (0, {"@start"})


@pytest.mark.parametrize(
    "held",
    [
        "gres/tmpsize=10737418240",
        "gres/scratch=200G",
        "gres/bandwidth:lustre=4G",
        "license/matlab@srv=99999999999",
    ],
)
def test_bytes_are_no_count_of_a_thing(held: str) -> None:
    tres = f"cpu=4,node=2,gres/gpu=2,{held}"
    submitted, finished, repaired = end(tres_req=tres, tres_alloc=tres)
    assert dict(submitted.resources_per_unit) == {"gpu": 1}
    assert dict(finished.resources) == {"gpu": 2}
    assert repaired == {"tres_req", "tres_alloc"}


def test_what_no_node_has_so_many_of_is_not_asked_of_nodes_and_was_held() -> None:
    submitted, finished, repaired = end(tres_req="cpu=4,node=2,gres/vram=40960")
    assert (dict(submitted.resources_per_unit), repaired) == ({}, {"tres_req"})
    _, finished, repaired = end(tres_alloc="cpu=4,node=2,gres/vram=40960")
    assert (dict(finished.resources), repaired) == ({"vram": 40_960}, set())


def test_of_many_kinds_accelerators_are_kept() -> None:
    tres = "cpu=4,node=2," + ",".join(f"gres/g{n}=2" for n in range(200)) + ",gres/gpu:a100=2"
    submitted, finished, repaired = end(tres_req=tres, tres_alloc=tres)
    assert (len(submitted.resources_per_unit), submitted.resources_per_unit["gpu:a100"]) == (16, 1)
    assert (len(finished.resources), finished.resources["gpu:a100"]) == (16, 2)
    assert repaired == {"tres_req", "tres_alloc"}


@pytest.mark.parametrize("place", ["script", "job_name", "comment"])
def test_bytes_that_are_not_utf_8_lose_nothing_that_is_read(place: str) -> None:
    value = orjson.dumps({**ENDED, place: "caf@"}).replace(b"caf@", b"caf\xe9\x01\n")
    (_, finished), _ = read(value)
    assert core_s(finished) == 56
    assert finished.app_id == ("caf\ufffd__" if place == "job_name" else "lu.C")
    half = orjson.dumps({**ENDED, place: "caf@"}).replace(b"caf@", rb"caf\ud83d")
    (_, finished), _ = read(half)
    assert core_s(finished) == 56


@pytest.mark.parametrize(
    ("state", "outcome"),
    [("CANCELLED by 1001", JOB_OUTCOME_CANCELLED), ("DEADLINE", JOB_OUTCOME_TIMED_OUT)],
)
def test_a_job_that_never_left_the_queue_is_over_and_never_started(
    state: str, outcome: int
) -> None:
    for nodes in (None, "", "(null)"):
        changes: dict[str, Any] = {**NEVER_RAN, "state": state, "nodes": nodes}
        _, finished, repaired = end(**changes)
        assert (finished.outcome, finished.started_at_us) == (outcome, 0)
        assert (finished.nodes, finished.cores, repaired) == (2, 4, set())


def test_a_run_that_was_requeued_is_over_and_was_14_s_long() -> None:
    _, finished, repaired = end(state="PENDING")
    assert (finished.outcome, core_s(finished), repaired) == (JOB_OUTCOME_CANCELLED, 56, set())
    (submitted,), _ = read(orjson.dumps({**ENDED, **NEVER_RAN, "state": "PENDING", "@end": None}))
    assert isinstance(submitted, JobSubmitted)


def test_a_state_that_nobody_knows_ends_a_run() -> None:
    for state in ("SOMEWHAT", " ", 7):
        _, finished, repaired = end(state=state)
        assert (finished.outcome, core_s(finished)) == (JOB_OUTCOME_FAILED, 56)
        assert repaired == {"state"}


def test_nodes_that_failed_are_named_of_several_nodes_too() -> None:
    for failed, nodes in (("b2", "b[1-2]"), (None, "b2"), ("", "b2")):
        _, finished, _ = end(state="NODE_FAIL", failed_node=failed, nodes=nodes)
        assert list(finished.failed_nodes) == ["b2"]


def test_an_end_says_on_which_nodes_and_how() -> None:
    _, finished, _ = end(state="FAILED", exit_code="3:0", nodes="b1,b2")
    assert (list(finished.node_names), finished.ended_as) == (["b[1-2]"], "FAILED")
    assert (finished.exit_code, finished.signal) == (3, 0)
    _, finished, _ = end(state="FAILED", exit_code="0:9")
    assert (finished.exit_code, finished.signal) == (0, 9)
    for state, shown in (("OUT_OF_MEMORY", "OUT_OF_MEMORY"), ("PENDING", "REQUEUED")):
        _, finished, _ = end(state=state, exit_code="0:125")
        assert (finished.ended_as, finished.exit_code, finished.signal) == (shown, 0, 0)
    _, finished, repaired = end(state="FAILED", exit_code="0:9", nodes="b[1-")
    assert (list(finished.node_names), repaired) == ([], {"nodes"})


def test_a_task_has_the_number_of_its_array() -> None:
    (submitted, *_), _ = read(orjson.dumps({**ENDED, "array_job_id": 40, "array_task_id": 3}))
    assert submitted.sequence == "40_3"


def test_a_slurm_without_an_accounting_database_has_the_cluster_of_the_setting() -> None:
    site = Site("north", "none", "m0", "eps")
    _, finished, repaired = end(site, cluster=None)
    assert (finished.cluster, finished.outcome, repaired) == ("eps", JOB_OUTCOME_COMPLETED, set())
    assert end(site)[1].cluster == "alpha"


RESIZED: Final[Mapping[str, Any]] = {"@eligible": "2026-11-26T19:25:21", "@queue_wait": 10}


def test_a_run_that_gave_nodes_up_is_charged_in_parts_each_with_its_own_nodes() -> None:
    change = "2026-11-26T19:25:40"
    first = {**RESIZED, "state": "RESIZING", "@start": change, "@end": change, "elapsed": 540}
    last = {**RESIZED, "@start": change, "total_cpus": 1, "total_nodes": 1, "nodes": "b1"}
    (before, gave_up, _), (after, kept, _) = end(**first), end(**last)
    assert (millicores_of(gave_up), run_us(gave_up), gave_up.nodes) == (4_000, 9_000_000, 2)
    assert (millicores_of(kept), run_us(kept), kept.nodes) == (1_000, 5_000_000, 1)
    assert before.job_id != after.job_id
    assert after.submitted_at_us == gave_up.ended_at_us


@pytest.mark.parametrize("unknown", [{"tres_req_raw": "1=4,3=18446744073709551614,4=2"}, {}])
def test_a_part_whose_begin_its_record_does_not_have_is_left_to_the_accounts(
    unknown: Mapping[str, Any],
) -> None:
    change: Mapping[str, Any] = {"state": "RESIZING", "@start": ENDED["@end"], **unknown}
    with pytest.raises(RejectedError, match="catch-up"):
        end(**({**RESIZED, **change} if unknown else change))


@pytest.mark.parametrize("odd", [{"elapsed": 99}, {"@queue_wait": 11}, {"@queue_wait": None}])
def test_a_start_after_the_waiting_time_alone_is_no_resize(odd: dict[str, Any]) -> None:
    submitted, _, _ = end(**{**RESIZED, "@start": "2026-11-26T19:25:33", **odd})
    assert submitted.job_id.endswith("/1795721121")


def test_the_line_of_a_script_that_asks_for_a_comment_names_the_application() -> None:
    script = "#!/bin/sh\n#SBATCH -N 2 --comment=app_id=hpcg,x\nsrun ./hpcg --comment=app_id=no\n"
    submitted, finished, _ = end(script=script)
    assert submitted.app_id == finished.app_id == "hpcg"
    assert end(script="#!/bin/sh\nrun --comment=app_id=no\n")[1].app_id == "lu.C"


@given(st.dictionaries(st.sampled_from(["job_name", "comment", "script", "account"]), st.binary()))
def test_no_bytes_of_a_user_cost_a_charge(written: dict[str, bytes]) -> None:
    """Slurm escapes what JSON must have escaped, and writes all other bytes as they are."""
    fields = [
        b'"%s":"%s"' % (name.encode(), value.replace(b"\\", rb"\\").replace(b'"', rb"\""))
        for name, value in written.items()
    ]
    rest = {name: value for name, value in ENDED.items() if name not in written}
    record = b"{" + b",".join([orjson.dumps(rest)[1:-1], *fields]) + b"}"
    (_, finished), _ = read(record)
    assert (millicores_of(finished), run_us(finished)) == (4_000, 14_000_000)
