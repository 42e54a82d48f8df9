"""Jobs that wait are evaluated again where updates are for them; clusters can be undeclared."""

from typing import Any

import pytest
from coplace.v1.placement_pb2 import PlacementDecided
from hypothesis import given, settings
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.placement.evaluate import layer as of_placement
from shared.placement.processor.placement import Placement
from shared.streams.stages.stage import AlreadyAppliedError
from tests.unit.shared.placement.region import (
    APPS,
    T0_US,
    Twins,
    answered,
    coefficients,
    declared,
    declined,
    drained,
    end_us,
    feed,
    finished,
    lost,
    models,
    pair_model,
    placement,
    power,
    returned,
    round_of,
    saved,
    signature,
    started,
    started_on,
    starts,
    submitted,
    undeclared,
    verdict,
)

P3: dict[str, Any] = {"cluster": "p3"}


def alone(nodes: int = 4, **rules: Any) -> Placement:
    """A region of p1."""
    processor = Placement({}, PolicySettings(**rules), 7.0)
    events = [declared("p1", nodes), coefficients("p1"), *(signature(n, "p1") for n in range(8))]
    feed(processor, [*events, power(), pair_model()])
    return processor


def full(processor: Placement) -> None:
    """A job has all of p1, and another one waits."""
    first = submitted("first", nodes=4)
    assert starts(round_of(processor, 0, first, submitted("a", T0_US + 1, nodes=4))) == ["first"]


def weighed(processor: Placement, job_id: str) -> dict[str, tuple[float, float]]:
    """Time and P-state by cluster."""
    answer = answered(processor, job_id)
    found = (one.candidate for one in answer.clusters)
    return {one.cluster: (one.time_s, one.freq_ghz) for one in found}


@pytest.mark.parametrize("policy", list(Policy))
def test_a_job_that_waits_goes_to_a_cluster_that_is_declared_since(policy: Policy) -> None:
    processor = alone(policy=policy)
    full(processor)
    decided = round_of(processor, 1, declared("p1", 4, end_us(0), **P3))
    if policy is Policy.BASE:  # waits for the best of both, which p1 is as well
        assert set(weighed(processor, "a")) == {"p1", "p3"}
    else:
        assert started_on(decided) == {"a": "p3"}


def test_a_job_that_waits_runs_at_a_p_state_that_its_cluster_has_now() -> None:
    processor = alone()
    full(processor)
    slower = declared("p1", 4, end_us(0), pstates_ghz=[1.2, 2.0])
    feed(processor, [slower, finished("first", end_us(0) + 1)])
    [start] = round_of(processor, 1)
    assert start.freq_ghz in (1.2, 2.0)


def test_coefficients_and_a_first_signature_are_news_and_a_refined_one_is_none() -> None:
    processor = Placement({}, PolicySettings(), 7.0)
    feed(processor, [declared("p1", 4), power(), pair_model()])
    round_of(processor, 0, submitted("first", nodes=4), submitted("a", T0_US + 1, nodes=4))
    assert weighed(processor, "a")["p1"][0] == 3600.0
    round_of(processor, 1, signature(0, "p1", end_us(0)))
    assert weighed(processor, "a")["p1"][0] == 50.0
    round_of(processor, 2, signature(0, "p1", end_us(1), time_s=55.0))
    assert weighed(processor, "a")["p1"][0] == 50.0
    round_of(processor, 3, coefficients("p1"))
    assert weighed(processor, "a")["p1"][0] == 55.0
    round_of(processor, 4, signature(1, "p1", end_us(3)))
    assert weighed(processor, "a")["p1"][0] == 55.0


def test_a_declaration_of_what_is_known_weighs_nothing_again() -> None:
    processor = alone()
    full(processor)
    before = processor.changes()
    round_of(processor, 1, declared("p1", 4, end_us(0)))
    assert "job|a" in before
    assert "job|a" not in processor.changes()


def test_many_jobs_are_weighed_again_in_several_rounds_which_come_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(of_placement, "_MOST_EVALUATED_ANEW", 2)
    twins = Twins(alone)
    waiting = [submitted(f"j{n}", T0_US + n, nodes=4) for n in range(6)]
    twins.round_of(0, *waiting)
    news = declared("p1", 4, end_us(1), **P3)
    for number in (2, 3, 4):
        twins.kill()
        twins.round_of(number, *([news] if number == 2 else []))
        wake_us = twins.lived.wake_us()
        assert wake_us is not None
        assert (wake_us < end_us(number) + 1_000_000) == (number < 4)
        known = [n for n in range(1, 6) if "p3" in weighed(twins.lived, f"j{n}")]
        assert len(known) == min(2 * (number - 1), 5) - 1  # one of them has started


def test_nothing_starts_on_a_cluster_that_was_undeclared_and_what_runs_there_ends() -> None:
    processor = placement()
    [run] = round_of(processor, 0, submitted("first", nodes=4))
    decided = round_of(
        processor,
        1,
        started(run),
        undeclared("p1", end_us(0)),
        submitted("a", end_us(0) + 1, nodes=4, reference_cluster="p2"),
    )
    assert started_on(decided) == {"a": "p2"}
    assert [c.cluster for c in processor.queries.nodes("").clusters] == ["p1", "p2"]
    assert processor.queries.nodes("p1").clusters[0].closed == (
        "undeclared by test since 2026-01-01T00:00:30Z: sold"
    )
    round_of(processor, 2, finished("first", end_us(1)))
    round_of(processor, 3)
    assert [c.cluster for c in processor.queries.nodes("").clusters] == ["p2"]
    state = saved(processor.changes())
    assert not [k for k in state if "ClusterDeclared/p1" in k]


def test_a_start_that_nobody_confirmed_is_asked_back_from_an_undeclared_cluster() -> None:
    processor = placement()
    [granted] = round_of(processor, 0, submitted("a"))
    [asked] = round_of(processor, 1, undeclared("p1", end_us(0)))
    assert (verdict(asked), asked.grant) == ("withdrawn", granted.grant)
    decided = round_of(processor, 2, declined(granted, end_us(1)))
    assert started_on(decided) == {"a": "p2"}


def test_a_job_for_an_undeclared_cluster_is_rejected_and_one_that_was_accepted_runs_elsewhere() -> (
    None
):
    processor = placement()
    round_of(processor, 0, lost("p2", T0_US + 1), drained("p1", T0_US + 2), submitted("a"))
    feed(processor, [undeclared("p1", end_us(0))])
    decided = round_of(processor, 1, submitted("b", end_us(0) + 1))
    [rejected] = [d for d in decided if d.job_id == "b"]
    assert verdict(rejected) == "rejected"
    assert rejected.reason == "its reference cluster p1 is not declared: declared are p2"
    back = declared("p2", 4, end_us(1))
    assert [
        (d.job_id, d.cluster) for d in round_of(processor, 2, back, returned("p2", end_us(1)))
    ] == [("a", "p2")]


def test_where_no_cluster_is_left_jobs_wait_until_one_is_declared() -> None:
    processor = alone()
    full(processor)
    feed(processor, [undeclared("p1", end_us(0))])
    [waiting] = round_of(processor, 1, finished("first", end_us(0) + 1))
    assert (verdict(waiting), waiting.reason) == ("queued", "no cluster is declared")
    decided = round_of(processor, 2, declared("p1", 4, end_us(1)))
    assert started_on(decided) == {"a": "p1"}


def test_what_was_accepted_and_fits_nowhere_now_is_held_until_something_larger_comes() -> None:
    processor = alone()
    full(processor)
    [held] = round_of(processor, 1, declared("p1", 2, end_us(0)))
    assert (held.job_id, verdict(held)) == ("a", "held")
    assert held.reason == (
        "fits on no cluster: p1: needs 4 nodes, the cluster has 2, as declared now"
    )
    gone = finished("first", end_us(1))
    assert [
        (d.job_id, d.cluster) for d in round_of(processor, 2, gone, declared("p1", 8, end_us(1)))
    ] == [("a", "p1")]


def test_a_loss_of_before_a_cluster_was_undeclared_does_not_come_back_by_a_restart() -> None:
    processor = placement()
    feed(processor, [lost("p1", T0_US + 1), undeclared("p1", T0_US + 2)])
    feed(processor, [declared("p1", 4, T0_US + 3), drained("p2", T0_US + 3)])
    state = saved(processor.changes())
    for one in (Placement(state, PolicySettings(), 7.0), processor):
        assert [(d.job_id, d.cluster) for d in round_of(one, 0, submitted("a", T0_US + 4))] == [
            ("a", "p1")
        ]


def test_what_was_said_of_a_cluster_before_it_was_undeclared_comes_late() -> None:
    processor = placement()
    late = declared("p1", 9, T0_US + 5)
    feed(processor, [undeclared("p1", T0_US + 9)])
    for one in (late, lost("p1", T0_US + 6)):
        with pytest.raises(AlreadyAppliedError):
            list(processor.handle(one))
    round_of(processor, 0)
    for one in (late, undeclared("p1", T0_US + 9)):
        with pytest.raises((AlreadyAppliedError, RejectedError)):
            list(processor.handle(one))
    with pytest.raises(RejectedError, match="cluster"):
        list(processor.handle(undeclared("p9", T0_US + 10)))


class Told:
    """What is published round by round, and what must follow from it."""

    def __init__(self) -> None:
        self.there: set[str] = set()
        self.waiting: set[str] = set()
        self.running: list[str] = []

    def events(self, step: str, at_us: int) -> list[Event]:
        """What a step publishes; nothing where there is nothing of the kind."""
        name = step.removeprefix("-")
        if step in ("job", "large"):
            return [self._submitted(5 if step == "large" else 2, at_us)] if self.there else []
        if step == "end":
            return [finished(self.running.pop(), at_us)] if self.running else []
        if step.startswith("-") and name not in self.there:
            return []
        self.there ^= {name} if step.startswith("-") or name not in self.there else set()
        if step.startswith("-"):
            return [undeclared(name, at_us)]
        return [declared("p2" if step == "p2" else "p1", 4, at_us, cluster=step)]

    def _submitted(self, nodes: int, at_us: int) -> Event:
        job_id = f"job-{at_us}"
        self.waiting.add(job_id)
        where = min(self.there)
        return submitted(job_id, at_us, nodes=nodes, app_id=APPS[1], reference_cluster=where)

    def follow(self, decided: list[PlacementDecided]) -> None:
        """Nothing starts where no cluster is."""
        for one in decided:
            assert verdict(one) != "start" or one.cluster in self.there
            if verdict(one) in ("start", "rejected"):
                self.waiting.discard(one.job_id)
        self.running += starts(decided)

    def check(self, processor: Placement) -> None:
        """A waiting job was evaluated for each cluster that is there, and for no other."""
        for job_id in self.waiting if self.there else ():
            assert set(weighed(processor, job_id)) == self.there


@settings(max_examples=25, deadline=None)
@given(
    rounds=st.lists(
        st.lists(st.sampled_from(["p1", "p2", "p3", "-p1", "-p2", "-p3", "job", "large", "end"])),
        min_size=1,
        max_size=8,
    )
)
def test_jobs_that_wait_know_every_declared_cluster_and_start_on_no_other(
    rounds: list[list[str]],
) -> None:
    told, twins = Told(), Twins(lambda: Placement({}, PolicySettings(), 7.0))
    twins.tell(*(e for e in models(4) if "declared" not in e.id))
    for number, steps in enumerate(rounds, 1):
        events = [
            event
            for place, step in enumerate(steps)
            for event in told.events(step, end_us(number - 1) + place)
        ]
        twins.kill()
        decided = twins.round_of(number, *events)
        told.follow(decided)
        told.check(twins.lived)
        twins.tell(*(started(d) for d in decided if verdict(d) == "start"))
