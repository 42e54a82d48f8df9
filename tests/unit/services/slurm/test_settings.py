"""A file says which nodes of a Slurm are which cluster; what is wrong in it is named."""

import json
from pathlib import Path
from typing import Any

import pytest

from coplace_client.errors import WrongSettingsError
from services.slurm.model.clusters import declared_clusters, shared_out
from services.slurm.settings import shares_of
from tests.unit.services.slurm.fields import NODE

OF: dict[str, Any] = {"pstates_ghz": [2.0], "idle_power_w": 90.0, "peak_bandwidth_gbps": 140.0}
GOLD = {**OF, "name": "gold", "node_model": "gold-6254"}
ROME = {**OF, "name": "rome", "node_model": "rome-7742"}


def written(folder: Path, *clusters: dict[str, Any]) -> Path:
    file = folder / "clusters.yaml"
    # JSON is YAML, and has no aliases.
    file.write_text(json.dumps({"clusters": clusters}))
    return file


@pytest.mark.parametrize(
    "which", [{"nodes": "n[1-2]"}, {"partition": "old"}, {"feature": "skylake"}]
)
def test_a_node_is_of_the_first_cluster_that_has_it(which: dict[str, str], tmp_path: Path) -> None:
    old = {"partitions": ["old", "all"], "features": "skylake,ib"}
    nodes = [
        {**NODE, **old, "name": "n1"},
        {**NODE, **old, "name": "n2"},
        {**NODE, "name": "n3", "cpus": 64, "partitions": ["all"], "features": ["rome"]},
    ]
    shares = shares_of(written(tmp_path, {**GOLD, **which}, ROME))
    placed = shared_out([*nodes, {"name": "n["}], shares)
    assert {name: [node["name"] for node in of] for name, of in placed.items()} == {
        "gold": ["n1", "n2"],
        "rome": ["n3"],
    }
    gold, rome = declared_clusters(nodes, "north", "alpha", shares)
    assert (gold.cores_per_node, rome.cores_per_node) == (36, 64)
    assert {gold.architecture, rome.architecture} == {"alpha"}
    assert [(each.name, *each.nodes) for each in gold.partitions] == [
        ("all", "n[1-2]"),
        ("old", "n[1-2]"),
    ]
    assert [(each.name, *each.nodes) for each in rome.partitions] == [("all", "n3")]


@pytest.mark.parametrize(
    ("clusters", "words"),
    [
        ([], "clusters"),
        ([{**GOLD, "nodes": "n[1-"}], "clusters.0.nodes"),
        ([{**GOLD, "nodes": "n1", "feature": "x"}], "only one of nodes, partition and feature"),
        ([GOLD, ROME], "gold names no nodes and so takes all: move it to the end"),
        ([{**GOLD, "nodes": "n1"}, GOLD], "gold is listed twice"),
        ([{**GOLD, "cores": 4}], "clusters.0.cores"),
        ([{**GOLD, "idle_power_w": "much"}], "clusters.0.idle_power_w"),
    ],
)
def test_what_cannot_work_is_refused(
    clusters: list[dict[str, Any]], words: str, tmp_path: Path
) -> None:
    with pytest.raises(WrongSettingsError, match=words):
        shares_of(written(tmp_path, *clusters))
