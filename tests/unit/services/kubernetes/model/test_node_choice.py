"""Of a Job's affinities those are followed which are about nodes and its own pods."""

from dataclasses import replace
from typing import Any

import pytest

from coplace_client.errors import RejectedError
from services.kubernetes.model.bodies import copy
from services.kubernetes.model.names import MANAGED_BY, NODE_PER_INDEX
from services.kubernetes.model.node_choice import node_choice
from tests.unit.services.kubernetes.objects import LIVE, job, recorded

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_SPREAD = "topologySpreadConstraints"
_HOST = "kubernetes.io/hostname"


def choice(labels: Any = None, **pod: Any) -> Any:
    template = {"metadata": {"labels": labels or {}}, "spec": pod}
    return node_choice(job({"spec": {"template": template}}))


def away_from(named: dict[str, str], key: str = _HOST, **more: Any) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": named, **more}}
    return {"podAntiAffinity": {_REQUIRED: [term]}}


def spread(skew: int, named: dict[str, str], when: str = "DoNotSchedule") -> list[dict[str, Any]]:
    selector = {"matchLabels": named}
    return [
        {
            "maxSkew": skew,
            "topologyKey": _HOST,
            "whenUnsatisfiable": when,
            "labelSelector": selector,
        }
    ]


def test_a_job_without_a_word_on_nodes_takes_any() -> None:
    found = choice()
    assert (found.features, found.partition, found.pods_per_node, found.is_alone) == (
        "",
        "",
        0,
        False,
    )


def test_pods_that_keep_away_from_each_other_are_one_a_node() -> None:
    found = choice(affinity=away_from({"job-name": "lu"}))
    assert (found.pods_per_node, found.is_alone) == (1, False)


def test_pods_that_keep_away_from_those_of_others_too_have_nodes_of_their_own() -> None:
    found = choice({"app": "lu"}, affinity=away_from({"app": "lu"}))
    assert (found.pods_per_node, found.is_alone) == (1, True)


def test_pods_that_are_to_be_spread_are_no_more_than_the_skew_on_a_node() -> None:
    found = choice(topologySpreadConstraints=spread(2, {"job-name": "lu"}))
    assert (found.pods_per_node, found.is_alone) == (2, False)


def test_wishes_are_named_that_nobody_follows() -> None:
    affinity: Any = {name: {_PREFERRED: [{}]} for name in ("nodeAffinity", "podAntiAffinity")}
    found = choice(affinity=affinity, topologySpreadConstraints=spread(1, {}, "ScheduleAnyway"))
    assert list(found.ignored) == [
        "the preferred nodeAffinity",
        "the preferred podAntiAffinity",
        "the preferred topology spread",
    ]


@pytest.mark.parametrize(
    ("pod", "field"),
    [
        ({"nodeName": "n1"}, "nodeName"),
        ({"resourceClaims": [{"name": "gpu"}]}, "resourceClaims"),
        ({"affinity": {"podAffinity": {_REQUIRED: [{}]}}}, "affinity.podAffinity"),
        ({"affinity": away_from({"job-name": "lu"}, "zone")}, "affinity.podAntiAffinity"),
        ({"affinity": away_from({"app": "other"})}, "affinity.podAntiAffinity"),
        ({"affinity": away_from({})}, "affinity.podAntiAffinity"),
        (
            {"affinity": away_from({"job-name": "lu"}, matchExpressions=[{}])},
            "affinity.podAntiAffinity",
        ),
        ({"topologySpreadConstraints": spread(1, {"app": "other"})}, "topologySpreadConstraints"),
        ({"nodeSelector": {"a": "b c"}}, "nodeSelector"),
        ({"nodeSelector": ["a"]}, "nodeSelector"),
        ({"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": []}}}}, "affinity.node"),
        ({"tolerations": [{"operator": "Equal"}]}, "tolerations[0]"),
    ],
)
def test_what_cannot_be_followed_is_named(pod: dict[str, Any], field: str) -> None:
    with pytest.raises(RejectedError) as refused:
        choice(**pod)
    assert str(refused.value).startswith(f"spec.template.spec.{field}")


def indexed(away: Any = None, **spec: Any) -> Any:
    found = {"annotations": {NODE_PER_INDEX: "true"}}
    pod = {"spec": {"affinity": away}} if away else {}
    asked = {"completionMode": "Indexed", "parallelism": 3, "completions": 3, **spec}
    return job({"metadata": found, "spec": {"template": pod}}, **asked)


def test_an_index_has_a_node_that_no_other_one_is_on_where_that_is_asked() -> None:
    managed = indexed(managedBy=MANAGED_BY)
    assert node_choice(managed).pods_per_node == 1
    assert node_choice(indexed(away_from({"job-name": "lu"}))).pods_per_node == 1
    assert node_choice(job(completionMode="Indexed")).pods_per_node == 0


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({}, r"needs spec\.managedBy"),
        ({"managedBy": MANAGED_BY, "completionMode": "NonIndexed"}, "completionMode: Indexed"),
        ({"managedBy": MANAGED_BY, "parallelism": 2}, "as many as the completions"),
        ({"managedBy": MANAGED_BY, "completions": None}, "as many as the completions"),
    ],
)
def test_a_node_for_each_index_that_nothing_would_see_to_is_refused(
    spec: Any, problem: str
) -> None:
    with pytest.raises(RejectedError, match=problem):
        node_choice(indexed(**spec))


def test_pods_of_a_copy_keep_away_from_each_other_by_its_name() -> None:
    """The Job controller labels them with the name of the copy."""
    mine = indexed(away_from({"job-name": "lu"}), managedBy=MANAGED_BY)
    away = replace(LIVE, cluster="beta")
    record = replace(recorded(away), is_managed=True)
    name = record.run_key.name
    made = copy(mine, record, "coplace")
    terms = made["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"][_REQUIRED]
    labels = [each["labelSelector"]["matchLabels"] for each in terms]
    assert labels == [{"job-name": name}, {"batch.kubernetes.io/job-name": name}]
    assert {each["topologyKey"] for each in terms} == {_HOST}
    spreading = job(
        {"spec": {"template": {"spec": {_SPREAD: spread(1, {"job-name": "lu", "run": "lu"})}}}},
        managedBy=MANAGED_BY,
    )
    [constraint] = copy(spreading, record, "coplace")["spec"]["template"]["spec"][_SPREAD]
    assert constraint["labelSelector"]["matchLabels"] == {"job-name": name, "run": "lu"}
