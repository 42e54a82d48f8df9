"""A selector of nodes says what labels they have, as far as it says so."""

import pytest

from shared.kubernetes.clusters import ClusterEntry, labels_of


@pytest.mark.parametrize(
    ("selector", "labels"),
    [
        ("", {}),
        ("model=gold", {"model": "gold"}),
        ("model==gold, zone = a", {"model": "gold", "zone": "a"}),
        ("gpu,!spot,zone!=b,disk in (a", {}),
    ],
)
def test_labels_are_those_that_all_of_its_nodes_have(selector: str, labels: dict[str, str]) -> None:
    entry = ClusterEntry(
        name="alpha",
        node_model="g",
        pstates_ghz=(3.1,),
        idle_power_w=1,
        peak_bandwidth_gbps=1,
        node_selector=selector,
    )
    assert labels_of(entry) == labels
