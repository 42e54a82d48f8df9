"""Orders to Slurm have the same effect however often a decision comes, and no grant that was
given back starts."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from coplace.v1.placement_pb2 import (
    ACTION_KIND_END,
    ACTION_KIND_REQUEUE,
    ACTION_KIND_RESUME,
    ACTION_KIND_SET_PSTATE,
    ACTION_KIND_SUSPEND,
    VERDICT_ACTION,
    VERDICT_CANCELLED,
    VERDICT_QUEUED,
    VERDICT_REJECTED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    Action,
    PlacementDecided,
)
from hypothesis import given
from hypothesis import strategies as st

from services.slurm.model.jobs import SlurmJob
from services.slurm.processor.orders import (
    Cancel,
    Decline,
    Done,
    Explain,
    Hold,
    Order,
    Refuse,
    Release,
    Requeue,
    Resume,
    Suspend,
    orders,
    orders_of_refused,
    why_too_soon,
)
from shared.slurm.grant_answer import GrantAnswer
from tests.unit.services.slurm.fields import JOB, RUNS, SUBMIT_S

NOW_US = SUBMIT_S * 1_000_000
PENDING = SlurmJob(JOB)
RUNNING = SlurmJob({**JOB, **RUNS})
SUSPENDED = SlurmJob({**JOB, **RUNS, "job_state": "SUSPENDED"})
ENDED = SlurmJob({**JOB, **RUNS, "job_state": "COMPLETED"})
STARTED = GrantAnswer(1, is_started=True, freq_ghz=2.1)


def start(grant: int = 1, start_by_us: int = 0) -> PlacementDecided:
    return PlacementDecided(
        verdict=VERDICT_START,
        grant=grant,
        node_names=["n[1-2]"],
        freq_ghz=2.1,
        walltime_s=61,
        start_by_us=start_by_us,
    )


def withdrawn(grant: int = 1, *, is_void: bool = False) -> PlacementDecided:
    return PlacementDecided(verdict=VERDICT_WITHDRAWN, grant=grant, is_void=is_void)


def pending(word: GrantAnswer) -> SlurmJob:
    return SlurmJob({**JOB, "admin_comment": str(word)})


def test_a_start_releases_the_job_on_its_nodes_within_its_limit() -> None:
    assert orders(start(), PENDING, NOW_US) == [Release(("n[1-2]",), 2, STARTED, 2)]


@pytest.mark.parametrize(("asked", "may_requeue"), [(True, True), (False, False)])
def test_slurm_requeues_a_job_whose_node_does_not_boot_where_its_user_lets_it(
    asked: bool, may_requeue: bool
) -> None:
    boots, job = start(), SlurmJob({**JOB, "requeue": asked})
    boots.boot_s = 60.0
    [release] = orders(boots, job, NOW_US)
    assert isinstance(release, Release)
    assert release.may_requeue is may_requeue
    boots.boot_s = 0.0
    assert orders(boots, job, NOW_US) == [Release(("n[1-2]",), 2, STARTED, 2)]


@pytest.mark.parametrize(
    ("asked", "cores_per_node", "least_cpus"),
    [
        ({"tasks": 6, "cpus": 6}, 3, 3),
        ({"tasks": 2, "cpus": 8, "cpus_per_task": 4}, 4, 4),
        # Slurm would give more CPUs than were asked for, or shares none of the nodes.
        ({"tasks": 7, "cpus": 7}, 4, 0),
        ({"tasks": 3, "cpus": 12, "cpus_per_task": 4}, 6, 0),
        ({"tasks": 6, "cpus": 3}, 2, 0),
        ({"tasks": 6, "cpus": 6, "shared": "none"}, 3, 0),
        # One has so many anyway.
        ({"tasks": 2, "cpus": 2}, 1, 0),
        ({"tasks": 6, "cpus": 6, "minimum_cpus_per_node": 3}, 3, 0),
        # A start before this one asked for more.
        ({"tasks": 7, "cpus": 7, "admin_comment": f"{STARTED} cpus=1"}, 4, 1),
    ],
)
def test_cores_of_a_job_are_as_many_on_each_node_as_was_decided(
    asked: dict[str, Any], cores_per_node: int, least_cpus: int
) -> None:
    job = SlurmJob({**JOB, "shared": "", "minimum_cpus_per_node": 1, **asked})
    decision = start()
    decision.cores_per_node = cores_per_node
    [release] = orders(decision, job, NOW_US)
    assert isinstance(release, Release)
    assert release.least_cpus == least_cpus


def test_a_start_that_comes_again_is_obeyed_again_as_long_as_the_job_waits() -> None:
    assert orders(start(), pending(STARTED), NOW_US) == [Release(("n[1-2]",), 2, STARTED, 2)]
    assert orders(start(), RUNNING, NOW_US) == []


def test_a_start_that_is_too_late_or_of_a_job_that_is_removed_is_declined() -> None:
    too_late = orders(start(start_by_us=NOW_US - 1), PENDING, NOW_US)
    assert too_late == [Hold(GrantAnswer(1)), Decline("too late")]
    for job in (None, ENDED):
        assert orders(start(), job, NOW_US) == [Decline("Slurm does not have the job any more")]


def test_a_start_that_took_place_is_not_declined_since_the_job_is_over() -> None:
    """A process that was killed behind it reads the decision again."""
    assert orders(start(2), ENDED, NOW_US) == orders(withdrawn(2), ENDED, NOW_US) == []
    never = SlurmJob({**ENDED.fields, "job_state": "CANCELLED", "nodes": ""})
    assert orders(start(2), never, NOW_US) == [Decline("Slurm does not have the job any more")]


def test_a_start_that_is_withdrawn_is_given_back_unless_it_took_place() -> None:
    assert orders(withdrawn(), pending(STARTED), NOW_US) == [
        Hold(GrantAnswer(1)),
        Decline("as asked"),
    ]
    newer = pending(STARTED._replace(grant=2))
    assert orders(withdrawn(), newer, NOW_US) == [Decline("as asked")]
    assert orders(withdrawn(2), RUNNING, NOW_US) == []
    assert orders(withdrawn(2, is_void=True), RUNNING, NOW_US) == [Cancel()]
    assert orders(withdrawn(1, is_void=True), RUNNING, NOW_US) == []


@pytest.mark.parametrize("verdict", [VERDICT_CANCELLED, VERDICT_REJECTED])
def test_what_shall_not_run_leaves_slurm(verdict: int) -> None:
    decision = PlacementDecided(verdict=verdict, grant=1)  # type: ignore[arg-type]
    assert orders(decision, PENDING, NOW_US) == orders(decision, RUNNING, NOW_US) == [Cancel()]
    assert orders(decision, ENDED, NOW_US) == []


def test_nodes_of_a_job_that_its_user_took_out_before_it_started_are_given_back() -> None:
    """It may have been granted nodes of another cluster than that of its end."""
    never = SlurmJob({**ENDED.fields, "job_state": "CANCELLED", "nodes": ""})
    decision = PlacementDecided(verdict=VERDICT_CANCELLED, grant=1)
    gone = [Decline("Slurm does not have the job any more")]
    assert orders(decision, never, NOW_US) == orders(decision, None, NOW_US) == gone
    decision.grant = 0
    assert orders(decision, never, NOW_US) == orders(decision, None, NOW_US) == []


def test_a_job_that_waits_says_why_before_it_leaves_slurm() -> None:
    decision = PlacementDecided(verdict=VERDICT_REJECTED, reason="no cluster has 9 nodes")
    assert orders(decision, PENDING, NOW_US) == [Explain("no cluster has 9 nodes"), Cancel()]
    assert orders(decision, RUNNING, NOW_US) == [Cancel()]


ACTIONS: list[tuple[Action, list[Order], list[Order]]] = [
    (Action(kind=ACTION_KIND_END), [Cancel()], [Cancel()]),
    (Action(kind=ACTION_KIND_REQUEUE), [Requeue()], [Requeue()]),
    (Action(kind=ACTION_KIND_SUSPEND), [Suspend(), Done()], [Done()]),
    (Action(kind=ACTION_KIND_RESUME), [Done(2.1)], [Resume(), Done(2.1)]),
    (Action(kind=ACTION_KIND_RESUME, freq_ghz=2.1), [Done(2.1)], [Resume(), Done(2.1)]),
]


@pytest.mark.parametrize(("action", "of_running", "of_suspended"), ACTIONS)
def test_an_action_is_done_and_answered(
    action: Action, of_running: list[Order], of_suspended: list[Order]
) -> None:
    decision = PlacementDecided(verdict=VERDICT_ACTION, action=action)
    assert orders(decision, RUNNING, NOW_US) == of_running
    assert orders(decision, SUSPENDED, NOW_US) == of_suspended
    assert orders(decision, PENDING, NOW_US) == orders(decision, None, NOW_US) == []


def test_a_clock_that_a_job_has_is_set_and_another_one_refused() -> None:
    for kind in (ACTION_KIND_SET_PSTATE, ACTION_KIND_RESUME):
        decision = PlacementDecided(verdict=VERDICT_ACTION, action=Action(kind=kind, freq_ghz=1.2))
        assert "at its start" in str(orders(decision, RUNNING, NOW_US))
        assert "at its start" in str(orders(decision, SUSPENDED, NOW_US))
        decision.action.freq_ghz = 2.1
        assert orders(decision, RUNNING, NOW_US) == [Done(2.1)]


def test_an_action_that_slurm_refuses_is_refused() -> None:
    suspend = PlacementDecided(verdict=VERDICT_ACTION, action=Action(kind=ACTION_KIND_SUSPEND))
    assert orders_of_refused(suspend, RUNNING, "disabled") == [Refuse("disabled")]


def test_a_start_that_crosses_a_user_s_hold_is_declined_and_one_that_follows_it_is_made() -> None:
    held, decision = SlurmJob({**JOB, "comment": "coplace held by its user"}), start()
    decision.decided_at_us = 20_000_000
    for held_at_us in (0, 19_000_000, 21_000_000):
        assert orders(decision, held, NOW_US, held_at_us) == [Decline("held by its user in Slurm")]
    [release] = orders(decision, held, NOW_US, 1_000_000)
    assert isinstance(release, Release)


def test_a_start_of_a_job_as_it_was_before_a_change_is_declined() -> None:
    decision = start()
    decision.changed_at_us = 5
    for changed_at_us, is_made in ((0, True), (5, True), (6, False)):
        [order] = orders(decision, PENDING, NOW_US, changed_at_us=changed_at_us)
        assert isinstance(order, Release if is_made else Decline)
    assert orders(decision, RUNNING, NOW_US, changed_at_us=6) == []


def test_a_start_behind_a_hold_of_a_moment_ago_is_not_declined_before_the_hold_is_known() -> None:
    held, decision = SlurmJob({**JOB, "comment": "coplace held by its user"}), start()
    decision.decided_at_us = 20_000_000
    soon = [(18_000_000, 20_900_000, True), (18_000_000, 21_000_000, False), (0, 20_000_000, False)]
    for held_at_us, now_us, is_soon in soon:
        assert bool(why_too_soon(decision, held, now_us, held_at_us)) == is_soon
    # One decided with the hold known, of a job that nobody holds, or that Slurm has no more.
    assert not why_too_soon(decision, held, 20_900_000, 1_000_000)
    assert not why_too_soon(decision, PENDING, 20_900_000, 18_000_000)
    assert not why_too_soon(decision, None, 20_900_000, 18_000_000)


def test_a_start_waits_for_a_job_that_is_taken_back_and_is_declined_where_slurm_keeps_it() -> None:
    for word, is_soon in (("coplace given back in silence", True), ("coplace given back", False)):
        lent = SlurmJob({**JOB, "admin_comment": word, "state_reason": "Priority", "priority": 9})
        assert bool(why_too_soon(start(), lent, NOW_US, 0)) == is_soon
        assert orders(start(), lent, NOW_US) == [Decline("it was given back to Slurm")]


def test_other_verdicts_ask_for_nothing() -> None:
    assert orders(PlacementDecided(verdict=VERDICT_QUEUED), PENDING, NOW_US) == []


def test_orders_are_reported_in_words() -> None:
    found = orders(start(), PENDING, NOW_US) + orders(withdrawn(), PENDING, NOW_US)
    acted = [Suspend(), Done(), Resume(), Done(2.1)]
    assert list(map(str, [*found, Cancel(), *acted, Refuse("why")])) == [
        "released on n[1-2] at 2.1 GHz for 2 min",
        "held",
        "declined: as asked",
        "cancelled",
        "suspended",
        "done",
        "resumed",
        "runs at 2.1 GHz",
        "refused: why",
    ]


@dataclass
class PlainSlurm:
    """One job, as Slurm would have it: held until released, and then started when it likes."""

    word: GrantAnswer = field(default_factory=GrantAnswer)
    is_held: bool = True
    runs_under: int = 0
    declined: set[int] = field(default_factory=set)

    def obey(self, decision: PlacementDecided, *, starts_before_hold: bool) -> None:
        job = RUNNING if self.runs_under else PENDING
        shown = SlurmJob({**job.fields, "admin_comment": str(self.word)})
        for order in orders(decision, shown, NOW_US):
            match order:
                case Release(word=word):
                    self.word, self.is_held = word, False
                case Hold(word=word):
                    if starts_before_hold:
                        self.start()
                    if self.runs_under:  # as `Obedience` sees it: nothing is declined
                        return
                    self.word, self.is_held = word, True
                case Decline():
                    self.declined.add(decision.grant)

    def start(self) -> None:
        """Slurm has the nodes free."""
        if not self.is_held and not self.runs_under:
            self.runs_under = self.word.grant


@given(st.data(), st.integers(1, 4))
def test_no_grant_that_was_declined_runs_however_often_decisions_come(
    data: st.DataObject, grants: int
) -> None:
    """Decisions on a job are in order; a consumer that was killed reads some of them again."""
    course = [each(grant) for grant in range(1, grants + 1) for each in (start, withdrawn)]
    slurm, at = PlainSlurm(), 0
    while at < len(course):
        slurm.obey(course[at], starts_before_hold=data.draw(st.booleans()))
        if data.draw(st.booleans()):
            slurm.start()
        assert slurm.runs_under not in slurm.declined or not slurm.runs_under
        at = data.draw(st.integers(max(0, at - 2), at + 1)) if data.draw(st.booleans()) else at + 1
