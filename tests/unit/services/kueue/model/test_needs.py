"""What a Workload needs is what Kueue counts, in units of its largest pod."""

import pytest

from coplace_client.errors import RejectedError
from services.kueue.model.needs import workload_needs
from tests.unit.services.kueue.objects import pod_set, workload


def test_a_unit_is_as_large_as_the_largest_pod_and_all_pods_are_counted() -> None:
    driver = pod_set("driver", 1, cpu="500m", memory="8Gi")
    workers = pod_set("workers", 4, cpu="4", memory="2Gi", **{"nvidia.com/gpu": "2"})
    found = workload_needs(workload(None, driver, workers))
    assert (found.pods, found.unit.millicores, found.unit.memory_gib) == (5, 4_000, 8)
    assert found.unit.resources == {"gpu": 2, "gpu:nvidia.com": 2}
    assert (found.millicores, found.resources) == (16_500, {"gpu": 8, "gpu:nvidia.com": 8})


def test_what_kueue_counts_beside_the_template_counts() -> None:
    """The defaults of a namespace, and what a runtime class takes."""
    usage = {"cpu": "9", "memory": "6Gi"}
    assigned = [{"name": "main", "count": 3, "resourceUsage": usage}]
    status = {"admission": {"podSetAssignments": assigned}}
    found = workload_needs(workload(status, pod_set("main", 4, cpu="2")))
    assert (found.pods, found.unit.millicores, found.unit.memory_gib) == (3, 3_000, 2)


def test_a_pod_that_asks_for_nothing_has_a_core() -> None:
    assert workload_needs(workload(None, pod_set(memory="1Gi"))).unit.millicores == 1_000


def test_pod_sets_without_pods_count_nothing() -> None:
    large = pod_set("none", 0, cpu="64")
    assert workload_needs(workload(None, large, pod_set())).unit.millicores == 2_000


@pytest.mark.parametrize(
    ("sets", "field"),
    [
        ([pod_set(count=200_000)], "spec.podSets"),
        ([pod_set(cpu="many")], r"spec\.podSets\[0\]\.template\.spec\.containers\[0\]"),
        ([pod_set(), pod_set("b", cpu="-1")], r"spec\.podSets\[1\]\.template\.spec"),
    ],
)
def test_what_cannot_be_taken_is_named(sets: list[dict[str, object]], field: str) -> None:
    with pytest.raises(RejectedError, match=field):
        workload_needs(workload(None, *sets))
