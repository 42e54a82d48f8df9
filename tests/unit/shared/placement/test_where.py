"""Jobs that say where they may run: partitions, features, nodes and clusters."""

from typing import Any

import pytest
from coplace.v1.control_pb2 import NodeClass, Partition
from coplace.v1.jobs_pb2 import REFUSED_KIND_FEATURE, REFUSED_KIND_PARTITION
from coplace.v1.placement_pb2 import (
    CONSTRAINT_KIND_DECLINED,
    CONSTRAINT_KIND_PARTITION_DOWN,
    MISFIT_KIND_CLUSTER,
    MISFIT_KIND_FEATURE,
    MISFIT_KIND_NAMED_NODES,
    MISFIT_KIND_PARTITION,
    VERDICT_REJECTED,
    VERDICT_START,
    PlacementDecided,
)

from shared.catalogue.event import Event
from shared.domain.queue_discipline import QueueDiscipline
from shared.domain.runtimes import Runtimes
from shared.placement.processor.placement import Placement
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import T0_US, end_us, round_of

# Nodes 0 to 3 have GPUs, 4 to 7 are large; `debug` and `batch` overlap in node 3.
PARTITIONS = (
    Partition(name="debug", nodes=["p1-[0000-0003]"], most_walltime_s=3600.0, most_nodes=2),
    Partition(name="batch", nodes=["p1-[0003-0007]"]),
    Partition(name="closed", nodes=["p1-0000"], accounts=["chemistry"]),
)


def declared(*partitions: Partition, time_us: int = T0_US, **changes: Any) -> Event:
    classes = [
        NodeClass(nodes=4, features=["gpu", "rome"]),
        NodeClass(nodes=4, features=["large", "rome"]),
    ]
    whole: dict[str, Any] = {
        "nodes": 8,
        "node_classes": classes,
        "partitions": partitions or PARTITIONS,
    }
    return region.declared("p1", time_us=time_us, **(whole | changes))


def placement() -> Placement:
    made = region.placement(nodes=8)
    region.feed(made, [declared(time_us=T0_US + 1)])
    return made


def job(name: str, **asked: Any) -> Event:
    return region.submitted(name, T0_US + 2, clusters=["p1"], **asked)


def nodes_of(decided: list[PlacementDecided]) -> dict[str, list[int]]:
    return {d.job_id: list(d.node_indices) for d in decided if d.verdict == VERDICT_START}


def start_of(decided: list[PlacementDecided], job_id: str = "a") -> PlacementDecided:
    return next(d for d in decided if d.job_id == job_id and d.verdict == VERDICT_START)


@pytest.mark.parametrize(
    ("asked", "right"),
    [
        ({"partitions": ["batch"]}, {3, 4, 5, 6, 7}),
        ({"partitions": ["debug"]}, {0, 1, 2, 3}),
        ({"features": "gpu"}, {0, 1, 2, 3}),
        ({"partitions": ["batch"], "features": "gpu&rome"}, {3}),
        ({"features": "large|gpu", "nodes_excluded": ["p1-[0000-0006]"]}, {7}),
        ({"nodes_wanted": ["p1-0005"]}, {5}),
    ],
)
def test_a_job_gets_nodes_that_have_all_that_it_asks_for(
    asked: dict[str, Any], right: set[int]
) -> None:
    count = min(len(right), 2)
    found = nodes_of(round_of(placement(), 1, job("a", nodes=count, **asked)))
    assert len(found["a"]) == count
    assert set(found["a"]) <= right or asked.get("nodes_wanted")


def test_all_nodes_of_a_job_are_of_one_of_its_partitions() -> None:
    decided = round_of(placement(), 1, job("a", nodes=5, partitions=["debug", "batch"]))
    assert nodes_of(decided)["a"] == [3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"nodes": 5, "partitions": ["debug", "batch"]}, "batch"),
        ({"nodes": 4, "partitions": ["batch", "debug"]}, "batch"),
        ({"nodes": 1, "partitions": ["debug", "batch"], "nodes_wanted": ["p1-0003"]}, "debug"),
        ({"nodes": 1, "partitions": ["batch", "debug"], "nodes_wanted": ["p1-0003"]}, "batch"),
        ({"nodes": 1, "partitions": ["batch", "debug"], "nodes_wanted": ["p1-0001"]}, "debug"),
        ({"nodes": 1}, ""),
    ],
)
def test_a_start_names_the_partition_that_has_all_its_nodes(
    asked: dict[str, Any], named: str
) -> None:
    start = start_of(round_of(placement(), 1, job("a", **asked)))
    assert start.partition == named


def test_a_start_names_no_partition_that_was_refused() -> None:
    made, asked = placement(), {"partitions": ["batch", "debug"], "nodes_wanted": ["p1-0003"]}
    first = start_of(round_of(made, 1, job("a", **asked)))
    refused = {"refused_kind": REFUSED_KIND_PARTITION, "refused_name": "batch"}
    again = round_of(made, 2, region.declined(first, end_us(1), **refused))
    assert (first.partition, start_of(again).partition) == ("batch", "debug")


def test_wanted_nodes_are_waited_for_and_others_are_added() -> None:
    made = placement()
    first = job("a", nodes=1, nodes_wanted=["p1-0004"], user="eve")
    decided = round_of(made, 1, first, job("b", nodes=3, nodes_wanted=["p1-0004,p1-0006"]))
    assert nodes_of(decided) == {"a": [4]}
    ended = region.finished("a", end_us(2))
    [nodes] = nodes_of(round_of(made, 2, ended)).values()
    assert {4, 6} <= set(nodes)
    assert len(nodes) == 3


def test_a_job_that_asks_for_no_partition_is_in_the_default_ones() -> None:
    made = region.placement(nodes=8)
    default = Partition(name="main", nodes=["p1-[0006-0007]"], default=True)
    region.feed(made, [declared(default, time_us=T0_US + 1)])
    decided = round_of(made, 1, job("a", nodes=2), job("b"))
    assert nodes_of(decided) == {"a": [6, 7]}
    assert start_of(decided).partition == "main"


def test_an_exclusive_partition_gives_a_job_that_shares_its_nodes_alone() -> None:
    made = region.placement(nodes=8)
    alone = Partition(name="alone", nodes=["p1-0000"], exclusive=True)
    region.feed(made, [declared(alone, time_us=T0_US + 1)])
    asked: dict[str, Any] = {"cores_per_unit": 1, "shareable": True, "partitions": ["alone"]}
    decided = round_of(made, 1, job("a", **asked), job("b", **asked))
    assert nodes_of(decided) == {"a": [0]}


def test_a_job_behind_a_reservation_starts_on_nodes_that_are_not_reserved() -> None:
    """Lasting longer than what runs, it would delay the first on any node of `batch`."""
    made = placement()
    round_of(made, 1, job("a", nodes=5, partitions=["batch"], walltime_s=600.0))
    long = {"nodes": 1, "walltime_s": 3600.0}
    waiting = job("b", nodes=5, partitions=["batch"])
    decided = round_of(made, 2, waiting, job("c", features="gpu", **long))
    assert nodes_of(decided)["c"][0] in (0, 1, 2)
    assert not nodes_of(round_of(made, 3, job("d", partitions=["batch"], **long)))


@pytest.mark.parametrize(
    ("asked", "kind", "words"),
    [
        ({"partitions": ["none"]}, MISFIT_KIND_PARTITION, "the cluster has no partition none"),
        (
            {"partitions": ["debug"], "features": "large"},
            MISFIT_KIND_FEATURE,
            "no node of partition debug has feature large",
        ),
        ({"features": "a100"}, MISFIT_KIND_FEATURE, "no node of the cluster has feature a100"),
        (
            {"partitions": ["closed"]},
            MISFIT_KIND_PARTITION,
            "partition closed does not admit account physics",
        ),
        (
            {"partitions": ["debug"], "nodes": 3},
            MISFIT_KIND_PARTITION,
            "partition debug takes jobs of at most 2 nodes, it needs 3",
        ),
        (
            {"partitions": ["debug"], "walltime_s": 7200.0},
            MISFIT_KIND_PARTITION,
            "partition debug takes jobs of at most 3600 s, it asks for 7200 s",
        ),
        (
            {"nodes_wanted": ["x1"]},
            MISFIT_KIND_NAMED_NODES,
            "wants node x1, which the cluster does not have",
        ),
        ({"clusters": ["p2"]}, MISFIT_KIND_CLUSTER, "may run on p2 alone"),
    ],
)
def test_a_job_that_can_run_nowhere_is_rejected_for_what_it_asks_for(
    asked: dict[str, Any], kind: int, words: str
) -> None:
    made = placement()
    region.feed(made, [region.undeclared("p2", T0_US + 3)])
    [decided] = round_of(made, 1, region.submitted("a", T0_US + 2, **asked))
    assert decided.verdict == VERDICT_REJECTED
    assert [(each.kind, each.reason) for each in decided.misfits] == [(kind, words)]


def test_a_job_waits_while_its_partition_is_down() -> None:
    made = region.placement(nodes=8)
    down = Partition(name="batch", nodes=["p1-[0003-0007]"], down=True)
    region.feed(made, [declared(down, time_us=T0_US + 1)])
    assert not nodes_of(round_of(made, 1, job("a", partitions=["batch"])))
    answer = region.answered(made, "a")
    assert "partition batch is down" in str(answer)
    kinds = [c.kind for c in answer.constraints]
    assert CONSTRAINT_KIND_PARTITION_DOWN in kinds
    decided = round_of(made, 2, declared(time_us=end_us(1) + 1))
    assert nodes_of(decided)["a"][0] in range(3, 8)


def test_nodes_that_were_refused_are_not_granted_to_that_job_again() -> None:
    made = placement()
    first = start_of(round_of(made, 1, job("a", nodes=1)))
    node = first.node_indices[0]
    refusal = region.declined(first, end_us(1) + 1, refused_nodes=[f"p1-{node:04d}"])
    second = start_of(round_of(made, 2, refusal))
    assert second.node_indices[0] != node
    other = start_of(round_of(made, 3, job("b", nodes=1)), "b")
    assert other.node_indices[0] == node, "only that job was refused it"


def test_a_refused_partition_is_not_granted_until_the_cluster_is_declared_otherwise() -> None:
    made = placement()
    first = start_of(round_of(made, 1, job("a", partitions=["batch"])))
    thing = {"refused_kind": REFUSED_KIND_PARTITION, "refused_name": "batch"}
    assert not nodes_of(round_of(made, 2, region.declined(first, end_us(1) + 1, **thing)))
    answer = region.answered(made, "a")
    assert CONSTRAINT_KIND_DECLINED in [c.kind for c in answer.constraints]
    assert "p1 refused it partition batch" in str(answer)
    assert not nodes_of(round_of(made, 3, declared(time_us=end_us(2) + 1))), "as it was"
    more = Partition(name="batch", nodes=["p1-[0002-0007]"])
    assert nodes_of(round_of(made, 4, declared(more, time_us=end_us(3) + 1)))


def test_what_was_refused_is_granted_again_once_the_job_is_released() -> None:
    made = placement()
    first = start_of(round_of(made, 1, job("a", features="gpu")))
    thing = {"refused_kind": REFUSED_KIND_FEATURE, "refused_name": "gpu"}
    assert not nodes_of(round_of(made, 2, region.declined(first, end_us(1) + 1, **thing)))
    assert nodes_of(round_of(made, 3, region.released("a", end_us(2) + 1)))


def test_a_refused_node_is_granted_again_once_it_was_resumed() -> None:
    made = placement()
    first = start_of(round_of(made, 1, job("a", nodes=1, nodes_wanted=["p1-0002"])))
    refusal = region.declined(first, end_us(1) + 1, refused_nodes=["p1-0002"])
    assert not nodes_of(round_of(made, 2, refusal))
    resumed = region.resumed("p1", end_us(2) + 1, "p1-0002")
    assert nodes_of(round_of(made, 3, resumed)) == {"a": [2]}


def test_a_restart_remembers_what_was_refused() -> None:
    made = placement()
    first = start_of(round_of(made, 1, job("a", nodes=1, nodes_wanted=["p1-0002"])))
    round_of(made, 2, region.declined(first, end_us(1) + 1, refused_nodes=["p1-0002"]))
    again = Placement(region.saved(made.changes()), made.layers.state.models.rules.now, 7.0)
    assert not nodes_of(round_of(again, 3))


def test_a_declaration_with_a_partition_of_unknown_nodes_is_refused() -> None:
    made = region.placement(nodes=8)
    unknown = Partition(name="batch", nodes=["q[1-4]"])
    with pytest.raises(Exception, match="is not a node of p1"):
        region.feed(made, [declared(unknown, time_us=T0_US + 1)])


def test_predictions_pass_again_once_no_job_waits_that_says_where_it_may_run() -> None:
    made = region.placement(nodes=8, runtimes=Runtimes.PREDICTED)
    region.feed(made, [declared(time_us=T0_US + 1)])
    waiting = job("b", nodes=5, partitions=["batch"])
    round_of(made, 1, job("a", nodes=5, partitions=["batch"]), waiting)
    assert "may run on some alone" in made.queries.policy().under_easy["p1"]
    round_of(made, 2, region.cancelled("b", end_us(1) + 1))
    assert "p1" not in made.queries.policy().under_easy


def test_slurms_discipline_reserves_where_a_job_may_run() -> None:
    """The second waits for the nodes of its partition; the third has others."""
    made = region.placement(nodes=8, discipline=QueueDiscipline.SLURM, bf_interval_s=1.0)
    region.feed(made, [declared(time_us=T0_US + 1)])
    jobs = [job(name, nodes=5, partitions=["batch"]) for name in "ab"]
    assert nodes_of(round_of(made, 1, *jobs, job("c", nodes=1))).keys() == {"a", "c"}
    assert made.queries.policy().under_easy == {}
    assert region.answered(made, "b").HasField("reservation")


def test_a_job_of_which_one_node_was_refused_and_the_other_is_drained_waits_for_that() -> None:
    made = placement()
    first = start_of(round_of(made, 1, job("a", nodes=1, nodes_excluded=["p1-[0000-0005]"])))
    refused = {f"p1-{node:04d}" for node in first.node_indices}
    [left] = {"p1-0006", "p1-0007"} - refused
    refusal = region.declined(first, end_us(1) + 1, refused_nodes=sorted(refused))
    drain = region.drained("p1", end_us(1) + 2, left)
    assert not nodes_of(round_of(made, 2, drain, refusal))
    assert "drained" in str(region.answered(made, "a"))
    assert nodes_of(round_of(made, 3, region.resumed("p1", end_us(2) + 1, left)))


def test_a_job_is_not_kept_on_a_cluster_whose_last_partition_that_is_up_is_drained() -> None:
    made = region.placement(nodes=8)
    halves = (
        Partition(name="up", nodes=["p1-[0000-0003]"]),
        Partition(name="off", nodes=["p1-[0004-0007]"], down=True),
    )
    region.feed(made, [declared(*halves, time_us=T0_US + 1)])
    drain = region.drained("p1", T0_US + 2, *(f"p1-{node:04d}" for node in range(4)))
    assert not nodes_of(round_of(made, 1, drain, job("a", partitions=["up", "off"])))
    assert "drained" in str(region.answered(made, "a"))
