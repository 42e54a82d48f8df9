from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from coplace_client.errors import UnusableError
from lab.simulation.policy import SimulatedPolicy
from lab.simulation.system import SizeUnit, System, built_in_system, read_system
from shared.replay.played import SharedCap
from shared.scheduling.pool import Discipline
from shared.scheduling.power import NO_CAP_MW, Scope
from tests.unit.lab.simulation.setups import cluster

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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "system.yaml"


def test_a_system_is_read_from_a_file(path: Path) -> None:
    path.write_text(YAML)
    fast, slow = read_system(path).clusters
    assert (fast.name, fast.unit, fast.units, fast.cap_w) == ("fast", SizeUnit.CORE, 768, 5000)
    assert (slow.unit, slow.units) == (SizeUnit.NODE, 8)
    fleet = read_system(path).fleet
    assert fleet.units.tolist() == [768, 8]
    assert fleet.idle_w.tolist() == [2, 0]


def test_idle_power_counts_under_caps_unless_it_is_left_out(path: Path) -> None:
    path.write_text(YAML)
    counting, leaving_out = (read_system(path, cap_counts_idle=each) for each in (True, False))
    assert [pool.base_mw for pool in counting.pools] == [16 * 96_000, 0]
    assert [pool.left_mw for pool in counting.pools] == [5_000_000 - 16 * 96_000, NO_CAP_MW]
    assert [pool.left_mw for pool in leaving_out.pools] == [5_000_000, NO_CAP_MW]
    assert counting.fleet.cap_w.tolist() == [5000, inf]
    assert leaving_out.fleet.cap_w.tolist() == [5000 + 16 * 96, inf]
    for cap_w in (1535, 1536):
        path.write_text(YAML.replace("5000", f"{cap_w}"))
        with pytest.raises(UnusableError, match=rf"cluster fast, 1,{cap_w - 1000} W, .* 1,536 W"):
            read_system(path)
        assert read_system(path, cap_counts_idle=False).clusters[0].cap_w == cap_w


SITES = """
clusters:
  - {name: a, module: m, nodes: 4, idle_power_w: 100, site: north}
  - {name: b, module: m, nodes: 2, idle_power_w: 50}
  - {name: c, module: m, nodes: 1, idle_power_w: 25, site: north, cap_w: 90}
"""


@pytest.mark.parametrize("counts", [True, False])
def test_caps_of_a_file_are_over_the_clusters_of_a_site_and_over_all(
    path: Path, counts: bool
) -> None:
    path.write_text(SITES + "caps: {north: 525, region: 600}")
    system = read_system(path, cap_counts_idle=counts)
    assert [(cap.scope, cap.name, cap.limit_mw(0.0), numbers) for cap, numbers in system.over] == [
        (Scope.SITE, "north", 525_000, [0, 2]),
        (Scope.REGION, "", 600_000, [0, 1, 2]),
    ]
    # The site has 425 W of idle nodes, the region 525 W.
    assert system.left_mw == ([75_000, 75_000, 65_000] if counts else [525_000, 600_000, 90_000])
    idle_w = (0, 0) if counts else (425, 525)
    assert system.fleet.shared_caps == (
        SharedCap("site north", (0, 2), 525 + idle_w[0]),
        SharedCap("the region", (0, 1, 2), 600 + idle_w[1]),
    )


def test_a_cap_of_a_cluster_or_over_several_is_one_and_one_without_end_is_none() -> None:
    uncapped = cluster("a")
    capped = uncapped.model_copy(update={"name": "b", "cap_w": 9e9})
    assert System((uncapped, capped)).is_capped
    assert System((uncapped,), shared_cap_w={"region": 9e9}).is_capped
    system = System((cluster("a"),), shared_cap_w={"region": inf})
    assert (system.over, system.left_mw) == ([], [NO_CAP_MW])
    assert not system.is_capped
    system.require_kept_by(SimulatedPolicy)


@pytest.mark.parametrize(
    ("cap_of", "problem"),
    [
        ({"region": 525.0}, r"cap of the region, 525 W, .* 525 W: raise it"),
        ({"north": 424.0}, r"cap of site north, 424 W, .* 425 W: raise it"),
        ({"north": float("nan")}, "cap of site north, nan W"),
        ({"region": 0.0}, "cap of the region, 0 W"),
        ({"region": -1.0}, "cap of the region, -1 W"),
        ({"south": 9e3}, "'south' is not a site: known are north, region"),
        ({"b": 9e3}, "'b' is not a site: .* that of a cluster is its cap_w"),
        ({"": 9e3}, "'' is not a site"),
    ],
)
def test_a_cap_that_cannot_be_over_several_clusters_is_refused_by_what_it_is_of(
    path: Path, cap_of: dict[str, float], problem: str
) -> None:
    path.write_text(SITES)
    with pytest.raises(UnusableError, match=problem):
        replace(read_system(path), shared_cap_w=cap_of)


def test_a_policy_that_keeps_no_caps_over_several_clusters_is_refused_under_one() -> None:
    system = System((cluster("a", site="north"),), shared_cap_w={"north": 9e3})
    unable = {SimulatedPolicy.CONSERVATIVE, SimulatedPolicy.SLURM}
    for policy in unable:
        with pytest.raises(UnusableError, match=f"{policy} .* and site north has one: take easy"):
            system.require_kept_by([SimulatedPolicy.EASY, policy])
    system.require_kept_by(set(SimulatedPolicy) - unable)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("clusters: [", "is not usable YAML"),
        ("clusters: []", "clusters of different names"),
        ("clusters: [{name: a, module: m, nodes: 0}]", "nodes"),
        ("clusters: [{name: a, module: m, nodes: 4, color: red}]", "color"),
        ("clusters: [{name: a, module: m, nodes: 4, idle_power_w: .nan}]", "idle_power_w"),
        ("clusters: [{name: a, module: m, nodes: 4, cap_w: 0}]", "cap_w"),
        (f"{SITES}caps: {{north: 0}}", "caps.north: Input should be greater than 0"),
        (f"{SITES}caps: {{north: -5}}", "caps.north: Input should be greater than 0"),
        (f"{SITES}caps: {{region: .nan}}", "caps.region: Input should be"),
        (f"{SITES}caps: {{south: 900}}", "'south' is not a site"),
        (f"{SITES}caps: 900", "caps: Input should be"),
        ("- 3", "_SystemFile"),
        ("clusters: [{name: a, module: m, nodes: 4, site: region}]", "a site is called region"),
        (
            "clusters: [{name: a, module: m, nodes: 4}, {name: a, module: m, nodes: 4}]",
            "different names",
        ),
    ],
)
def test_a_file_that_is_no_system_is_refused_by_what_is_wrong(
    path: Path, text: str, problem: str
) -> None:
    path.write_text(text)
    with pytest.raises(ValueError, match=problem):
        read_system(path)


def test_the_built_in_clusters_are_those_of_the_paper() -> None:
    p1, p2 = built_in_system(["p1", "p2"], cap_w=1e6).clusters
    assert (p1.nodes, p1.module, p2.nodes, p2.module) == (512, "normal", 512, "normal2")
    assert p1.idle_power_w > 0
    assert p2.cap_w == 1e6
    [(cap, numbers)] = built_in_system(["p1", "p2"], region_cap_w=2e5).over
    assert (cap.subject, cap.limit_mw(0.0), numbers) == ("the region", 200_000_000, [0, 1])
    with pytest.raises(ValueError, match="p3: the built-in clusters are p1, p2"):
        built_in_system(["p1", "p3"])


MAINTAINED = """
clusters:
  - name: a
    module: m
    nodes: 4
    cores_per_node: 8
    unit: core
    maintenance: [{from_s: 10, until_s: 20, nodes: 3}]
"""


def test_maintenance_is_of_so_many_units_and_refused_where_nobody_knows_it(path: Path) -> None:
    path.write_text(MAINTAINED)
    system = read_system(path)
    assert [tuple(each) for each in system.pools[0].maintained] == [(10, 20, 24)]
    system.require_kept_by([SimulatedPolicy.EASY, SimulatedPolicy.CONSERVATIVE])
    with pytest.raises(UnusableError, match="look-ahead knows no maintenance, and a has some"):
        system.require_kept_by([SimulatedPolicy.LOOK_AHEAD])
    with pytest.raises(UnusableError, match="slurm knows no maintenance"):
        system.require_kept_by([SimulatedPolicy.BASE], Discipline.SLURM)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [("nodes: 5", "maintenance of 5 nodes, a has 4"), ("until_s: 10", "must be behind from_s")],
)
def test_maintenance_that_is_none_is_refused(path: Path, wrong: str, problem: str) -> None:
    right = "nodes: 3" if wrong.startswith("nodes") else "until_s: 20"
    path.write_text(MAINTAINED.replace(right, wrong))
    with pytest.raises(UnusableError, match=problem):
        read_system(path)
