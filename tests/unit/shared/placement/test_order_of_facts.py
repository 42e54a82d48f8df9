"""In whichever order and however late the facts about a job arrive, they yield the same."""

from collections.abc import Mapping
from dataclasses import replace

from coplace.v1.control_pb2 import DeadLetter
from coplace.v1.jobs_pb2 import JOB_OUTCOME_FAILED
from coplace.v1.placement_pb2 import CONSTRAINT_KIND_RUNS, Constraint, PlacementDecided
from coplace.v1.placement_service_pb2 import (
    JOB_STANDING_FINISHED,
    JOB_STANDING_RUNNING,
    ExplainResponse,
)
from google.protobuf.message import Message
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.catalogue.event import Event, Publish
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.domain.rounds import RoundSource
from shared.placement.processor.placement import Placement
from shared.streams.stages.stage import Stage
from tests.support.lives import Life
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import T0_US, end_us, verdict

_FIRST = PlacementDecided(job_id="a", attempt=1, cluster="p1", node_indices=[0, 1])
_SECOND = PlacementDecided(job_id="a", attempt=2, cluster="p1", node_indices=[2, 3])
STORY = (
    region.submitted("a", T0_US + 1, nodes=2),
    region.held("a", T0_US + 2),
    region.released("a", T0_US + 3),
    region.started(_FIRST, started_at_us=T0_US + 4),
    region.finished("a", T0_US + 5, 1, JOB_OUTCOME_FAILED, cluster="p1"),
    region.requeued("a", T0_US + 6, cluster="p1"),
    region.started(_SECOND, started_at_us=T0_US + 7),
    region.finished("a", T0_US + 8, 2, cluster="p1"),
)
LAST = len(STORY) - 1


class Region:
    """A placement that may be killed after each fact."""

    def __init__(self) -> None:
        stage = Stage(
            "placement",
            ("placement.inputs",),
            ("placement.decisions",),
            self._create,
            single=True,
            rounds=RoundSource.CLOCK,
            puts_barriers=False,
        )
        self.life = Life(stage)
        self.decided: list[Message] = []
        self.rounds = 0
        self.tell(*region.models(4))

    def _create(self, _number: int, restored: Mapping[str, bytes]) -> Placement:
        self.placement = Placement(restored, PolicySettings(Policy.BASE), 7.0)
        return self.placement

    def tell(self, *events: Event) -> None:
        for event in events:
            told = Publish("placement.inputs", replace(event, key="region"))
            self.decided += self.life.tell(told)
        assert not any(isinstance(one, DeadLetter) for one in self.decided)

    def round_of(self, *events: Event) -> list[PlacementDecided]:
        """What is decided at the end of a round that brings these events."""
        self.tell(*events)
        published = self.life.end_round(end_us(self.rounds))
        self.decided += published
        self.rounds += 1
        return [one for one in published if isinstance(one, PlacementDecided)]

    def answered(self, job_id: str) -> ExplainResponse:
        return region.answered(self.placement, job_id)


@settings(max_examples=20, deadline=None)
@given(
    st.permutations([*range(len(STORY)), 0, 4, 7]),
    st.lists(st.sampled_from(["", "round", "kill"]), min_size=11, max_size=11),
)
@example([LAST, *range(LAST), 0, 4, 7], ["round"] * 11)
@example([3, 0, 1, 2, 4, 5, 6, 7, 0, 4, 7], ["round"] * 11)
def test_placement_comes_to_the_same(order: list[int], then: list[str]) -> None:
    found = Region()
    for number, what in zip(order, then, strict=True):
        found.tell(STORY[number])
        if what:
            found.round_of()
        if what == "kill":
            found.life.restart()
    found.round_of()
    answer = found.answered("a")
    assert (answer.standing, answer.attempt) == (JOB_STANDING_FINISHED, 2)
    assert answer.reason == "completed"
    [start] = found.round_of(region.submitted("b", end_us(found.rounds - 1), nodes=4))
    assert (verdict(start), [*start.node_indices]) == ("start", [0, 1, 2, 3])


def test_a_start_waits_for_its_cluster_as_it_does_for_its_submission() -> None:
    found = _without_p2()
    found.round_of(
        _runs_on_undeclared_p2("own", T0_US + 2),
        region.submitted("own", T0_US + 2, reference_cluster="p2"),
    )
    found.life.restart()
    found.round_of(region.declared("p2", 4, time_us=T0_US + 3))
    answer = found.answered("own")
    assert (answer.standing, answer.allocation.cluster) == (JOB_STANDING_RUNNING, "p2")


def _runs_on_undeclared_p2(job_id: str, time_us: int) -> Event:
    mine = PlacementDecided(job_id=job_id, attempt=1, cluster="p2", node_indices=[1])
    return region.started(mine, started_at_us=time_us)


def _without_p2() -> Region:
    found = Region()
    found.round_of(region.undeclared("p2", T0_US + 1))
    return found


def test_who_is_said_to_run_on_an_undeclared_cluster_starts_nowhere_else() -> None:
    found = _without_p2()
    own = region.submitted("own", T0_US + 2)
    decided = found.round_of(own, _runs_on_undeclared_p2("own", T0_US + 2))
    found.life.restart()
    decided += found.round_of(region.requeue_asked("own", T0_US + 3))
    assert not region.starts(decided)
    answer = found.answered("own")
    assert answer.reason == (
        "runs on p2, as the resource manager there says, which is not declared: "
        "declare it, or seize the job if it does not run there"
    )
    assert answer.runs_on == "p2"
    assert list(answer.constraints) == [Constraint(kind=CONSTRAINT_KIND_RUNS, by="p2")]


def test_a_run_on_an_undeclared_cluster_replaces_none_that_was_granted() -> None:
    found = _without_p2()
    [start] = found.round_of(region.submitted("own", T0_US + 2))
    [withdrawn] = found.round_of(_runs_on_undeclared_p2("own", T0_US + 3))
    assert (verdict(withdrawn), withdrawn.cluster) == ("withdrawn", "p2")
    assert withdrawn.reason == "the job was granted to p1"
    found.tell(region.started(start, started_at_us=T0_US + 4))
    answer = found.answered("own")
    assert (answer.standing, answer.allocation.cluster) == (JOB_STANDING_RUNNING, "p1")


def test_an_operator_vouches_that_a_job_does_not_run_on_an_undeclared_cluster() -> None:
    found = _without_p2()
    own = region.submitted("own", T0_US + 2)
    found.round_of(own, _runs_on_undeclared_p2("own", T0_US + 2))
    [start] = found.round_of(region.seized("own", T0_US + 3))
    assert (verdict(start), start.attempt, start.cluster) == ("start", 2, "p1")
    found.round_of(region.declared("p2", 4, time_us=T0_US + 4))


def test_who_starts_what_was_seized_hears_it_although_the_cluster_is_undeclared() -> None:
    found = Region()
    [start] = found.round_of(region.submitted("a", T0_US + 1))
    seized = region.seized("a", T0_US + 2, grant=1)
    found.round_of(seized, region.undeclared(start.cluster, T0_US + 3))
    found.round_of()
    [withdrawn] = found.round_of(region.started(start, started_at_us=T0_US + 4))
    assert (verdict(withdrawn), withdrawn.cluster) == ("withdrawn", start.cluster)
    assert withdrawn.is_void
