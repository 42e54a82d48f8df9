"""What placement writes of the largest that it accepts fits into records."""

from collections.abc import Iterable
from typing import Any

import pytest
from coplace.v1.control_pb2 import POWER_SCOPE_CLUSTER, POWER_SCOPE_REGION, POWER_SCOPE_SITE
from coplace.v1.jobs_pb2 import DEPENDENCY_CONDITION_AFTER_OK, Dependency
from coplace.v1.placement_pb2 import PlacementDecided

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.domain.cluster import MOST_CLUSTERS
from shared.domain.eamc_policy import Policy
from shared.placement.explain.constraints import MOST_CANDIDATES
from shared.placement.processor.placement import Placement
from shared.placement.state.job_record import JOBS
from shared.streams.stages.stage import Round
from tests.support.sizes import require_carried
from tests.support.typed import MOST_CONSTRAINTS
from tests.unit.shared.placement.region import (
    T0_US,
    capped,
    decisions,
    declared,
    drained,
    end_us,
    feed,
    finished,
    lost,
    placement,
    round_of,
    seized,
    started,
    submitted,
    verdict,
)


def carried_round(processor: Placement, number: int, *events: Event) -> list[PlacementDecided]:
    """As `round_of`, and each record of it can be carried."""
    feed(processor, events)
    published = list(processor.end_round(Round(number, end_us(number))))
    require_carried(processor, published)
    return decisions(published)


def wide(number: int) -> str:
    """A name of 256 characters of four bytes each."""
    return f"{number:04d}" + "\N{MUSICAL SYMBOL G CLEF}" * 252


def clusters(names: Iterable[str], **changes: Any) -> list[Event]:
    """Clusters like p1."""
    return [declared("p1", time_us=T0_US + 1, cluster=name, **changes) for name in names]


def test_a_job_on_seventy_thousand_named_nodes_has_them_as_host_lists() -> None:
    processor = placement(policy=Policy.BASE)
    feed(processor, clusters(["p1"], nodes=100_000, node_names=["node-rack-[000000-099999]"]))
    first, decided = carried_round(
        processor, 0, submitted("a"), submitted("b", T0_US + 1, nodes=70_000)
    )
    assert [*first.node_names] == ["node-rack-000000"]
    assert [*decided.node_names] == ["node-rack-[000001-070000]"]
    assert len(decided.node_indices) == 70_000


def test_the_nodes_of_a_job_are_kept_as_runs() -> None:
    processor = placement(policy=Policy.BASE)
    free_between = [submitted("a"), submitted("b", T0_US + 1), submitted("c", T0_US + 2)]
    round_of(processor, 0, *free_between)
    round_of(processor, 1, finished("b", end_us(0)), submitted("d", end_us(0), nodes=2))
    value = processor.changes()["job|d"]
    assert value is not None
    assert bytes([0x94, 1, 1, 3, 1]) in value
    restored = JOBS.decode(value).run.allocation
    assert restored is not None
    assert restored.nodes == (1, 3)


def test_names_of_nodes_that_no_decision_could_list_are_refused() -> None:
    irregular = ["building[10-99]-cabinet[10-99]-node[1-9]"]
    with pytest.raises(RejectedError, match=r"node_names: may fill .* number the nodes"):
        placement().handle(clusters(["p1"], nodes=72_900, node_names=irregular)[0])


def test_a_region_has_so_many_clusters_and_no_more() -> None:
    processor = placement()
    feed(processor, clusters(f"c{i}" for i in range(MOST_CLUSTERS - 2)))
    with pytest.raises(RejectedError, match="must be one of the 128 that a region can have"):
        processor.handle(clusters(["one more"])[0])
    feed(processor, [declared("p1", 8, T0_US + 2)])


def test_of_many_clusters_a_decision_tells_the_most_favoured_and_counts_the_others() -> None:
    processor = placement(nodes=600)
    feed(processor, clusters(f"c{i:03d}" for i in range(60)))
    [blocked] = carried_round(processor, 0, submitted("first", nodes=2))
    assert verdict(blocked) == "start"
    assert len(blocked.candidates) == MOST_CANDIDATES
    assert blocked.candidates_left_out == 62 - MOST_CANDIDATES
    assert blocked.cluster in {candidate.cluster for candidate in blocked.candidates}
    [few] = round_of(placement(), 0, submitted("few"))
    assert (len(few.candidates), few.candidates_left_out) == (2, 0)


def test_where_a_job_starts_is_told_although_many_are_more_favoured() -> None:
    processor = placement(nodes=2, policy=Policy.PRIORITY_INC)
    feed(processor, clusters((f"c{i:03d}" for i in range(60)), nodes=2))
    feed(processor, clusters(["last"], nodes=2, node_model="slow", peak_bandwidth_gbps=20.0))
    jobs = [submitted(f"j{number:02d}", T0_US + 2 + number, nodes=2) for number in range(63)]
    decided = carried_round(processor, 0, *jobs)
    assert {one.cluster for one in decided} > {"last"}
    for one in decided:
        assert one.cluster in {candidate.cluster for candidate in one.candidates}
        assert len(one.candidates) == MOST_CANDIDATES


def test_the_largest_job_on_the_longest_names_fits() -> None:
    processor = placement()
    feed(processor, clusters(wide(i) for i in range(MOST_CLUSTERS - 2)))
    largest = submitted(
        wide(9_000),
        nodes=2,
        user=wide(1),
        account=wide(2),
        app_id=wide(3),
        depends_on=[
            Dependency(job_id=wide(i), condition=DEPENDENCY_CONDITION_AFTER_OK, delay_s=1e7 / 3)
            for i in range(64)
        ],
        job_name=wide(4),
        sequence=wide(5),
        held_because=wide(6),
    )
    feed(processor, [lost(wide(i), T0_US + 2, wide(4)) for i in range(20)])
    [decided] = carried_round(processor, 0, largest)
    assert verdict(decided) == "held"
    assert decided.candidates_left_out == MOST_CLUSTERS - MOST_CANDIDATES


def test_all_that_can_stand_against_a_job_on_the_longest_names_fits() -> None:
    """On each cluster nodes that are held and drained, and the caps of cluster, site and region."""
    processor = placement()
    names = [wide(number) for number in range(MOST_CANDIDATES + 8)]
    for number, name in enumerate(names):
        feed(processor, clusters([name], nodes=2, site=wide(100 + number)))
        feed(processor, [drained(name, T0_US + 2, f"{name}-0000", until_us=end_us(9), why=wide(1))])
    feed(processor, [lost("p1", T0_US + 1), lost("p2", T0_US + 1)])
    idle_w = 200.0
    caps = [(POWER_SCOPE_CLUSTER, name, idle_w) for name in names]
    caps += [(POWER_SCOPE_SITE, wide(100 + number), idle_w) for number in range(len(names))]
    caps += [(POWER_SCOPE_REGION, "", idle_w * (len(names) + 4))]
    for scope, name, least_w in caps:
        feed(processor, [capped(scope, name, (0, least_w + 1), reason=wide(2))])
    largest = submitted(wide(9_000), nodes=2, app_id="", reference_cluster=names[0])
    [decided] = carried_round(processor, 0, largest)
    assert verdict(decided) == "queued"
    told = [one for one in decided.candidates if len(one.power.shortages) == 3]
    assert len(told) == MOST_CANDIDATES
    assert {len(one.constraints) for one in told} == {MOST_CONSTRAINTS - 1}
    assert max(len(one.SerializeToString()) for one in told) < 20 * 1024


def test_a_job_whose_void_starts_are_claimed_everywhere_fits() -> None:
    processor = placement(policy=Policy.BASE)
    feed(processor, clusters(wide(i) for i in range(MOST_CLUSTERS - 2)))
    [granted] = carried_round(processor, 0, submitted("a", nodes=2))
    carried_round(processor, 1, seized("a", end_us(0)))
    claims = [started(granted, cluster=wide(number), nodes=[]) for number in range(17)]
    feed(processor, claims[:16])
    with pytest.raises(RejectedError, match="report the rest again"):
        processor.handle(claims[16])
    assert len(carried_round(processor, 2)) >= 16
    feed(processor, claims[16:])
