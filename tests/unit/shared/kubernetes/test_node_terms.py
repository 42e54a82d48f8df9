"""What pods select and tolerate is declared so that Coplace finds the nodes that Kubernetes would.

Kubernetes' rules are written here once more, of its own documents."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.catalogue.contents.check import check_contents
from shared.catalogue.payloads.domain_types import cluster_of
from shared.domain.hostlist import expand
from shared.kubernetes.node_terms import NodeTerm, selected, terms_of
from shared.kubernetes.nodes import cluster_declared, is_worker, trimmed_node
from shared.kubernetes.tolerations import UNTAINTED, Tolerations, tolerations_of
from shared.scheduling.eligibility import nodes_with
from tests.unit.shared.kubernetes.objects import TRAITS, node

_KEYS = ("zone", "example.org/disk", "cores", "kubernetes.io/hostname")
_VALUES = ("", "a", "b", "7", "12", "-3", "x.y_z-1")
_EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

keys, values = st.sampled_from(_KEYS), st.sampled_from(_VALUES)
labels = st.dictionaries(keys, values, max_size=4)
taints = st.lists(
    st.fixed_dictionaries(
        {"key": keys, "effect": st.sampled_from(_EFFECTS)}, optional={"value": values}
    ),
    max_size=2,
)
some = st.lists(values, min_size=1, max_size=3)
requirements = st.one_of(
    st.fixed_dictionaries(
        {"key": keys, "operator": st.sampled_from(("In", "NotIn")), "values": some}
    ),
    st.fixed_dictionaries(
        {"key": keys, "operator": st.sampled_from(("Exists", "DoesNotExist"))},
    ),
    st.fixed_dictionaries(
        {
            "key": keys,
            "operator": st.sampled_from(("Gt", "Lt")),
            "values": st.lists(st.sampled_from(("-5", "7", "11")), min_size=1, max_size=1),
        }
    ),
)
fields = st.fixed_dictionaries(
    {
        "key": st.just("metadata.name"),
        "operator": st.sampled_from(("In", "NotIn")),
        "values": st.lists(st.sampled_from(("n0", "n1")), min_size=1, max_size=1),
    }
)
alternatives = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "matchExpressions": st.lists(requirements, max_size=2),
            "matchFields": st.lists(fields, max_size=1),
        },
    ),
    min_size=1,
    max_size=2,
)
tolerations = st.lists(
    st.fixed_dictionaries(
        {"operator": st.sampled_from(("Equal", "Exists", ""))},
        optional={"key": keys, "value": values, "effect": st.sampled_from(_EFFECTS)},
    ),
    max_size=3,
)


def meets(of: Mapping[str, str], told: Mapping[str, Any]) -> bool:
    """As the documents have it: a label that is missing is in no set, and no number."""
    found: str | None = of.get(told["key"])
    wanted: list[str] = told.get("values", [])
    match told["operator"]:
        case "In":
            return found is not None and found in wanted
        case "NotIn":
            return found is None or found not in wanted
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
    if found is None or not re.fullmatch(r"-?[0-9]+", found):
        return False
    most = int(wanted[0])
    return int(found) > most if told["operator"] == "Gt" else int(found) < most


def selects(pod: Mapping[str, Any], of: Mapping[str, Any]) -> bool:
    own = of["metadata"].get("labels") or {}
    if any(own.get(name) != value for name, value in pod["nodeSelector"].items()):
        return False
    terms = pod["affinity"]["nodeAffinity"][_REQUIRED]["nodeSelectorTerms"]
    return any(
        bool(term.get("matchExpressions") or term.get("matchFields"))
        and all(meets(own, each) for each in term.get("matchExpressions", []))
        and all(
            meets({"metadata.name": of["metadata"]["name"]}, each)
            for each in term.get("matchFields", [])
        )
        for term in terms
    )


def tolerates(pod: Mapping[str, Any], of: Mapping[str, Any]) -> bool:
    def covers(one: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
        if one.get("effect") and one["effect"] != taint["effect"]:
            return False
        if one.get("key") and one["key"] != taint["key"]:
            return False
        return one["operator"] == "Exists" or bool(one.get("value", "") == taint.get("value", ""))

    hard = [taint for taint in of["spec"]["taints"] if taint["effect"] != "PreferNoSchedule"]
    return all(any(covers(one, taint) for one in pod["tolerations"]) for taint in hard)


@settings(max_examples=600)
@given(
    st.lists(st.tuples(labels, taints), min_size=1, max_size=5),
    st.lists(st.tuples(st.dictionaries(keys, values, max_size=2), alternatives, tolerations)),
)
def test_the_nodes_of_each_pod_are_those_of_kubernetes(drawn: Any, pods_drawn: Any) -> None:
    nodes = [
        trimmed_node(
            node(f"n{index}", metadata={"labels": of}, spec={"taints": kept}), has_labels=True
        )
        for index, (of, kept) in enumerate(drawn)
    ]
    asked = []
    for selector, terms, tolerated in pods_drawn:
        affinity = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}
        pod = {"nodeSelector": selector, "affinity": affinity, "tolerations": tolerated}
        try:
            asked.append((pod, selected(pod, "spec"), tolerations_of(pod, "spec")))
        except RejectedError:  # too long, or nothing is selected
            is_unkeyed = any(
                not one.get("key") and one["operator"] != "Exists" for one in tolerated
            )
            is_empty = not any(each for term in terms for each in term.values())
            is_long = len(str(terms)) > 200
            assert is_unkeyed or is_empty or is_long
    known = {each for _, _, each in asked if each.partition}
    kept = [each for each in nodes if is_worker(each, known)]
    if not kept:
        return
    wanted = {term for _, features, _ in asked for term in terms_of(features)}
    message = cluster_declared(kept, TRAITS, wanted, known)
    check_contents(message)
    cluster = cluster_of(message)
    by_name = {each.name: each for each in cluster.partitions}
    for pod, features, tolerated in asked:
        chosen = nodes_with(cluster, features) if features else (1 << len(kept)) - 1
        partition = by_name.get(tolerated.partition or UNTAINTED)
        allowed = {each["metadata"]["name"] for each in kept}
        if partition is not None:
            allowed = names_in(partition, allowed)
        found = {
            each["metadata"]["name"]
            for index, each in enumerate(kept)
            if chosen >> index & 1 and each["metadata"]["name"] in allowed
        }
        right = {
            each["metadata"]["name"]
            for each in nodes
            if selects(pod, each) and tolerates(pod, each)
        }
        assert found == right


def names_in(partition: Any, all_names: set[str]) -> set[str]:
    if partition.down:
        return set()
    return {name for each in partition.nodes for name in expand(each)} or all_names


@pytest.mark.parametrize(
    ("sign", "of", "value", "holds"),
    [
        (">", "8", "7", True),
        (">", "7", "7", False),
        ("<", "7", "7", False),
        ("<", "6", "7", True),
        ("<", "x", "7", False),
    ],
)
def test_a_number_is_compared_as_one(sign: str, of: str, value: str, *, holds: bool) -> None:
    assert NodeTerm("cores", sign, value).holds({"cores": of}) is holds


@pytest.mark.parametrize(
    "term",
    [
        NodeTerm("zone", "=", "a"),
        NodeTerm("zone", "=", ""),
        NodeTerm("example.org/disk", "<>", "ssd"),
        NodeTerm("gpu"),
        NodeTerm("gpu", is_absent=True),
        NodeTerm("cores", ">", "-8"),
        NodeTerm("cores", "<", "8"),
    ],
)
def test_the_name_of_a_term_says_what_it_is(term: NodeTerm) -> None:
    assert NodeTerm.parse(str(term)) == term


@given(tolerations)
def test_the_name_of_a_partition_says_what_is_tolerated(told: Any) -> None:
    try:
        found = tolerations_of({"tolerations": told}, "spec")
    except RejectedError:
        return
    assert Tolerations.parse(found.partition) == (found if found.each else None)


def test_what_comes_and_goes_or_is_tolerated_for_a_time_is_no_partition() -> None:
    told = [
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
        {"key": "spot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
    ]
    assert tolerations_of({"tolerations": told}, "spec").partition == ""
