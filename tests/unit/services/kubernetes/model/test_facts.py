"""A Job gives what Coplace has to know; one that cannot be understood names its field."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from coplace.v1.jobs_pb2 import JOB_OUTCOME_CANCELLED, JOB_OUTCOME_TIMED_OUT

from coplace_client.errors import RejectedError
from services.kubernetes.model import bodies
from services.kubernetes.model.bodies import starting
from services.kubernetes.model.facts import (
    assumptions,
    cancelled_end,
    finish,
    require_job_controller,
    require_unchanged,
    start,
    submission,
    submission_of,
)
from services.kubernetes.model.jobs import KubernetesJob, identified
from services.kubernetes.model.names import (
    APP,
    EXCLUSIVE,
    PRIORITY,
    WALLTIME_S,
)
from shared.catalogue.contents.check import check_contents
from shared.catalogue.payloads.domain_types import cluster_of, job_of
from shared.kubernetes.facts import RunEnd
from shared.kubernetes.nodes import cluster_declared
from shared.scheduling.problem import NodeTable, shape_on, units_in
from tests.support.kubernetes_api import merged
from tests.unit.services.kubernetes.objects import CREATED_US, JOB_ID, LIVE, TERMS, job, recorded
from tests.unit.shared.kubernetes.objects import NOW_US, TRAITS, node

CLAIM_OF_TWO = replace(LIVE, cluster="beta", walltime_s=61, nodes=("n[1-2]",), node_units=(3, 1))


_ONE_CLUSTER = replace(TERMS, node_models={"alpha": "gold-6254"})


def annotated(**annotations: str) -> dict[str, Any]:
    return {"metadata": {"annotations": annotations}}


def requests(**more: str) -> dict[str, Any]:
    asked = {"cpu": "1", **more}
    return {"spec": {"template": {"spec": {"containers": [{"resources": {"requests": asked}}]}}}}


def test_pods_are_units_with_their_cores_memory_and_gpus() -> None:
    gpu = {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"}
    container = {"name": "main", "resources": {"requests": gpu}}
    template = {"spec": {"containers": [container]}}
    found = submission_of(job(pods=4, template=template), TERMS)
    assert found.job_id == JOB_ID
    assert (found.nodes, found.cores_per_unit, found.memory_gib_per_unit) == (4, 2, 4.0)
    assert dict(found.resources_per_unit) == {"gpu": 1, "gpu:nvidia.com": 1, "pods": 1}
    assert (found.walltime_s, found.submitted_at_us) == (3600, CREATED_US)
    assert (found.app_id, found.user, found.account) == ("lu", "physics", "physics")
    assert list(found.architectures) == ["north/kubernetes"]
    assert found.shareable


def test_pods_of_a_quarter_of_a_core_hold_and_are_charged_a_quarter() -> None:
    template = {"spec": {"containers": [{"resources": {"requests": {"cpu": "250m"}}}]}}
    ran = recorded(CLAIM_OF_TWO, pods=4, template=template)
    asked = ran.submitted
    assert (asked.cores_per_unit, asked.millicores_per_unit) == (1, 250)
    whole = finish(ran, TERMS, cancelled_end(NOW_US), NOW_US).job_finished
    assert (whole.cores_per_node, whole.cores, whole.millicores) == (1, 1, 0)
    three = replace(CLAIM_OF_TWO, node_units=(2, 1))
    ran = recorded(three, pods=3, template=template)
    part = finish(ran, TERMS, cancelled_end(NOW_US), NOW_US).job_finished
    assert (part.cores_per_node, part.cores, part.millicores) == (1, 1, 750)
    check_contents(part)
    require_unchanged(job(template=template), asked)
    more = {"spec": {"containers": [{"resources": {"requests": {"cpu": "251m"}}}]}}
    with pytest.raises(RejectedError, match="must not ask for more than was submitted"):
        require_unchanged(job(template=more), asked)


def test_as_many_pods_count_as_run_at_a_time() -> None:
    assert submission_of(job(parallelism=8, completions=3), TERMS).nodes == 3
    assert submission_of(job(parallelism=2, completions=9), TERMS).nodes == 2
    assert submission_of(job(parallelism=2, completions=None), TERMS).nodes == 2


def test_labels_and_annotations_say_more() -> None:
    labels = {"metadata": {"labels": {APP: "lu.C", "team": "north-physics", "who": "ada"}}}
    said = merged(labels, annotated(**{PRIORITY: "7", EXCLUSIVE: "true", WALLTIME_S: "90"}))
    terms = replace(TERMS, account_label="team", user_label="who", most_priority=7)
    found = submission_of(job(said), terms)
    assert (found.app_id, found.account, found.user) == ("lu.C", "north-physics", "ada")
    assert (found.priority, found.shareable, found.walltime_s) == (7, False, 90)
    unread = submission_of(job({"metadata": {"labels": {"coplace.io/account": "rich"}}}), TERMS)
    assert unread.account == "physics"


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({"spec": {"parallelism": 0}}, "spec.parallelism"),
        ({"spec": {"activeDeadlineSeconds": None}}, "spec.activeDeadlineSeconds"),
        (annotated(**{WALLTIME_S: "soon"}), "metadata.annotations[coplace.io/walltime-s]"),
        (annotated(**{WALLTIME_S: "1e12"}), "walltime_s"),
        (annotated(**{PRIORITY: "1000"}), "priority"),
        (annotated(**{PRIORITY: "1"}), "metadata.annotations[coplace.io/priority]"),
        (annotated(**{PRIORITY: "nan"}), "metadata.annotations[coplace.io/priority]"),
        (annotated(**{PRIORITY: "1e99"}), "priority"),
        (annotated(**{WALLTIME_S: "inf"}), "metadata.annotations[coplace.io/walltime-s]"),
        (annotated(**{WALLTIME_S: "1_000"}), "metadata.annotations[coplace.io/walltime-s]"),
        (annotated(**{PRIORITY: "١٢"}), "metadata.annotations[coplace.io/priority]"),
        ({"spec": {"parallelism": "4"}}, "spec.parallelism"),
        ({"spec": {"parallelism": 2**31 - 1, "completions": None}}, "spec.parallelism"),
        ({"spec": {"template": {"spec": {"containers": "none"}}}}, "spec.template.spec.containers"),
        (requests(cpu="١٢"), "spec.template.spec.containers[0].resources.requests.cpu"),
        (requests(cpu="1e99"), "requests.cpu"),
        (requests(memory="1e99"), "requests.memory"),
        (requests(**{"nvidia.com/gpu": "1e99"}), "requests"),
    ],
)
def test_what_cannot_be_understood_is_named(patch: dict[str, Any], field: str) -> None:
    with pytest.raises(RejectedError) as refused:
        submission_of(job(patch), TERMS)
    assert str(refused.value).startswith(field)


def test_a_job_of_another_controller_is_refused() -> None:
    with pytest.raises(RejectedError, match=r"spec\.managedBy"):
        require_job_controller(job(managedBy="kueue.x-k8s.io/multikueue"), TERMS)


def test_where_kueue_lets_copies_run_a_job_that_would_pass_by_it_is_refused() -> None:
    terms = replace(TERMS, kueue_queues={"alpha": "main"})
    with pytest.raises(RejectedError, match="Kueue lets the copies of Jobs run on alpha"):
        require_job_controller(job(), terms)
    require_job_controller(job(managedBy="coplace.io/manager"), terms)


def test_a_job_leaves_home_where_coplace_manages_it_and_else_its_user_reads_how() -> None:
    managed = job(managedBy="coplace.io/manager")
    require_job_controller(managed, TERMS)
    assert list(submission_of(managed, TERMS).clusters) == []
    assert assumptions(managed, TERMS) == []
    assert list(submission_of(job(), TERMS).clusters) == ["alpha"]
    [words] = assumptions(job(), TERMS)
    assert words.startswith("it stays on alpha: with spec.managedBy: coplace.io/manager")


def test_what_selects_nodes_is_submitted() -> None:
    tolerated = [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]
    pod = {"nodeSelector": {"zone": "a"}, "tolerations": tolerated}
    asked = submission_of(job({"spec": {"template": {"spec": pod}}}), TERMS)
    assert (asked.features, list(asked.partitions)) == (
        "zone=a",
        ["tolerates:dedicated=gpu:NoSchedule"],
    )
    check_contents(asked)


@pytest.mark.parametrize(
    "later", [{"nodeSelector": {"zone": "b"}}, {"tolerations": [{"operator": "Exists"}]}]
)
def test_a_job_that_waits_and_selects_other_nodes_by_now_is_submitted_anew(later: Any) -> None:
    asked = submission_of(job(), TERMS)
    require_unchanged(job(), asked)
    with pytest.raises(RejectedError, match="other nodes than was submitted"):
        require_unchanged(job({"spec": {"template": {"spec": later}}}), asked)


def test_the_nodes_of_a_grant_that_is_over_are_no_choice_of_the_user() -> None:
    asked = submission_of(job(), TERMS)
    was_started = starting(job(), recorded(LIVE))
    require_unchanged(job({"spec": {"template": was_started["spec"]["template"]}}), asked)


def test_a_priority_class_is_the_priority_that_the_site_says() -> None:
    terms = replace(_ONE_CLUSTER, priority_classes={"urgent": 50})
    for name, priority in (("urgent", 50), ("other", 0)):
        patch = {"spec": {"template": {"spec": {"priorityClassName": name}}}}
        assert submission_of(job(patch), terms).priority == priority
        words = assumptions(job(patch), terms)
        assert bool(words) == (priority == 0), words


def test_what_a_job_does_not_say_is_said_to_its_user() -> None:
    containers = [{"name": "a", "resources": {}}]
    affinity: Any = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}
    pod = {"containers": containers, "affinity": affinity}
    patch = {"spec": {"template": {"spec": pod}, "activeDeadlineSeconds": None}}
    terms = replace(_ONE_CLUSTER, default_walltime_s=600)
    assert assumptions(job(patch), terms) == [
        "it requests no CPU: 1 counts for each pod",
        "it has no activeDeadlineSeconds: 600 count",
        "the preferred nodeAffinity is not followed",
    ]
    asked = submission_of(job(patch), terms)
    assert (asked.cores_per_unit, asked.walltime_s, asked.features) == (1, 600, "")


def test_a_start_and_an_end_show_what_was_held() -> None:
    ran = recorded(CLAIM_OF_TWO, pods=4)
    started = start(ran, TERMS).job_started
    assert (started.cluster, list(started.nodes)) == ("beta", ["n[1-2]"])
    assert list(started.node_units) == [3, 1]
    event = finish(ran, TERMS, RunEnd(JOB_OUTCOME_TIMED_OUT, NOW_US - 1), NOW_US)
    told = event.job_finished
    assert (told.nodes, told.cores_per_node, told.cores) == (2, 6, 8)
    assert (told.started_at_us, told.ended_at_us, told.grant) == (NOW_US, NOW_US, 1)
    assert (told.node_model, told.freq_ghz) == ("epyc-7742", 2.1)
    check_contents(told)
    check_contents(started)


def test_one_that_never_ran_has_an_end_without_a_start() -> None:
    told = finish(recorded(pods=4), TERMS, cancelled_end(NOW_US), NOW_US).job_finished
    assert (told.outcome, told.started_at_us, told.nodes) == (JOB_OUTCOME_CANCELLED, 0, 4)
    check_contents(told)


def test_one_that_somebody_let_run_without_a_grant_is_reported_as_that() -> None:
    end = RunEnd(JOB_OUTCOME_TIMED_OUT, NOW_US)
    told = finish(recorded(pods=4), TERMS, end, NOW_US, NOW_US - 9).job_finished
    assert (told.grant, told.started_at_us, told.cores) == (0, NOW_US - 9, 8)
    check_contents(told)


@pytest.mark.parametrize("at_us", [0, 1, NOW_US - 10_000_000, NOW_US + 10**15])
def test_an_end_that_cannot_be_is_taken_to_be_now(at_us: int) -> None:
    end = RunEnd(JOB_OUTCOME_TIMED_OUT, at_us)
    told = finish(recorded(LIVE), TERMS, end, NOW_US + 7).job_finished
    assert told.ended_at_us == NOW_US + 7


def test_pods_that_need_more_than_was_submitted_are_refused() -> None:
    more = job({"spec": {"template": {"spec": {"overhead": {"cpu": "1"}}}}})
    with pytest.raises(RejectedError, match="must not ask for more than was submitted"):
        require_unchanged(more, recorded().submitted)
    require_unchanged(job(), recorded().submitted)


def test_the_same_fact_has_the_same_id() -> None:
    assert submission(recorded(), TERMS) == submission(recorded(), TERMS)
    assert submission(recorded(), TERMS).id == f"north/coplace.v1.JobSubmitted/{JOB_ID}/1"


def test_another_job_of_the_same_name_and_second_is_another_job() -> None:
    other = job({"metadata": {"uid": "00000002-alpha"}})
    assert submission_of(other, TERMS).job_id != submission_of(job(), TERMS).job_id


def test_a_copy_is_named_by_its_job_and_grant_and_has_no_more_of_its_cluster() -> None:
    labels = {"controller-uid": "x", "batch.kubernetes.io/job-name": "lu", "run": "lu"}
    ran = recorded(CLAIM_OF_TWO, pods=4)
    spec = {
        "selector": {"matchLabels": {"controller-uid": "x"}},
        "template": {"metadata": {"labels": labels}},
    }
    fields = merged(job(pods=4).fields, {"spec": spec})
    body = bodies.copy(KubernetesJob("alpha", fields), ran, "coplace")
    assert ran.run_key == ("beta", "physics", "lu-00000009-1")
    assert body["metadata"]["name"] == "lu-00000009-1"
    assert "selector" not in body["spec"]
    found = body["spec"]["template"]["metadata"]
    assert found["labels"] == {"run": "lu", "coplace.io/grant": "1"}
    assert found["annotations"]["coplace.io/frequency-ghz"] == "2.1"
    assert body["spec"]["activeDeadlineSeconds"] == 61


def test_a_job_keeps_not_who_wrote_which_field() -> None:
    fields = job().fields
    metadata = {**fields["metadata"], "managedFields": [{"manager": "kubectl"}]}
    assert identified("alpha", {**fields, "metadata": metadata}).fields == fields


def test_a_node_takes_no_more_pods_than_it_says() -> None:
    """Those of others, such as of DaemonSets, are among them, whatever they ask for."""
    taken = {"n1": {"pods": Fraction(10)}, "n2": {"pods": Fraction(110)}}
    declared = cluster_declared([node("n1"), node("n2"), node("n3")], TRAITS, taken=taken)
    cluster = cluster_of(declared)
    table = NodeTable.build(cluster)
    shape = shape_on(job_of(submission_of(job(requests(cpu="100m")), TERMS)), cluster, table.names)
    assert shape is not None
    assert units_in(table.amounts, shape).tolist() == [100, 0, 110]


def test_nobody_pays_for_a_place_on_a_node() -> None:
    end = finish(recorded(LIVE), TERMS, cancelled_end(NOW_US), NOW_US)
    assert not end.job_finished.resources
