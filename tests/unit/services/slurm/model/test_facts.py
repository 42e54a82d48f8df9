"""Slurm's jobs and nodes become facts for Coplace."""

from collections.abc import Mapping
from typing import Any

import pytest
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import JOB_OUTCOME_CANCELLED, JOB_OUTCOME_COMPLETED
from hypothesis import given
from hypothesis import strategies as st

from services.ingest.model import Intake
from services.slurm.model.clusters import (
    NodeHardware,
    UnlikeNodesError,
    declared_cluster,
    uncounted_resources,
)
from services.slurm.model.facts import SlurmTerms, facts_of
from services.slurm.model.jobs import SlurmJob
from services.slurm.model.select_rules import SelectRules
from shared.catalogue.contents.check import check_contents
from shared.catalogue.payloads.domain_types import cluster_of, run_us
from shared.catalogue.topics import Topics
from shared.domain.cluster import Cluster
from shared.slurm.answers import number
from shared.slurm.grant_answer import GrantAnswer
from shared.streams.state.rows import rows_of
from tests.unit.services.slurm.fields import JOB, NODE, RUNS, SUBMIT_S
from tests.unit.services.slurm.region import SITE, TERMS

HARDWARE = NodeHardware("gold-6254", [1.2, 3.1], 110.0, 140.0)
ID = f"north/alpha/17/{SUBMIT_S}"


def job(**changes: Any) -> SlurmJob:
    return SlurmJob({**JOB, **changes})


def told(of: SlurmJob) -> list[Any]:
    """The payloads, all of which ingest takes."""
    intake, now_s = Intake(Topics()), SUBMIT_S + 3600.0
    found = [intake.accept(envelope, now_s) for envelope in facts_of(of, TERMS).told]
    return [each.event.payload for each in found]


def test_a_job_that_waits_is_submitted_and_stays_on_its_cluster() -> None:
    [submitted] = told(job())
    assert (submitted.job_id, submitted.user, submitted.account) == (ID, "ada", "none")
    assert (submitted.app_id, submitted.nodes, submitted.walltime_s) == ("lu.C", 1, 300)
    assert list(submitted.architectures) == ["alpha"]


def test_a_job_that_runs_shows_the_grant_and_the_clock_of_its_start() -> None:
    _, started = told(job(**RUNS))
    assert (list(started.nodes), started.grant, started.freq_ghz) == (["n2"], 2, 2.1)
    assert started.started_at_us == (SUBMIT_S + 2) * 1_000_000


@pytest.mark.parametrize("state", ["CONFIGURING", ["RUNNING", "CONFIGURING", "POWER_UP_NODE"]])
def test_a_job_whose_nodes_boot_has_not_started(state: Any) -> None:
    """Slurm counts its start anew when they have booted."""
    boots = job(**{**RUNS, "job_state": state})
    assert [each.job_id for each in told(boots)] == [ID]
    assert boots.has_nodes


def test_a_job_that_ended_shows_what_its_price_needs() -> None:
    _, finished = told(job(**RUNS | {"job_state": "COMPLETED", "end_time": SUBMIT_S + 62}))
    assert (finished.outcome, finished.grant) == (JOB_OUTCOME_COMPLETED, 2)
    assert (finished.nodes, finished.cores, finished.node_model) == (1, 2, "gold-6254")
    assert finished.ended_at_us - finished.started_at_us == 60_000_000


def test_an_end_has_for_how_long_its_run_was_suspended() -> None:
    began_us = (SUBMIT_S + 2) * 1_000_000
    ended = {"job_state": "COMPLETED", "end_time": SUBMIT_S + 62}
    off_on = {"pre_sus_time": {"set": True, "number": 10}, "suspend_time": SUBMIT_S + 32}
    _, finished = told(job(**RUNS | ended | off_on))
    assert [(each.began_at_us - began_us, each.freq_ghz) for each in finished.intervals] == [
        (0, 0),
        (20_000_000, 2.1),
    ]
    _, finished = told(job(**RUNS | ended | off_on | {"admin_comment": ""}))
    assert (run_us(finished), finished.freq_ghz) == (40_000_000, 0)
    unlike = (
        {"pre_sus_time": None, "suspend_time": 0},
        {"pre_sus_time": 99},
        {"suspend_time": SUBMIT_S + 63},
        {"suspend_time": 1},
    )
    for each in unlike:
        _, finished = told(job(**RUNS | ended | off_on | each))
        assert not finished.intervals, each


def test_a_job_that_was_cancelled_in_the_queue_never_started() -> None:
    times = {"start_time": SUBMIT_S + 9, "end_time": SUBMIT_S + 9}
    _, finished = told(job(job_state="CANCELLED", cpus=None, **times))
    assert (finished.outcome, finished.started_at_us) == (JOB_OUTCOME_CANCELLED, 0)


def test_later_versions_wrap_numbers_and_list_states() -> None:
    wrapped = {"set": True, "infinite": False, "number": 5}
    later = job(job_state=["PENDING"], time_limit=wrapped, submit_time=wrapped | {"number": 7})
    assert (later.is_pending, later.message().number("time_limit")) == (True, 300)
    assert number({"set": False, "infinite": False, "number": 0}) is None
    assert number({"set": True, "infinite": True, "number": 0}) is None


@pytest.mark.parametrize(
    ("changes", "is_placed"),
    [
        ({}, True),
        ({"array_task_string": "1-2", "array_job_id": 17}, True),
        ({"het_job_id": 17}, False),
        ({"array_task_id": 1, "array_job_id": 17, **RUNS}, True),
    ],
)
def test_a_part_of_a_heterogeneous_job_is_no_job_before_it_runs(
    changes: dict[str, Any], is_placed: bool
) -> None:
    assert job(**changes).is_placed == is_placed


def test_an_array_that_waits_is_one_submission() -> None:
    waits = job(array_job_id=17, array_task_string="0-9:3,20%4", array_max_tasks=4)
    [submitted] = told(waits)
    assert (submitted.job_id, submitted.array) == (f"north/alpha/17/{SUBMIT_S}", "0-9:3,20")
    assert submitted.array_at_most == 4
    task = waits.task(3)
    assert (task.name_in_slurm, task.is_array, task.is_task) == ("17_3", False, True)
    assert told(task)[0].job_id == f"north/alpha/17/{SUBMIT_S}_3"


def test_an_array_whose_tasks_slurm_cuts_off_is_held_with_the_reason() -> None:
    [submitted] = told(job(array_job_id=17, array_task_string="1,3,5,..."))
    assert submitted.held_because.startswith("Coplace can't follow it: array")


@pytest.mark.parametrize(
    ("said", "expected"), [({}, True), ({"shared": "none"}, False), ({"shared": ["none"]}, False)]
)
def test_a_job_shares_its_nodes_unless_it_asks_to_be_alone(
    said: dict[str, Any], expected: bool
) -> None:
    config = {"SelectType": "select/cons_tres", "SelectTypeParameters": "CR_CORE"}
    shares = SlurmTerms(SITE, "alpha", select=SelectRules.of_config(config))
    [found] = facts_of(job(**said), shares).told
    assert found.job_submitted.shareable is expected
    whole = SlurmTerms(SITE, "alpha", select=SelectRules.of_config({"SelectType": "select/linear"}))
    assert not facts_of(job(**said), whole).told[0].job_submitted.shareable


def test_memory_that_slurm_gives_nobody_is_not_asked_for_unless_its_user_did() -> None:
    config = {"SelectType": "select/cons_tres", "SelectTypeParameters": "CR_CORE"}
    terms = SlurmTerms(SITE, "alpha", select=SelectRules.of_config(config))
    asked = [
        facts_of(job(memory_per_node=asked), terms).told[0].job_submitted.memory_gib_per_unit
        for asked in (0, 1024)
    ]
    assert asked == [0.0, 1.0]


@given(
    st.integers(1, 2**53),
    st.booleans(),
    st.floats(0.1, 10).map(lambda ghz: round(ghz, 2)),
    st.integers(0, 2**33),
    st.text("a7 \t\n=,/-é١\u200b"),
)
def test_a_word_is_read_as_it_was_written(
    grant: int, is_started: bool, freq_ghz: float, submit_s: int, beside: str
) -> None:
    word = GrantAnswer(grant, is_started, freq_ghz if is_started else 0.0, submit_s)
    word = word._replace(limit="UNLIMITED" if grant % 2 else "7", requeue=str(grant % 2))
    assert GrantAnswer.parse(f"{word}") == GrantAnswer.parse(f"{word} {beside}") == word
    assert GrantAnswer.parse("ask ada") == GrantAnswer()


def test_a_word_that_was_written_before_a_requeue_is_about_another_job() -> None:
    word = GrantAnswer(2, is_started=True, freq_ghz=2.1, submit_s=SUBMIT_S)
    assert job(admin_comment=str(word)).word == word._replace(submit_s=0)
    assert job(admin_comment=str(word), submit_time=SUBMIT_S + 9).word == GrantAnswer()


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "a\tb\n", "comment": {"set": False}},
        {"name": None, "account": 7, "user_name": None},
        {"cpus": "many", "node_count": -1, "time_limit": 1e300},
        {"end_time": 2**62, "tres_alloc_str": None},
        {"tres_req_str": "cpu=1,mem=1G,node=1,gres/scratch=100G", "admin_comment": ["x"]},
    ],
)
def test_whatever_describes_a_job_its_start_is_told(changes: dict[str, Any]) -> None:
    assert len(told(job(**changes))) == 1
    assert len(told(job(**{**RUNS, **changes}))) == 2


def test_what_is_not_declared_of_nodes_is_not_asked_of_them() -> None:
    nodes = [{**NODE, "tres": "cpu=36,gres/gpu=2,gres/tmp=1T,gres/x=1.5"}]
    uncounted = uncounted_resources(nodes)
    assert uncounted == {"tmp", "x"}
    assert [dict(each.resources) for each in of_nodes(*nodes).node_classes] == [{"gpu": 2}]
    asking = job(tres_req_str="cpu=1,node=1,gres/tmp=5000,gres/gpu=1")
    found = facts_of(asking, SlurmTerms(SITE, "alpha", uncounted))
    assert dict(found.told[0].job_submitted.resources_per_unit) == {"gpu": 1}
    assert found.repaired == {"tres_req"}


def test_a_node_without_a_name_or_cores_keeps_no_other_from_being_declared() -> None:
    broken: list[Any] = [{}, {"name": 7}, {"name": "n["}, {**NODE, "name": ""}]
    broken += [{**NODE, "cpus": cpus} for cpus in (0, None, "36", 2**40, [36])]
    assert of_nodes(NODE, *broken).nodes == 1


def of_nodes(*nodes: Mapping[str, Any], hardware: NodeHardware = HARDWARE) -> ClusterDeclared:
    """As ingest takes it."""
    found = declared_cluster(nodes, "alpha", "north", "alpha", hardware)
    check_contents(found)
    return found


def test_a_cluster_is_declared_as_slurm_has_it() -> None:
    gpus = {"tres": "cpu=36,mem=384G,billing=36,gres/gpu=2", "real_memory": 393_216}
    nodes = [*({**NODE, "name": f"n{n}"} for n in (1, 2)), {**NODE, **gpus, "name": "g1"}]
    found = of_nodes(*nodes)
    assert list(found.node_names) == ["n[1-2]", "g1"]
    shown = [(each.nodes, each.memory_gib, dict(each.resources)) for each in found.node_classes]
    assert shown == [(2, 192, {}), (1, 384, {"gpu": 2})]
    assert (found.nodes, found.cores_per_node) == (3, 36)
    [untold] = of_nodes({**NODE, "real_memory": 1}).node_classes
    assert untold.memory_gib == 0, "memory that Slurm does not know is unknown"


def test_nodes_of_several_models_are_no_cluster() -> None:
    with pytest.raises(UnlikeNodesError, match="alpha has nodes of 18, 36 cores"):
        of_nodes(NODE, {**NODE, "cpus": 18})
    with pytest.raises(UnlikeNodesError, match="no node"):
        of_nodes()


def test_what_nodes_and_accelerators_draw_at_most_is_declared_where_it_is_known() -> None:
    assert of_nodes(NODE).nameplate_power_w == 0
    gpus = {"tres": "cpu=36,mem=384G,billing=36,gres/gpu=2,gres/gpu:a100=2"}
    nodes = [{**NODE, "name": "n1"}, {**NODE, **gpus, "name": "g1"}]
    tdp_w = {"gpu:a100": 400.0, "mic": 300.0}
    found = of_nodes(*nodes, hardware=HARDWARE._replace(nameplate_power_w=700.0, tdp_w=tdp_w))
    of_processors = HARDWARE._replace(processors_tdp_w=300.0, tdp_w=tdp_w)
    derived_w = 110.0 + 300.0 + 2 * 400.0
    assert cluster_of(of_nodes(*nodes, hardware=of_processors)).most_node_w == derived_w
    assert [dict(each.tdp_w) for each in found.node_classes] == [{}, {"gpu:a100": 400.0}]
    cluster = cluster_of(found)
    assert cluster.nameplate_power_w == 700.0
    assert rows_of(Cluster).decode(rows_of(Cluster).encode(cluster)) == cluster
