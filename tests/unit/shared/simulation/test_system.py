from math import inf
from pathlib import Path

import pytest

from shared.domain.errors import UnusableError
from shared.scheduling.power import NO_CAP_MW
from shared.simulation.system import SizeUnit, System, built_in_system, read_system
from tests.unit.shared.simulation.setups import cluster

YAML = """
clusters:
  - name: fast
    module: normal
    nodes: 16
    cores_per_node: 48
    idle_power_w: 96
    unit: core
    cap_w: 5000
  - {name: slow, module: normal2, nodes: 8}
"""


def test_a_system_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "system.yaml"
    path.write_text(YAML)
    fast, slow = read_system(path).clusters
    assert (fast.name, fast.unit, fast.units, fast.cap_w) == ("fast", SizeUnit.CORE, 768, 5000)
    assert (slow.unit, slow.units) == (SizeUnit.NODE, 8)
    fleet = read_system(path).fleet
    assert fleet.units.tolist() == [768, 8]
    assert fleet.idle_w.tolist() == [2, 0]


def test_idle_power_counts_under_caps_unless_it_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "system.yaml"
    path.write_text(YAML)
    counting, leaving_out = (read_system(path, cap_counts_idle=each) for each in (True, False))
    assert [pool.base_mw for pool in counting.pools] == [16 * 96_000, 0]
    assert [pool.left_mw for pool in counting.pools] == [5_000_000 - 16 * 96_000, NO_CAP_MW]
    assert [pool.left_mw for pool in leaving_out.pools] == [5_000_000, NO_CAP_MW]
    assert counting.fleet.cap_w.tolist() == [5000, inf]
    assert leaving_out.fleet.cap_w.tolist() == [5000 + 16 * 96, inf]


@pytest.mark.parametrize("cap_w", [1535, 1536])
def test_a_cap_at_or_below_idle_power_is_refused_by_its_cluster(tmp_path: Path, cap_w: int) -> None:
    path = tmp_path / "system.yaml"
    path.write_text(YAML.replace("5000", f"{cap_w}"))
    with pytest.raises(UnusableError, match=rf"cluster fast, 1,{cap_w - 1000} W, .* 1,536 W"):
        read_system(path)
    assert read_system(path, cap_counts_idle=False).clusters[0].cap_w == cap_w


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("clusters: [", "is no YAML"),
        ("clusters: []", "clusters of different names"),
        ("clusters: [{name: a, module: m, nodes: 0}]", "nodes"),
        ("clusters: [{name: a, module: m, nodes: 4, color: red}]", "color"),
        ("clusters: [{name: a, module: m, nodes: 4, idle_power_w: .nan}]", "idle_power_w"),
        ("clusters: [{name: a, module: m, nodes: 4, cap_w: 0}]", "cap_w"),
        ("- 3", "_SystemFile"),
    ],
)
def test_a_file_that_is_no_system_is_refused_by_what_is_wrong(
    tmp_path: Path, text: str, problem: str
) -> None:
    path = tmp_path / "system.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=problem):
        read_system(path)


def test_the_built_in_clusters_are_those_of_the_paper() -> None:
    p1, p2 = built_in_system(["p1", "p2"], cap_w=1e6).clusters
    assert (p1.nodes, p1.module, p2.nodes, p2.module) == (512, "normal", 512, "normal2")
    assert p1.idle_power_w > 0
    assert p2.cap_w == 1e6


def test_a_cluster_that_is_not_built_in_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="p3: the built-in clusters are p1, p2"):
        built_in_system(["p1", "p3"])


def test_two_clusters_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="different names"):
        System((cluster("a"), cluster("a")))
