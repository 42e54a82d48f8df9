"""A pod needs what Kubernetes would count for it."""

from fractions import Fraction

import pytest

from coplace_client.errors import RejectedError
from shared.kubernetes.units import PodNeeds, pod_needs

ONE = Fraction(1)


def container(**requests: str) -> dict[str, object]:
    return {"resources": {"requests": requests}}


def test_containers_run_together() -> None:
    pod = {"containers": [container(cpu="1500m", memory="1Gi"), container(cpu="1", memory="2Gi")]}
    assert pod_needs(pod, ONE) == PodNeeds(2_500, 3.0, {})


def test_those_that_run_before_count_where_they_are_larger_and_sidecars_always() -> None:
    pod = {
        "initContainers": [
            container(cpu="6", memory="1Gi"),
            {**container(cpu="1", memory="1Gi"), "restartPolicy": "Always"},
        ],
        "containers": [container(cpu="2", memory="4Gi")],
        "overhead": {"cpu": "250m"},
    }
    assert pod_needs(pod, ONE) == PodNeeds(7_250, 5.0, {})


def test_every_gpu_is_a_gpu_and_one_of_its_kind_and_a_limit_alone_is_a_request() -> None:
    limits = {"cpu": "4", "nvidia.com/gpu": "2", "example.org/fpga": 1, "ephemeral-storage": "9Gi"}
    found = pod_needs({"containers": [{"resources": {"limits": limits}}]}, ONE)
    assert found == PodNeeds(4_000, 0.0, {"gpu": 2, "gpu:nvidia.com": 2, "example.org/fpga": 1})


@pytest.mark.parametrize("requests", [{}, {"memory": "1Gi"}, {"cpu": "0"}])
def test_a_pod_that_asks_for_no_cores_has_some_by_default(requests: dict[str, str]) -> None:
    assert pod_needs({"containers": [container(**requests)]}, Fraction(5, 2)).millicores == 2_500


def test_memory_of_accelerators_in_mib_counts() -> None:
    asked = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "81920"}
    needs = pod_needs({"containers": [container(**asked)]}, ONE)
    assert needs.resources == {"gpu": 1, "gpu:nvidia.com": 1, "nvidia.com/gpumem": 81920}


def test_what_a_pod_asks_for_as_a_whole_counts_where_it_is_more() -> None:
    whole = {"requests": {"cpu": "8", "memory": "1Gi"}}
    pod = {"containers": [container(cpu="1", memory="2Gi")], "resources": whole}
    assert pod_needs(pod, ONE) == PodNeeds(8_000, 2.0, {})


@pytest.mark.parametrize(
    "pod",
    [
        {"containers": [container(cpu="8"), container(cpu="-7")]},
        {"containers": [container(cpu="8"), None]},
        {"containers": {"a": container(cpu="8")}},
        {"containers": [{"resources": "many"}]},
        {"containers": [{"resources": {"requests": ["cpu"]}}]},
        {"containers": [container(cpu="8")], "overhead": "much"},
        {"containers": [container(**{"cpu": "1", **{f"a/{n}": "1" for n in range(300)}})]},
    ],
)
def test_what_is_no_amount_is_refused(pod: dict[str, object]) -> None:
    with pytest.raises(RejectedError):
        pod_needs(pod, ONE)
