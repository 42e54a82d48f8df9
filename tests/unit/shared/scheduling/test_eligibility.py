"""Where a job may run, held to a plain reading of what was declared and asked for, node by node."""

from collections.abc import Callable, Set
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from shared.domain.cluster import Cluster, NodeClass
from shared.domain.job import Job
from shared.domain.partition import Partition
from shared.scheduling.eligibility import RefusedToJob, members, node_set, where_on
from shared.scheduling.problem import counts_nodes, held_kind, kind_on, most_units

FEATURES = ("x", "y", "z")
EXPRESSIONS: dict[str, Callable[[Set[str]], bool]] = {
    "": lambda _: True,
    "x": lambda has: "x" in has,
    "x&y": lambda has: {"x", "y"} <= has,
    "x|(y&z)": lambda has: "x" in has or {"y", "z"} <= has,
}


def cluster_of(rng: Random, nodes: int) -> Cluster:
    classes = [
        NodeClass(1, features=tuple(f for f in FEATURES if rng.random() < 0.6))
        for _ in range(nodes)
    ]
    partitions = [
        Partition(
            f"p{number}",
            tuple(f"c-{node:04d}" for node in range(nodes) if rng.random() < 0.5) or ("c-0000",),
            most_walltime_s=rng.choice([0, 0, 100]),
            most_nodes=rng.choice([0, 0, 2]),
            exclusive=rng.random() < 0.3,
            down=rng.random() < 0.2,
            default=rng.random() < 0.2,
            accounts=rng.choice([(), (), ("a",)]),
            users=rng.choice([(), (), ("u",)]),
        )
        for number in range(rng.randint(0, 4))
    ]
    on = ("c", "s", "m", nodes, 4, (1.0, 2.0), 50.0, 100.0)
    return Cluster(*on, declared_classes=tuple(classes), partitions=tuple(partitions))


def job_of(rng: Random, nodes: int) -> Job:
    named = [f"c-{node:04d}" for node in rng.sample(range(nodes), rng.randint(0, 3))]
    units = rng.randint(1, 4)
    wanted = named[: rng.randint(0, min(units, len(named)))]
    who = rng.choice("uv"), rng.choice("ab")
    return Job(
        *("j", 1, "app", *who, units, rng.choice([50.0, 200.0]), "c", False, 0.0),
        partitions=tuple(f"p{n}" for n in rng.sample(range(5), rng.randint(0, 3))),
        features=rng.choice(list(EXPRESSIONS)),
        nodes_wanted=tuple(wanted),
        nodes_excluded=tuple(name for name in named if name not in wanted),
    )


def plain(job: Job, cluster: Cluster, refused: RefusedToJob) -> list[tuple[set[int], bool]]:
    """The nodes of each partition in which the job may be, and whether it is exclusive."""
    names = [f"c-{node:04d}" for node in range(cluster.nodes)]
    asked = [p for name in job.partitions for p in cluster.partitions if p.name == name]
    if not job.partitions:
        asked = [p for p in cluster.partitions if p.default]
    if job.partitions or asked:
        offered = [
            ({names.index(name) for name in p.nodes}, p.exclusive)
            for p in asked
            if not p.down
            and p.name not in refused.partitions
            and (not p.most_nodes or job.nodes <= p.most_nodes)
            and (not p.most_walltime_s or job.walltime_s <= p.most_walltime_s)
            and (not p.accounts or job.account in p.accounts)
            and (not p.users or job.user in p.users)
        ]
    else:
        left_out = [p for p in cluster.partitions if p.name in refused.partitions]
        nodes = {n for n, name in enumerate(names) if not any(name in p.nodes for p in left_out)}
        offered = [(nodes, False)]
    found: list[tuple[set[int], bool]] = []
    for there, exclusive in offered:
        nodes = {
            node
            for node in there
            if EXPRESSIONS[job.features](set(cluster.declared_classes[node].features))
            and names[node] not in job.nodes_excluded
            and not (refused.nodes >> node) & 1
        }
        has_all = {*job.nodes_wanted} <= {names[node] for node in nodes}
        if nodes and has_all and (nodes, exclusive) not in found:
            found.append((nodes, exclusive))
    return found


@pytest.mark.parametrize("first", range(0, 2000, 200))
def test_a_job_may_be_on_the_nodes_that_a_plain_reading_has(first: int) -> None:
    for seed in range(first, first + 200):
        rng = Random(seed)
        nodes = rng.randint(1, 12)
        cluster, job = cluster_of(rng, nodes), job_of(rng, max(nodes, 3))
        refused = RefusedToJob(
            node_set(rng.sample(range(nodes), rng.choice([0, 0, 1]))), rng.choice([(), (), ("p0",)])
        )
        found = [
            ({int(n) for n in members(each.nodes, nodes).nonzero()[0]}, each.exclusive)
            for each in where_on(job, cluster, job.nodes, refused)
        ]
        assert found == plain(job, cluster, refused), seed


def test_a_set_of_nodes_has_its_members() -> None:
    nodes = [0, 7, 8, 63, 64, 9_999]
    assert members(node_set(nodes), 10_000).nonzero()[0].tolist() == nodes
    assert not members(node_set(()), 5).any()


def declared(*partitions: Partition, **changes: Any) -> Cluster:
    on = ("c", "s", "m", 8, 4, (1.0, 2.0), 50.0, 100.0)
    return Cluster(*on, partitions=partitions, **changes)


def asking(**changes: Any) -> Job:
    return Job("j", 1, "app", "u", "a", 2, 60.0, "c", False, 0.0, **changes)


def test_a_job_in_a_partition_of_all_nodes_is_counted_as_one_that_asks_for_nothing() -> None:
    cluster = declared(Partition("all"), Partition("few", ("c-0001",)))
    names = ("cores", "memory_mib")
    anywhere = kind_on(asking(), cluster, names)
    assert anywhere is not None
    assert counts_nodes(asking(), anywhere, cluster)
    assert kind_on(asking(partitions=("all",)), cluster, names) == anywhere
    few = kind_on(asking(partitions=("few",)), cluster, names)
    assert few is not None
    assert not counts_nodes(asking(partitions=("few",)), few, cluster)


def test_a_job_of_more_nodes_than_its_partition_fits_in_none_of_two() -> None:
    halves = Partition("a", ("c-[0000-0003]",)), Partition("b", ("c-[0004-0007]",))
    assert most_units(asking(partitions=("a", "b")), declared(*halves)) == 4


def test_equal_clusters_have_one_hash() -> None:
    one, other = declared(Partition("all")), declared(Partition("all"))
    assert one == other
    assert hash(one) == hash(other)


def test_a_job_in_an_exclusive_partition_is_alone_though_its_other_partition_is_down() -> None:
    """Where it runs in the one that is down, it shares."""
    first, all_nodes = ("c-[0000-0003]",), ("c-[0000-0007]",)
    alone, off = Partition("alone", first, exclusive=True), Partition("off", all_nodes, down=True)
    cluster = declared(alone, off)
    job = replace(asking(partitions=("alone", "off"), cores_per_unit=1), shareable=True)
    kinds = [held_kind(job, cluster, ("cores", "memory_mib"), nodes) for nodes in ([1], [1, 5])]
    assert [kind.shape.exclusive for kind in kinds] == [True, False]
