"""Whatever happens in whatever order, and however late resource managers answer: no node is given
twice, no job runs twice, who was killed in between decides as if nothing had been, and no decision
says what is true no more."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from coplace.v1.control_pb2 import LIMIT_SUBJECT_ACCOUNT, LIMIT_SUBJECT_USER
from coplace.v1.jobs_pb2 import (
    DEPENDENCY_CONDITION_AFTER,
    DEPENDENCY_CONDITION_AFTER_ANY,
    DEPENDENCY_CONDITION_AFTER_NOT_OK,
    DEPENDENCY_CONDITION_AFTER_OK,
    DEPENDENCY_CONDITION_SINGLETON,
    JOB_OUTCOME_CANCELLED,
    JOB_OUTCOME_COMPLETED,
    JOB_OUTCOME_FAILED,
    Dependency,
    DependencyCondition,
    JobOutcome,
)
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.placement_service_pb2 import (
    JOB_STANDING_CANCELLED,
    JOB_STANDING_DECIDED,
    JOB_STANDING_FINISHED,
    JOB_STANDING_RUNNING,
)
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event, Publish
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.domain.queue_order import QueueOrder
from shared.placement.evaluate import layer
from shared.placement.processor.placement import Placement
from shared.streams.stages.stage import AlreadyAppliedError
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import T0_US, answered, round_of, verdict

NODES = 4
# Reasons that do not come and go with what runs.
LASTING_REASONS = (
    "held",
    "after_",
    "waits for",
    "lost since",
    "declined or not confirmed",
    "was requeued",
    "begin not before",
    "its deadline",
    "singleton",
)
ENDED = (JOB_STANDING_CANCELLED, JOB_STANDING_FINISHED)
GIVEN = (JOB_STANDING_DECIDED, JOB_STANDING_RUNNING)


Grant = tuple[str, int]


class StartTerms(NamedTuple):
    """When a job may start and must have ended, from its submission on."""

    begin_in_us: int
    deadline_in_us: int
    delay_s: float
    is_any: bool
    job_name: str
    is_singleton: bool


START_TERMS = st.builds(
    StartTerms,
    st.sampled_from([0, 0, 45_000_000, 200_000_000]),
    st.sampled_from([0, 0, 500_000_000, 700_000_000, 1_500_000_000]),
    st.sampled_from([0.0, 0.0, 50.0]),
    st.booleans(),
    st.sampled_from(["", "", "train"]),
    st.booleans(),
)
CONDITIONS = (
    DEPENDENCY_CONDITION_AFTER,
    DEPENDENCY_CONDITION_AFTER_ANY,
    DEPENDENCY_CONDITION_AFTER_NOT_OK,
    DEPENDENCY_CONDITION_AFTER_OK,
)


def grant_of(decided: PlacementDecided) -> Grant:
    return decided.job_id, decided.grant


@dataclass
class Managers:
    """Resource managers of all clusters: they keep journals, answer late, decline, and hold reports
    back. `journal` says of each grant if it was claimed or declined: the first wins. What they were
    asked waits in `inbox` until they act, what they say in `outbox` until it is delivered."""

    nodes: int
    inbox: list[PlacementDecided] = field(default_factory=list)
    outbox: list[Event] = field(default_factory=list)
    journal: dict[Grant, str] = field(default_factory=dict)
    runs: dict[Grant, PlacementDecided] = field(default_factory=dict)
    seized: set[str] = field(default_factory=set)
    taken: set[Grant] = field(default_factory=set)

    def act(self, decided: PlacementDecided, now_us: int, *, willing: bool) -> None:
        """Obey one of the decisions that wait, or decline the start."""
        self.inbox.remove(decided)
        if verdict(decided) == "start" and willing:
            self.claim(decided, now_us)
        elif verdict(decided) == "cancelled" and grant_of(decided) in self.runs:
            self.end(grant_of(decided), now_us, JOB_OUTCOME_CANCELLED)
        elif verdict(decided) == "withdrawn" and decided.is_void:
            self.runs.pop(grant_of(decided), None)
            self.decline(decided, now_us)
        elif verdict(decided) == "action":
            if grant_of(decided) in self.runs:
                self.requeue(grant_of(decided), now_us)
        elif decided.cluster:
            self.decline(decided, now_us)

    def claim(self, decided: PlacementDecided, now_us: int) -> None:
        """Start a job, unless this was declined; no job may run twice, unless it was seized."""
        if self.journal.setdefault(grant_of(decided), "claimed") == "declined":
            return
        for run in self.runs.values():
            if run.job_id == decided.job_id:
                assert run.attempt != decided.attempt, f"{run.job_id} runs twice"
                assert run.job_id in self.seized, f"{run.job_id} runs in two attempts"
        self.runs[grant_of(decided)] = decided
        self.outbox.append(region.started(decided, started_at_us=now_us))

    def decline(self, decided: PlacementDecided, now_us: int) -> None:
        """Give a start back, unless it took place."""
        if self.journal.setdefault(grant_of(decided), "declined") == "declined":
            self.outbox.append(region.declined(decided, now_us))

    def end(self, grant: Grant, now_us: int, outcome: JobOutcome.ValueType) -> None:
        """A run ends."""
        run = self.runs.pop(grant)
        self.outbox.append(region.finished(run.job_id, now_us, run.attempt, outcome, grant[1]))

    def requeue(self, grant: Grant, now_us: int) -> None:
        """A run is requeued."""
        run = self.runs.pop(grant)
        self.outbox.append(region.requeued(run.job_id, now_us, run.attempt + 1))

    def seize(self, job_id: str) -> None:
        """An operator says that nothing of a job runs, truly or not."""
        self.seized.add(job_id)
        self.taken |= {grant for grant in self.runs if grant[0] == job_id}
        self.taken |= {grant_of(one) for one in self.inbox if one.job_id == job_id}

    def open_starts(self) -> list[PlacementDecided]:
        """What runs or may start, less what was seized."""
        waiting = (one for one in self.inbox if verdict(one) == "start")
        may_start = [one for one in waiting if grant_of(one) not in self.journal]
        both = (*self.runs.values(), *may_start)
        return [one for one in both if grant_of(one) not in self.taken]

    def check(self) -> None:
        """No core is given twice, and only jobs that share all their nodes share one."""
        used: dict[tuple[str, int], list[PlacementDecided]] = {}
        for start in self.open_starts():
            for index in start.node_indices:
                used.setdefault((start.cluster, index), []).append(start)
        for (cluster, index), starts in used.items():
            assert index < self.nodes
            assert sum(start.cores_per_node for start in starts) <= region.CORES[cluster]


OUTCOMES = (JOB_OUTCOME_COMPLETED, JOB_OUTCOME_FAILED)


class AnySequence(RuleBasedStateMachine):
    """Two placements get the same events; one of them is killed again and again."""

    def __init__(self) -> None:
        super().__init__()
        # So few jobs are evaluated again in a round that some are left over.
        self.weighed_again = patch.object(layer, "_MOST_EVALUATED_ANEW", 2)
        self.weighed_again.start()

    def teardown(self) -> None:
        self.weighed_again.stop()

    @initialize(policy=st.sampled_from(list(Policy)))
    def begin(self, policy: Policy) -> None:
        self.settings = PolicySettings(policy, start_timeout_s=90.0, most_missed_starts=2)
        self.steady = Placement({}, self.settings, 7.0)
        self.killed = Placement({}, self.settings, 7.0)
        self.state: dict[str, bytes] = {}
        self.managers = Managers(NODES)
        self.jobs: list[str] = []
        self.lost: set[str] = set()
        self.told: dict[str, str] = {}
        self.limit_nodes = 0
        self.number = self.sequence = 0
        for event in region.models(NODES):
            self.tell(event)

    def tell(self, event: Event) -> None:
        outcomes: list[list[Publish] | None] = []
        for placement in (self.steady, self.killed):
            try:
                outcomes.append(list(placement.handle(event)))
            except AlreadyAppliedError:
                outcomes.append(None)
            except RejectedError:
                outcomes.append([])
        assert outcomes[0] == outcomes[1]

    def now_us(self) -> int:
        self.sequence += 1
        return T0_US + self.number * 30_000_000 + self.sequence

    def known(self) -> st.SearchStrategy[str]:
        return st.sampled_from(self.jobs)

    @rule(
        nodes=st.integers(1, NODES),
        user=st.sampled_from(["ada", "bob"]),
        shareable=st.booleans(),
        app=st.integers(0, 7),
        priority=st.integers(-1, 1),
        condition=st.sampled_from(CONDITIONS),
        terms=START_TERMS,
        data=st.data(),
    )
    def submit(
        self,
        nodes: int,
        user: str,
        shareable: bool,
        app: int,
        priority: int,
        condition: DependencyCondition.ValueType,
        terms: StartTerms,
        data: st.DataObject,
    ) -> None:
        job_id, at_us = f"job-{len(self.jobs)}", self.now_us()
        others = [*self.jobs, f"job-{len(self.jobs) + 1}"]
        awaited = data.draw(st.lists(st.sampled_from(others), max_size=2))
        depends_on = [
            Dependency(job_id=other, condition=condition, delay_s=terms.delay_s)
            for other in awaited
        ]
        if terms.job_name and terms.is_singleton:
            depends_on.append(Dependency(condition=DEPENDENCY_CONDITION_SINGLETON))
        event = region.submitted(
            job_id,
            at_us,
            nodes=nodes,
            user=user,
            shareable=shareable,
            app_id=region.APPS[app],
            priority=priority,
            walltime_s=600.0,
            depends_on=depends_on,
            depends_on_any=terms.is_any,
            job_name=terms.job_name,
            begin_at_us=at_us + terms.begin_in_us if terms.begin_in_us else 0,
            deadline_at_us=at_us + terms.deadline_in_us if terms.deadline_in_us else 0,
        )
        self.jobs.append(job_id)
        self.tell(event)

    @precondition(lambda self: self.managers.inbox)
    @rule(data=st.data(), willing=st.sampled_from([True, True, True, False]))
    def act(self, data: st.DataObject, willing: bool) -> None:
        decided = data.draw(st.sampled_from(self.managers.inbox))
        self.managers.act(decided, self.now_us(), willing=willing)

    @precondition(lambda self: self.managers.outbox)
    @rule(data=st.data(), copies=st.sampled_from([1, 1, 2]))
    def deliver(self, data: st.DataObject, copies: int) -> None:
        """Any report, but those of one job in their order."""
        report = data.draw(st.sampled_from(self.managers.outbox))
        job_id = report.payload.job_id  # type: ignore[attr-defined]
        report = next(one for one in self.managers.outbox if one.payload.job_id == job_id)  # type: ignore[attr-defined]
        self.managers.outbox.remove(report)
        for _ in range(copies):
            self.tell(report)

    @precondition(lambda self: self.managers.runs)
    @rule(data=st.data(), outcome=st.sampled_from(OUTCOMES))
    def finish(self, data: st.DataObject, outcome: JobOutcome.ValueType) -> None:
        grant = data.draw(st.sampled_from(sorted(self.managers.runs)))
        self.managers.end(grant, self.now_us(), outcome)

    @precondition(lambda self: self.managers.runs)
    @rule(data=st.data())
    def requeue(self, data: st.DataObject) -> None:
        grant = data.draw(st.sampled_from(sorted(self.managers.runs)))
        self.managers.requeue(grant, self.now_us())

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def seize(self, data: st.DataObject) -> None:
        """Of what `coplace why` shows, which may be wrong by now."""
        answer = self.steady.queries.answer(data.draw(self.known()))
        if answer is not None and answer.standing in GIVEN:
            attempt, grant = answer.attempt, answer.allocation.grant
            self.managers.seize(answer.job_id)
            self.tell(region.seized(answer.job_id, self.now_us(), attempt, grant))

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def ask_back(self, data: st.DataObject) -> None:
        """As `coplace requeue` does; what was refused changes nothing."""
        answer = self.steady.queries.answer(data.draw(self.known()))
        if answer is not None and answer.standing not in ENDED:
            asked = region.requeue_asked(answer.job_id, self.now_us(), answer.attempt)
            self.tell(asked)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), kind=st.sampled_from([region.cancelled, region.held, region.released]))
    def ask(self, data: st.DataObject, kind: type) -> None:
        self.tell(kind(data.draw(self.known()), self.now_us()))

    @rule(cluster=st.sampled_from(["p1", "p2"]))
    def lose_or_return(self, cluster: str) -> None:
        kind = region.returned if cluster in self.lost else region.lost
        self.lost ^= {cluster}
        self.tell(kind(cluster, self.now_us()))

    @rule(clusters=st.sampled_from([["p1"], ["p2"], ["p1", "p2"]]), silent_after_s=st.floats(1, 90))
    def speak(self, clusters: list[str], silent_after_s: float) -> None:
        self.tell(region.alive(self.now_us(), *clusters, silent_after_s=silent_after_s))

    @rule(data=st.data(), priorities=st.lists(st.integers(0, 3), max_size=4))
    def reorder(self, data: st.DataObject, priorities: list[int]) -> None:
        """Managers give jobs other priorities, whether the policy goes by them or not."""
        if self.jobs and priorities:
            said = {data.draw(st.sampled_from(self.jobs)): priority for priority in priorities}
            self.tell(region.reordered(self.now_us(), said, "p1", "p2"))

    @rule(order=st.sampled_from(list(QueueOrder)))
    def leave_the_order(self, order: QueueOrder) -> None:
        self.tell(region.policy(self.now_us(), order=order))

    @rule(jobs=st.integers(0, 3), nodes=st.integers(0, 6))
    def limit(self, jobs: int, nodes: int) -> None:
        self.limit_nodes = nodes
        at_us = self.now_us()
        self.tell(region.limits(LIMIT_SUBJECT_USER, "ada", at_us, most_running_jobs=jobs))
        self.tell(region.limits(LIMIT_SUBJECT_ACCOUNT, "physics", at_us, most_nodes=nodes))

    @rule(
        policy=st.sampled_from(list(Policy)),
        threshold=st.sampled_from([0.0, 0.35, 2.0]),
        most=st.integers(0, 3),
        data=st.data(),
    )
    def declare_policy(
        self, policy: Policy, threshold: float, most: int, data: st.DataObject
    ) -> None:
        """Some of it, or all again as the process was started."""
        said: dict[str, Any] = {
            "policy": policy,
            "threshold": threshold,
            "most_missed_starts": most,
        }
        names = data.draw(st.lists(st.sampled_from(sorted(said)), min_size=1, unique=True))
        if data.draw(st.booleans()):
            self.tell(region.policy(self.now_us(), **{name: said[name] for name in names}))
        else:
            self.tell(region.policy(self.now_us(), reset=names))

    def kill(self) -> None:
        self.state = region.saved(self.state, self.killed.changes())
        self.killed = Placement(self.state, self.settings, 7.0)

    @precondition(lambda self: self.jobs and self.number)
    @rule(
        data=st.data(),
        pstate=st.integers(0, 15),
        wait=st.sampled_from([0, 0, 1, 3]),
        valid_s=st.sampled_from([29.0, 61.0, 3600.0]),
    )
    def plan(self, data: st.DataObject, pstate: int, wait: int, valid_s: float) -> None:
        job_ids = data.draw(st.lists(self.known(), max_size=4))
        cluster = data.draw(st.sampled_from(list(region.MODELS)))
        freq_ghz = region.PSTATES[cluster][pstate]
        not_before_us = region.end_us(self.number + wait) if wait else 0
        how = {"freq_ghz": freq_ghz, "not_before_us": not_before_us}
        items = [region.item(job_id, cluster, **how) for job_id in job_ids]
        self.tell(region.proposed(self.number - 1, *items, valid_s=valid_s))

    @rule(kills=st.lists(st.booleans(), min_size=1, max_size=4))
    def end_rounds(self, kills: list[bool]) -> None:
        for kill in kills:
            if kill:
                self.kill()
            decided = round_of(self.steady, self.number)
            assert round_of(self.killed, self.number) == decided
            self.number += 1
            for one in decided:
                self.told |= {} if one.is_void else {one.job_id: one.reason}
                assert verdict(one) != "start" or one.cluster not in self.lost
            self.managers.inbox += [one for one in decided if one.cluster]
            starts = [one for one in decided if verdict(one) == "start"]
            held = sum(len(one.node_indices) for one in self.managers.open_starts())
            assert not (starts and self.limit_nodes) or held <= self.limit_nodes
            self.check_reasons()

    def check_reasons(self) -> None:
        for job_id in self.jobs:
            answer = answered(self.steady, job_id)
            told = any(words in answer.reason for words in LASTING_REASONS)
            assert answer.standing in ENDED or not told or self.told[job_id] == answer.reason

    @invariant()
    def no_node_is_given_twice(self) -> None:
        if hasattr(self, "managers"):
            self.managers.check()


AnySequence.TestCase.settings = settings(max_examples=75, stateful_step_count=50, deadline=None)
# Half a minute of CPU: for the rest of the gate.
TestAnySequence = pytest.mark.rest(pytest.mark.long(AnySequence.TestCase))
