"""While a cluster is lost nothing starts there, nothing that runs there is forgotten, and jobs are
ranked as if it did not exist."""

import pytest
from coplace.v1.placement_pb2 import Candidate, PlacementDecided
from hypothesis import given, settings
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from shared.streams.stages.stage import AlreadyAppliedError
from tests.unit.shared.placement.region import (
    APPS,
    PSTATES,
    T0_US,
    answered,
    coefficients,
    declared,
    declined,
    end_us,
    feed,
    finished,
    lost,
    on,
    pair_model,
    placement,
    power,
    returned,
    round_of,
    saved,
    signature,
    started,
    submitted,
    verdict,
    verdicts,
)


@pytest.mark.parametrize("policy", list(Policy))
def test_jobs_that_wait_for_it_go_elsewhere_under_every_policy(policy: Policy) -> None:
    processor = placement(policy=policy)
    round_of(processor, 0, submitted("a", nodes=4), submitted("b", T0_US + 1, nodes=4))
    round_of(processor, 1, submitted("c", end_us(0), nodes=4))
    withdrawn, start = round_of(processor, 2, lost("p1", end_us(1)), finished("b", end_us(1)))
    assert verdicts([withdrawn, start]) == [("a", "withdrawn"), ("c", "start")]
    assert (withdrawn.cluster, start.cluster) == ("p1", "p2")


def test_a_job_that_fits_only_there_waits_with_that_reason_and_starts_on_return() -> None:
    processor = placement()
    feed(processor, [declared("p1", 8, T0_US + 1)])
    [waiting] = round_of(processor, 0, lost("p1", T0_US + 2), submitted("a", nodes=6))
    assert verdict(waiting) == "queued"
    assert waiting.reason == "p1: lost since 2026-01-01T00:00:00Z"
    assert round_of(processor, 1) == []
    assert verdicts(round_of(processor, 2, returned("p1", end_us(1)))) == [("a", "start")]


def test_what_runs_there_is_accounted_and_not_started_twice() -> None:
    processor = placement()
    [decided] = round_of(processor, 0, submitted("a", nodes=3))
    assert round_of(processor, 1, started(decided), lost("p1", end_us(0))) == []
    assert round_of(processor, 100) == []
    [other] = round_of(processor, 101, returned("p1", end_us(100)), submitted("b", nodes=2))
    assert other.cluster == "p2"
    assert on(other, "p1").constraint == "needs 2 nodes, 1 free"
    decided = round_of(processor, 102, finished("a", end_us(101)), submitted("c", nodes=4))[0]
    assert (decided.job_id, decided.cluster) == ("c", "p1")


def test_what_was_granted_there_stays_its_own_until_it_declines_and_then_goes_elsewhere() -> None:
    processor = placement()
    [granted] = round_of(processor, 0, submitted("a", nodes=3))
    [asked] = round_of(processor, 1, lost("p1", end_us(0), "no answer"))
    assert (verdict(asked), asked.cluster) == ("withdrawn", "p1")
    assert asked.reason == "p1: lost since 2026-01-01T00:00:30Z: no answer"
    assert round_of(processor, 1000) == []
    [again] = round_of(processor, 1001, declined(granted, end_us(1000)))
    assert (verdict(again), again.cluster) == ("start", "p2")
    back, other = returned("p1", end_us(1001)), submitted("b", end_us(1001), nodes=4)
    [after_return] = round_of(processor, 1002, back, other)
    assert (after_return.cluster, [*after_return.node_indices]) == ("p1", [0, 1, 2, 3])


def test_the_newest_word_on_a_cluster_holds_and_a_restart_remembers_it() -> None:
    processor = placement()
    feed(processor, [lost("p1", T0_US + 5), returned("p1", T0_US + 7)])
    with pytest.raises(AlreadyAppliedError):
        processor.handle(lost("p1", T0_US + 6))
    feed(processor, [lost("p1", T0_US + 9)])
    state = saved(processor.changes())
    assert round_of(Placement(state, PolicySettings(), 7.0), 0, submitted("a"))[0].cluster == "p2"


def test_a_cluster_that_was_never_declared_cannot_be_lost() -> None:
    with pytest.raises(RejectedError, match="cluster"):
        placement().handle(lost("p9", T0_US))


def test_a_first_run_whose_reference_cluster_is_lost_goes_to_the_best_of_the_rest() -> None:
    processor = placement(policy=Policy.BASE)
    unknown = submitted("a", app_id="unknown", reference_cluster="p2")
    [start] = round_of(processor, 0, lost("p2", T0_US + 1), unknown)
    assert start.cluster == "p1"


def test_a_job_whose_clusters_are_all_lost_is_told_of_its_best() -> None:
    processor = placement()
    both = [lost("p1", T0_US + 1), lost("p2", T0_US + 1)]
    [waiting] = round_of(processor, 0, *both, submitted("a", app_id=APPS[7]))
    assert waiting.reason == "p2: lost since 2026-01-01T00:00:00Z"


# Application, nodes and priority of jobs that wait. App 7 runs better on p2, the others on p1.
WAITING = st.lists(
    st.tuples(st.sampled_from((0, 4, 7)), st.integers(1, 4), st.integers(-1, 1)),
    min_size=2,
    max_size=6,
)


def full(policy: Policy, *clusters: str) -> Placement:
    """Those of three clusters, all nodes held; p3 has the nodes of p1, but no clock above 2 GHz."""
    processor = Placement({}, PolicySettings(policy, start_timeout_s=0), 7.0)
    feed(processor, [power(), pair_model(), coefficients("p1"), coefficients("p2")])
    feed(processor, [signature(app, name) for app in (0, 4, 7) for name in ("p1", "p2")])
    declarations = {
        "p1": declared("p1", 4),
        "p2": declared("p2", 4),
        "p3": declared("p1", 4, cluster="p3", pstates_ghz=PSTATES["p1"][:9]),
    }
    feed(processor, [declarations[name] for name in clusters])
    for name in clusters:
        nodes = [f"{name}-{index:04d}" for index in range(4)]
        run = PlacementDecided(job_id=f"fills {name}", attempt=1, cluster=name)
        filling = submitted(run.job_id, nodes=4, reference_cluster=name)
        feed(processor, [filling, started(run, nodes=nodes)])
    assert round_of(processor, 0) == []
    return processor


def standings(processor: Placement, jobs: list[Event], without: str) -> list[object]:
    """Place and ranking of each job on each cluster."""
    answers = [answered(processor, job.id.split("/")[1]) for job in jobs]
    return [
        (answer.reason, one.place, one.candidate.cluster, weighed(one.candidate))
        for answer in answers
        for one in answer.clusters
        if one.candidate.cluster != without
    ]


def weighed(candidate: Candidate) -> tuple[float, int, float]:
    return candidate.part_eff, candidate.tier, candidate.walltime_s


@pytest.mark.parametrize("policy", list(Policy))
@settings(max_examples=4, deadline=None)
@given(name=st.sampled_from(("p1", "p2", "p3")), waiting=WAITING)
def test_whenever_a_cluster_is_lost_jobs_stand_as_if_it_had_never_been_until_it_returns(
    policy: Policy, name: str, waiting: list[tuple[int, int, int]]
) -> None:
    others = [cluster for cluster in ("p1", "p2", "p3") if cluster != name]
    jobs = [
        submitted(
            f"job-{number}",
            end_us(1) + number,
            app_id=APPS[app],
            nodes=nodes,
            priority=priority,
            reference_cluster=others[0],
        )
        for number, (app, nodes, priority) in enumerate(waiting)
    ]
    gone, back = lost(name, end_us(1)), returned(name, end_us(1) + 50)

    def standing(clusters: list[str], without: str, *history: list[Event]) -> list[object]:
        processor = full(policy, *sorted(clusters))
        for later, events in enumerate(history, 2):
            round_of(processor, later, *events)
        return standings(processor, jobs, without)

    all_three = [*others, name]
    never = standing(others, name, jobs)
    assert standing(all_three, name, [gone], jobs) == never
    assert standing(all_three, name, jobs, [gone]) == never
    assert standing(all_three, name, jobs[:1], [gone], jobs[1:]) == never
    again = lost(name, end_us(1) + 60)
    assert standing(all_three, name, [gone], jobs[:1], [back], jobs[1:], [again]) == never
    ever = standing(all_three, "", jobs)
    assert standing(all_three, "", [gone], jobs, [back]) == ever
    assert standing(all_three, "", jobs, [gone], [back]) == ever
