"""Heterogeneous jobs: all parts of a gang start together, on nodes of their own, or none does."""

from typing import Any

import pytest
from coplace.v1.control_pb2 import (
    LIMIT_SUBJECT_USER,
    NodeClass,
    Partition,
)
from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_CANCELLED,
    REFUSED_KIND_PARTITION,
    JobSubmitted,
    Part,
)
from coplace.v1.placement_pb2 import (
    CONSTRAINT_KIND_CAPACITY,
    CONSTRAINT_KIND_LIMIT,
    CONSTRAINT_KIND_PARTITION_DOWN,
    CONSTRAINT_KIND_RESERVATION,
    CONSTRAINT_KIND_RESERVED_NODES,
    MISFIT_KIND_CORES,
    MISFIT_KIND_FEATURE,
    MISFIT_KIND_MEMORY,
    MISFIT_KIND_PARTS,
    VERDICT_REJECTED,
    VERDICT_START,
    PlacementDecided,
)
from coplace.v1.placement_service_pb2 import JOB_STANDING_FINISHED, JOB_STANDING_RUNNING

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.catalogue.payloads.domain_types import dependencies_of, job_of
from shared.domain.queue_discipline import QueueDiscipline
from shared.placement.explain.quoting import quoted_placement
from shared.placement.explain.start_estimates import StartEstimates
from shared.placement.processor.placement import Placement
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import T0_US, end_us, round_of

LIMIT_S = 600.0
# Nodes 0 and 1 have GPUs, 6 and 7 much memory; `debug` and `batch` overlap in node 3.
CLASSES = (
    NodeClass(nodes=2, memory_gib=192.0, resources={"gpu": 4}, features=["gpu"]),
    NodeClass(nodes=4, memory_gib=192.0),
    NodeClass(nodes=2, memory_gib=1536.0, features=["large"]),
)
PARTITIONS = (
    Partition(name="debug", nodes=["p1-[0000-0003]"], most_nodes=2),
    Partition(name="batch", nodes=["p1-[0003-0007]"]),
)


def declared(time_us: int = T0_US + 1, **changes: Any) -> Event:
    whole: dict[str, Any] = {"nodes": 8, "node_classes": CLASSES, "partitions": PARTITIONS}
    return region.declared("p1", time_us=time_us, **(whole | changes))


def placement(**rules: Any) -> Placement:
    made = region.placement(nodes=8, **rules)
    region.feed(made, [declared()])
    return made


def gang(name: str, *parts: Part, **asked: Any) -> Event:
    nodes = sum(-(-part.units // (part.units_per_node or 1)) for part in parts)
    said: dict[str, Any] = {"nodes": nodes, "clusters": ["p1"], "walltime_s": LIMIT_S}
    return region.submitted(name, T0_US + 2, parts=parts, **(said | asked))


def job(name: str, **asked: Any) -> Event:
    return region.submitted(name, T0_US + 2, clusters=["p1"], **({"walltime_s": LIMIT_S} | asked))


def starts(decided: list[PlacementDecided]) -> dict[str, PlacementDecided]:
    return {each.job_id: each for each in decided if each.verdict == VERDICT_START}


def parts_of(decided: PlacementDecided) -> list[list[int]]:
    return [list(part.node_indices) for part in decided.parts]


def test_a_part_gets_nodes_that_have_what_its_units_need_together() -> None:
    gpus = Part(units=4, units_per_node=2, resources_per_unit={"gpu": 2}, cores_per_unit=8)
    large = Part(units=1, memory_gib_per_unit=1000.0)
    start = starts(round_of(placement(), 1, gang("a", large, gpus)))["a"]
    [[master], workers] = parts_of(start)
    assert master in (6, 7)
    assert workers == [0, 1]
    assert sorted([master, *workers]) == list(start.node_indices)
    assert [(part.units, part.units_per_node) for part in start.parts] == [(1, 1), (4, 2)]


def test_a_part_that_fits_anywhere_leaves_scarce_nodes_to_the_others() -> None:
    """Each part alone would take them first."""
    any_four = Part(units=5)
    gpus = Part(units=2, features="gpu")
    start = starts(round_of(placement(), 1, gang("a", any_four, gpus)))["a"]
    assert parts_of(start)[1] == [0, 1]
    assert not set(parts_of(start)[0]) & {0, 1}


def test_no_part_starts_while_one_of_them_would_not() -> None:
    made = placement()
    decided = round_of(made, 1, job("a", nodes=1, nodes_wanted=["p1-0000"]))
    assert list(starts(decided)["a"].node_indices) == [0]
    region.feed(made, [region.started(decided[0])])
    parts = Part(units=3), Part(units=2, resources_per_unit={"gpu": 1})
    [waits] = round_of(made, 2, gang("b", *parts))
    assert waits.verdict != VERDICT_START
    assert waits.reason == "p1: needs 5 nodes in 2 parts at once, 4 free"
    [constraint] = waits.constraints
    assert constraint.kind == CONSTRAINT_KIND_CAPACITY
    assert (constraint.needed, constraint.available) == (5, 4)
    assert waits.reservation.start_at_us == decided[0].decided_at_us + LIMIT_S * 1e6
    start = starts(round_of(made, 3, region.finished("a", end_us(2))))["b"]
    assert parts_of(start)[1] == [0, 1]


def test_a_job_starts_beside_a_reserved_gang_where_that_still_fits() -> None:
    """The gang waits for both nodes with GPUs and any other; all but one of those are spare."""
    made = placement()
    first = round_of(made, 1, job("a", nodes=1, nodes_wanted=["p1-0000"]))
    region.feed(made, [region.started(first[0])])
    parts = Part(units=2, features="gpu"), Part(units=1)
    long = {"walltime_s": 100 * LIMIT_S}
    decided = round_of(
        made,
        2,
        gang("b", *parts),
        job("c", nodes=6, **long),
        job("d", nodes=1, features="gpu", **long),
    )
    assert not starts(decided)
    for each in decided[1:]:
        assert [found.kind for found in each.constraints] == [CONSTRAINT_KIND_RESERVATION]
        assert [found.by for found in each.constraints] == ["b"]
    start = starts(round_of(made, 3, job("e", nodes=5, **long)))["e"]
    assert list(start.node_indices) == [2, 3, 4, 5, 6]
    ended = region.finished("a", end_us(3))
    assert list(starts(round_of(made, 4, ended))) == ["b"]


def test_units_of_a_job_that_share_nodes_leave_a_reserved_gang_its_nodes() -> None:
    made = placement()
    first = round_of(made, 1, job("a", nodes=1, nodes_wanted=["p1-0000"]))
    region.feed(made, [region.started(first[0])])
    long = {"walltime_s": 100 * LIMIT_S, "shareable": True, "cores_per_unit": 24}
    parts = Part(units=2, features="gpu"), Part(units=3)
    decided = round_of(made, 2, gang("b", *parts), job("c", nodes=6, **long))
    [start] = starts(decided).values()
    assert start.job_id == "c"
    assert list(start.node_units) == [2, 2, 2]
    assert not set(start.node_indices) & {0, 1}
    assert "d" not in starts(round_of(made, 3, job("d", nodes=1, **long)))


def test_a_gang_starts_beside_a_reserved_one_where_both_fit() -> None:
    made = placement()
    first = round_of(made, 1, job("a", nodes=1, nodes_wanted=["p1-0000"]))
    region.feed(made, [region.started(first[0])])
    long = 100 * LIMIT_S
    parts = Part(units=1, features="gpu"), Part(units=1, features="large")
    decided = round_of(
        made,
        2,
        gang("b", Part(units=2, features="gpu"), Part(units=2)),
        gang("c", *parts, walltime_s=long),
        gang("d", Part(units=3), Part(units=1, features="large"), walltime_s=long),
    )
    assert list(starts(decided)) == ["d"]


def test_all_nodes_of_a_part_are_of_one_of_its_partitions() -> None:
    either = Part(units=3, partitions=["debug", "batch"])
    start = starts(round_of(placement(), 1, gang("a", either, Part(units=2, features="gpu"))))["a"]
    assert set(parts_of(start)[0]) <= {3, 4, 5, 6, 7}


def test_what_a_part_does_not_say_the_job_says() -> None:
    asked = {"partitions": ["batch"], "nodes_excluded": ["p1-0003"]}
    parts = Part(units=1), Part(units=1, partitions=["debug"], nodes_excluded=["p1-[0000-0002]"])
    start = starts(round_of(placement(), 1, gang("a", *parts, **asked)))["a"]
    [[one], other] = parts_of(start)
    assert one in (4, 5, 6, 7)
    assert other == [3]


def test_a_wanted_node_is_of_the_part_that_wants_it() -> None:
    parts = Part(units=4), Part(units=2, nodes_wanted=["p1-0002"])
    start = starts(round_of(placement(), 1, gang("a", *parts)))["a"]
    assert 2 in parts_of(start)[1]


@pytest.mark.parametrize(
    ("parts", "kind", "words"),
    [
        ([Part(units=1), Part(units=3, features="gpu")], None, "part 1: needs 3 nodes"),
        ([Part(units=1), Part(units=1, features="fast")], MISFIT_KIND_FEATURE, "part 1: no node"),
        (
            [Part(units=2, units_per_node=2, cores_per_unit=25)],
            MISFIT_KIND_CORES,
            "part 0: needs 50 cores on a node",
        ),
        (
            [Part(units=2, units_per_node=2, memory_gib_per_unit=1000.0)],
            MISFIT_KIND_MEMORY,
            "part 0: no node",
        ),
        (
            [Part(units=2, features="gpu"), Part(units=1, resources_per_unit={"gpu": 1})],
            MISFIT_KIND_PARTS,
            "needs 3 nodes for its 2 parts at once, 2 fit them",
        ),
    ],
)
def test_a_gang_that_never_fits_is_rejected_and_the_part_is_named(
    parts: list[Part], kind: int | None, words: str
) -> None:
    [decided] = round_of(placement(), 1, gang("a", *parts))
    assert decided.verdict == VERDICT_REJECTED
    [misfit] = decided.misfits[:1]
    assert misfit.reason.startswith(words)
    assert kind in (None, misfit.kind)


@pytest.mark.parametrize(
    ("asked", "field", "words"),
    [
        ({"nodes": 3}, "nodes", "must be 2"),
        ({"shareable": True}, "shareable", "no other jobs"),
        ({"cores_per_unit": 4}, "cores_per_unit", "of each part"),
        ({"memory_gib": 4.0}, "memory_gib", "of each part"),
        ({"resources_per_unit": {"gpu": 1}}, "resources_per_unit", "of each part"),
        ({"nodes_wanted": ["p1-0000"]}, "nodes_wanted", "of each part"),
        ({"partitions": [str(n) for n in range(9)]}, "parts", "81 choices"),
    ],
)
def test_a_submission_that_says_of_the_whole_what_is_of_parts_is_refused(
    asked: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(RejectedError) as refused:
        region.feed(placement(), [gang("a", Part(units=1), Part(units=1), **asked)])
    assert refused.value.field == field
    assert words in refused.value.problem


def test_a_node_that_two_parts_want_is_refused() -> None:
    parts = [Part(units=1, nodes_wanted=["p1-0000"])] * 2
    with pytest.raises(RejectedError, match="twice"):
        region.feed(placement(), [gang("a", *parts)])


def test_a_gang_waits_for_windows_on_nodes_of_each_of_its_parts() -> None:
    made = placement()
    window = region.reserved("fan", 300.0, 900.0, T0_US + 2, nodes=["p1-0000"])
    parts = Part(units=2, features="gpu"), Part(units=1)
    [waits] = round_of(made, 1, window, gang("a", *parts))
    assert waits.constraints[0].kind == CONSTRAINT_KIND_RESERVED_NODES
    assert waits.reservation.start_at_us == T0_US + 900_000_000
    assert "b" in starts(round_of(made, 2, gang("b", Part(units=1, features="gpu"), Part(units=1))))


def test_a_gang_of_a_reservation_runs_on_its_nodes_alone() -> None:
    made = placement()
    own = region.reserved(
        "course", -60.0, 9000.0, T0_US + 2, nodes=["p1-[0000,0004-0006]"], users=["ada"]
    )
    parts = Part(units=2), Part(units=1, features="gpu")
    decided = round_of(made, 1, own, gang("a", *parts, reservation="course", user="ada"))
    assert parts_of(starts(decided)["a"])[1] == [0]
    assert set(starts(decided)["a"].node_indices) <= {0, 4, 5, 6}


def test_a_gang_whose_partition_is_down_says_so() -> None:
    made = placement()
    down = Partition(name="debug", nodes=["p1-[0000-0003]"], down=True)
    region.feed(made, [declared(T0_US + 3, partitions=[down, PARTITIONS[1]])])
    parts = Part(units=1), Part(units=1, partitions=["debug"])
    [waits] = round_of(made, 1, gang("a", *parts))
    assert waits.constraints[0].kind == CONSTRAINT_KIND_PARTITION_DOWN
    assert waits.constraints[0].by == "debug"


def test_a_partition_that_was_refused_a_gang_is_not_granted_to_it_again() -> None:
    made = placement()
    either = Part(units=1, partitions=["debug", "batch"])
    [start] = round_of(made, 1, gang("a", Part(units=1, features="large"), either))
    assert parts_of(start)[1][0] < 3
    refused = {"refused_kind": REFUSED_KIND_PARTITION, "refused_name": "debug"}
    [again] = round_of(made, 2, region.declined(start, end_us(2), **refused))
    assert parts_of(again)[1][0] > 2


def test_limits_count_the_resources_of_all_parts() -> None:
    made = placement()
    most = region.limits(LIMIT_SUBJECT_USER, "ada", most_resources={"gpu": 5})
    parts = Part(units=4, units_per_node=2, resources_per_unit={"gpu": 1}), Part(units=2)
    decided = round_of(made, 1, most, gang("a", *parts, user="ada"))
    assert "a" in starts(decided)
    [waits] = round_of(made, 2, gang("b", Part(units=2, resources_per_unit={"gpu": 1}), user="ada"))
    limit = next(each for each in waits.constraints if each.kind == CONSTRAINT_KIND_LIMIT)
    assert (limit.needed, limit.available) in {(2, 1), (2, 5), (6, 5)}


def test_a_cap_counts_a_gang_as_a_job_of_as_many_nodes() -> None:
    parts = Part(units=4, units_per_node=2, features="gpu"), Part(units=1)
    drawn_w = [
        candidate.planned_energy_j / candidate.planned_time_s * candidate.nodes
        for asked in (gang("a", *parts), job("a", nodes=3))
        for candidate in [starts(round_of(placement(), 1, asked))["a"].candidates[0]]
    ]
    assert drawn_w[0] == drawn_w[1]


@pytest.mark.parametrize(("with_gpus", "wait_s"), [(1, 0.0), (2, LIMIT_S)])
def test_a_quote_for_a_gang_waits_for_all_its_parts(with_gpus: int, wait_s: float) -> None:
    made = placement()
    first = round_of(made, 1, job("a", nodes=1, nodes_wanted=["p1-0000"]))
    round_of(made, 2, region.started(first[0]))
    asked = gang("q", Part(units=1), Part(units=with_gpus, features="gpu")).payload
    assert isinstance(asked, JobSubmitted)
    found = made.queries.quoted(job_of(asked), dependencies_of(asked))
    last = made.queries.snapshot_with(found, found.runs[-1])
    start = StartEstimates(last, 1000).of(found.arrival)
    assert start is not None
    assert start.expected is not None
    quote = quoted_placement(found, made.queries.as_of_us / 1e6, [start] * 3)
    assert quote.nodes == 1 + with_gpus
    assert quote.wait_s.high == pytest.approx(wait_s, abs=31)


def test_an_array_of_gangs_starts_as_many_tasks_as_fit() -> None:
    made = placement()
    parts = Part(units=1, features="gpu"), Part(units=2)
    decided = starts(round_of(made, 1, gang("a", *parts, array="0-9")))
    assert sorted(decided) == ["a_0", "a_1"]
    taken = [node for each in decided.values() for node in each.node_indices]
    assert len(set(taken)) == 6
    for each in decided.values():
        assert set(parts_of(each)[0]) <= {0, 1}


def test_a_gang_of_alike_parts_counts_nodes_as_a_job_does() -> None:
    made = placement(discipline=QueueDiscipline.SLURM)
    decided = round_of(made, 1, gang("a", Part(units=2), Part(units=3)))
    assert [len(nodes) for nodes in parts_of(starts(decided)["a"])] == [2, 3]


def test_a_restored_placement_decides_gangs_as_one_that_ran_on() -> None:
    made = region.Twins(placement)
    made.round_of(1, job("a", nodes=1, nodes_wanted=["p1-0000"]))
    made.kill()
    parts = Part(units=2, features="gpu"), Part(units=3)
    made.round_of(2, gang("b", *parts), job("c", nodes=4, walltime_s=100 * LIMIT_S))
    made.kill()
    assert "b" in starts(made.round_of(3, region.finished("a", end_us(2))))


def test_slurms_discipline_reserves_for_a_gang_and_starts_its_parts_at_once() -> None:
    made = placement(discipline=QueueDiscipline.SLURM, bf_interval_s=1.0)
    round_of(made, 1, job("a", nodes=8))
    waiting = gang("b", Part(units=1, features="gpu"), Part(units=2)), job("c", nodes=1)
    assert not starts(round_of(made, 2, *waiting))
    assert made.queries.policy().under_easy == {}
    promised = [region.answered(made, name).reservation.start_at_us for name in "bc"]
    assert promised[0] == promised[1] > end_us(2)
    decided = starts(round_of(made, 3, region.finished("a", end_us(2))))
    assert decided.keys() == {"b", "c"}
    taken = [node for part in parts_of(decided["b"]) for node in part]
    assert len({*taken, *decided["c"].node_indices}) == 4


def handed_over(start: PlacementDecided, *nodes: int) -> list[Event]:
    """A gang whose resource manager goes on with a job for each part, on these nodes."""
    began_us = start.decided_at_us + 1_000_000
    ends: dict[str, Any] = {"grant": start.grant, "cluster": "p1", "started_at_us": began_us}
    found = [region.finished("a", began_us, outcome=JOB_OUTCOME_CANCELLED, **ends)]
    for at, node in enumerate(nodes):
        asked = region.submitted(f"a+{at}", T0_US + 2, nodes=1, cores_per_unit=1, shareable=True)
        runs: dict[str, Any] = {"job_id": f"a+{at}", "grant": 0, "started_at_us": began_us}
        found += [asked, region.started(start, nodes=[f"p1-{node:04d}"], **runs)]
    return found


@pytest.mark.parametrize("is_at_once", [True, False])
def test_a_gang_that_goes_on_as_jobs_of_its_parts_holds_no_node_twice(is_at_once: bool) -> None:
    """Some ways report the jobs a moment before the end of the gang."""
    made = placement()
    start = starts(round_of(made, 1, gang("a", Part(units=1), Part(units=1, features="gpu"))))["a"]
    ended, *parts = handed_over(start, *start.node_indices)
    events = [ended, *parts] if is_at_once else parts
    decided = round_of(made, 2, *events)
    if not is_at_once:
        decided += round_of(made, 3, ended)
    assert {each.job_id for each in decided if each.verdict == VERDICT_START} == set()
    [shown] = [each for each in made.queries.clusters().clusters if each.name == "p1"]
    assert shown.free_nodes == 6
    [free] = round_of(made, 4, gang("b", Part(units=5), Part(units=1, features="gpu")))
    assert free.verdict == VERDICT_START
    for name in ("a+0", "a+1"):
        assert region.answered(made, name).standing == JOB_STANDING_RUNNING
    assert region.answered(made, "a").standing == JOB_STANDING_FINISHED
