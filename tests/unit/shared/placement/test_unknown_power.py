"""Jobs of which nothing says what they draw, under caps: what their nodes draw at most counts."""

from typing import Any

import msgspec
import pytest
from coplace.v1.control_pb2 import (
    POWER_SCOPE_CLUSTER,
    POWER_SCOPE_REGION,
    NodeClass,
    PowerScope,
)
from coplace.v1.placement_pb2 import CONSTRAINT_KIND_POWER_UNDECLARED

from coplace_client.errors import RejectedError
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.cluster import Cluster
from shared.domain.eamc_policy import Policy
from shared.domain.job import Job
from shared.placement.decide.published_decisions import recalled
from shared.placement.processor.placement import Placement
from shared.placement.state.candidate import CANDIDATES, nameplate_mw
from shared.streams.stages.stage import Round
from tests.unit.shared.placement.region import (
    T0_US,
    capped,
    decisions,
    declared,
    feed,
    finished,
    on,
    placement,
    power,
    round_of,
    saved,
    signature,
    started,
    submitted,
    verdict,
    verdicts,
)

# p1 has two nodes, which idle at 100 W each.
MOST_W = 700.0
FITS_ONE_W = 200 + 600


def region(
    fallback_w: float = 0.0, models: tuple[str, ...] = ("platinum-8168",), **cluster: Any
) -> Placement:
    processor = Placement({}, PolicySettings(Policy.PRIORITY_INC_V), 7.0)
    feed(processor, [declared("p1", 2, **({"nameplate_power_w": MOST_W} | cluster))])
    if fallback_w:
        feed(processor, [power(fallback_power_w=dict.fromkeys(models, fallback_w))])
    return processor


def cap(watts: float | None, at_us: int = T0_US, scope: Any = POWER_SCOPE_CLUSTER) -> Any:
    name = "p1" if scope == POWER_SCOPE_CLUSTER else ""
    return capped(scope, name, (0, watts), time_us=at_us)


@pytest.mark.parametrize("fallback_w", [0.0, 100.0, 333.0])
def test_nameplate_power_counts_whatever_nodes_of_its_model_draw_in_the_mean(
    fallback_w: float,
) -> None:
    processor = region(fallback_w)
    told = round_of(processor, 0, cap(FITS_ONE_W), submitted("a"), submitted("b"))
    assert dict(verdicts(told)) == {"a": "start", "b": "queued"}
    weighed = on(told[0], "p1")
    assert (weighed.nameplate_power_w, weighed.nameplate_derived) == (MOST_W, False)
    assert on(told[1], "p1").constraint.endswith(
        "nothing says what it draws: the nameplate of 700 W a node counts"
    )


def test_what_is_known_of_a_job_counts_as_it_is_predicted() -> None:
    processor = region()
    feed(processor, [signature(0, "p1", power_w=300.0)])
    told = round_of(processor, 0, cap(FITS_ONE_W), submitted("a"), submitted("b"))
    assert dict(verdicts(told)) == {"a": "start", "b": "start"}
    assert not on(told[0], "p1").nameplate_power_w


def test_a_nameplate_that_follows_from_design_powers_counts_and_is_marked_as_derived() -> None:
    gpus = NodeClass(nodes=1, resources={"gpu": 2}, tdp_w={"gpu": 150.0})
    processor = region(
        nameplate_power_w=0.0, processors_tdp_w=300.0, node_classes=[gpus, NodeClass(nodes=1)]
    )
    told = round_of(processor, 0, cap(FITS_ONE_W), submitted("a"), submitted("b"))
    assert dict(verdicts(told)) == {"a": "start", "b": "queued"}
    weighed = on(told[1], "p1")
    assert (weighed.nameplate_power_w, weighed.nameplate_derived) == (100 + 300 + 2 * 150, True)
    assert "700 W a node, derived from design powers, counts" in weighed.constraint


@pytest.mark.parametrize(
    "undeclared",
    [
        {},
        # GPUs of which nobody says what they draw.
        {"processors_tdp_w": 300.0, "node_classes": [NodeClass(nodes=2, resources={"gpu": 2})]},
    ],
)
@pytest.mark.parametrize("scope", [POWER_SCOPE_CLUSTER, POWER_SCOPE_REGION])
def test_a_cap_over_a_cluster_that_declares_neither_is_refused_with_what_to_declare(
    undeclared: dict[str, Any], scope: PowerScope.ValueType
) -> None:
    processor = region(nameplate_power_w=0.0, **undeclared)
    with pytest.raises(RejectedError, match="cluster p1 declares neither nameplate_power_w nor"):
        processor.handle(cap(FITS_ONE_W, scope=scope))
    feed(processor, [cap(None, scope=scope)])
    assert dict(verdicts(round_of(processor, 0, submitted("a")))) == {"a": "start"}


def test_a_cluster_that_comes_under_a_cap_without_a_nameplate_holds_what_is_not_known() -> None:
    """What is known of a job counts there as ever; the rest starts once it says what nodes draw."""
    processor = region()
    feed(processor, [cap(FITS_ONE_W), declared("p1", 2, T0_US + 1, nameplate_power_w=0.0)])
    feed(processor, [signature(1, "p1", power_w=300.0)])
    jobs = [submitted("a"), submitted("known", T0_US + 1, app_id="app-1")]
    told = {each.job_id: each for each in round_of(processor, 0, *jobs)}
    assert {name: verdict(each) for name, each in told.items()} == {"a": "queued", "known": "start"}
    [constraint] = told["a"].constraints
    assert (constraint.kind, constraint.by) == (CONSTRAINT_KIND_POWER_UNDECLARED, "p1")
    assert told["a"].reason == (
        "p1: nothing says what it draws, and cluster p1 declares neither nameplate_power_w nor "
        "processors_tdp_w (and tdp_w of its GPUs): the power cap of cluster p1 lets it start once "
        "it does"
    )
    says = declared("p1", 2, T0_US + 2, nameplate_power_w=500.0)
    assert ("a", "start") in verdicts(round_of(processor, 1, says))


@pytest.mark.parametrize("steps", [((0, None),), ((0, 800.0), (40, None))])
def test_a_cap_that_is_over_or_taken_away_holds_nothing(
    steps: tuple[tuple[int, float | None], ...],
) -> None:
    processor = region()
    feed(processor, [cap(FITS_ONE_W), declared("p1", 2, T0_US + 1, nameplate_power_w=0.0)])
    assert dict(verdicts(round_of(processor, 0, submitted("a")))) == {"a": "queued"}
    feed(processor, [declared("p1", 2, T0_US + 2)])
    feed(processor, [capped(POWER_SCOPE_CLUSTER, "p1", *steps, time_us=T0_US + 3)])
    feed(processor, [declared("p1", 2, T0_US + 4, nameplate_power_w=0.0)])
    if len(steps) > 1:
        assert processor.wake_us() == T0_US + 40_000_000
    assert verdicts(round_of(processor, 1)) == [("a", "start")]


@pytest.mark.parametrize("restarts", [False, True])
def test_what_runs_counts_by_the_nameplate_that_is_declared_after_its_start(
    restarts: bool,
) -> None:
    processor = region(nameplate_power_w=0.0)
    [start] = round_of(processor, 0, submitted("a"))
    state = saved(processor.changes())
    if restarts:
        processor = Placement(state, PolicySettings(Policy.PRIORITY_INC_V), 7.0)
    feed(processor, [started(start), declared("p1", 2, T0_US + 1), cap(200 + 2 * 233)])
    feed(processor, [declared("p1", 2, T0_US + 2, nameplate_power_w=400.0)])
    assert dict(verdicts(round_of(processor, 1, submitted("b")))) == {"b": "queued"}
    [standing] = [one for one in processor.queries.power().standings if one.HasField("cap_w")]
    assert (standing.committed_w, standing.headroom_w) == (300.0, 466.0 - 300.0)
    assert ("b", "start") in verdicts(round_of(processor, 2, finished("a", T0_US + 3, grant=1)))


def test_a_decision_that_was_published_is_played_with_what_it_counted_by() -> None:
    """The state is restored to before the round, and knows more of the job by now."""
    processor = region(333.0)
    feed(processor, [cap(FITS_ONE_W)])
    before = saved(processor.changes())
    feed(processor, [submitted("a")])
    published = [each.event for each in processor.end_round(Round(1, T0_US + 60_000_000))]
    recall = recalled(before, published, 1)
    again = Placement(saved(before, recall), PolicySettings(Policy.PRIORITY_INC_V), 7.0)
    feed(again, [submitted("a"), signature(0, "p1", power_w=300.0)])
    for number in (1, 2):
        assert decisions(again.end_round(Round(number, T0_US + number * 60_000_000))) == []
    [standing] = [one for one in again.queries.power().standings if one.HasField("cap_w")]
    assert standing.committed_w == 600.0


def test_what_a_resource_manager_starts_counts_by_its_nameplate_too() -> None:
    processor = region()
    [start] = round_of(processor, 0, submitted("a"))
    told = started(start, grant=0, nodes=["p1-0000", "p1-0001"])
    round_of(processor, 1, told, cap(1_400.0))
    [standing] = [one for one in processor.queries.power().standings if one.HasField("cap_w")]
    assert standing.committed_w == 2 * 600.0


def test_units_draw_at_most_their_share_and_what_their_accelerators_are_designed_for() -> None:
    """Of 1,100 W beyond idle 800 W are the accelerators': a unit's GPU counts as what it is, its
    cores as their share; what has no design power as its share of a node's."""
    with_gpus = Cluster(
        *("g1", "site", "model", 2, 10, (2.0,), 100.0, 200.0),
        nameplate_power_w=1_200.0,
        declared_classes=(_with_gpus(400.0),),
    )
    assert nameplate_mw(_job(), with_gpus, 2) == 2_200_000
    assert nameplate_mw(_job(cores_per_unit=1), with_gpus, 3) == 330_000
    gpu = _job(cores_per_unit=1, resources_per_unit=(("gpu", 1),))
    assert nameplate_mw(gpu, with_gpus, 1) == 110_000 + 400_000 - 80_000
    both = _job(cores_per_unit=10, resources_per_unit=(("gpu", 2),))
    assert nameplate_mw(both, with_gpus, 1) == 1_100_000
    unrated = Cluster(
        *("g1", "site", "model", 2, 10, (2.0,), 100.0, 200.0),
        nameplate_power_w=1_200.0,
        declared_classes=(_with_gpus(0.0),),
    )
    assert nameplate_mw(gpu, unrated, 1) == 550_000
    assert nameplate_mw(gpu, Cluster("g1", "site", "model", 2, 10, (2.0,), 100.0, 200.0), 1) == 0


def _with_gpus(tdp_w: float) -> Any:
    from shared.domain.cluster import NodeClass as Nodes

    return Nodes(2, resources=(("gpu", 2),), tdp_w=(("gpu", tdp_w),) if tdp_w else ())


def _job(**asked: Any) -> Job:
    return Job("j", 1, "app", "ada", "physics", 1, 3_600.0, "g1", False, 0.0, **asked)


def test_a_whole_region_keeps_to_its_cap_by_the_nameplates_of_what_nothing_is_known_of() -> None:
    processor = placement(4)
    jobs = [submitted(f"j{n}", T0_US + n, app_id="new", nodes=2) for n in range(4)]
    told = round_of(processor, 0, cap(800 + 3 * 466, scope=POWER_SCOPE_REGION), *jobs)
    assert sorted(verdicts(told)) == [
        *(("j0", "start"), ("j1", "start")),
        *(("j2", "start"), ("j3", "queued")),
    ]


def test_rows_of_the_release_before_are_read_as_of_jobs_that_are_known_and_explore_nothing() -> (
    None
):
    processor = region()
    round_of(processor, 0, cap(FITS_ONE_W), submitted("a"), submitted("b"))
    [candidate] = processor.layers.state.jobs.waiting()[0].evaluated.candidates
    assert candidate.power_unknown
    of_before = msgspec.msgpack.encode([candidate[:-2]])
    [read] = CANDIDATES.decode(b"\xc1\x01" + of_before)
    assert read == candidate._replace(power_unknown=False, explores_from_ghz=None)
