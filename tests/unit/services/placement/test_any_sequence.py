"""Whatever happens in whatever order: no node is given twice, no job is started twice, who was
killed in between decides as if nothing had been, and no decision says what is true no more."""

from dataclasses import dataclass, field

from coplace.v1.control_pb2 import LIMIT_SUBJECT_ACCOUNT, LIMIT_SUBJECT_USER
from coplace.v1.jobs_pb2 import (
    DEPENDENCY_CONDITION_AFTER_ANY,
    DEPENDENCY_CONDITION_AFTER_OK,
    JOB_OUTCOME_COMPLETED,
    JOB_OUTCOME_FAILED,
)
from coplace.v1.placement_pb2 import (
    VERDICT_CANCELLED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    PlacementDecided,
)
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from services.placement.model import Rules
from services.placement.processor import Placement
from shared.messaging.event import Event, Publish
from shared.messaging.stage import AlreadyAppliedError
from shared.policies.ranking import Policy
from tests.unit.services.placement import region
from tests.unit.services.placement.region import CORES, T0_US, round_of

NODES = 4
# Reasons that do not come and go with what runs.
STANDING_REASONS = ("held", "after_", "waits for", "lost since", "were not confirmed")


@dataclass
class Run:
    """A start as its resource manager knows it."""

    decided: PlacementDecided
    confirmed: bool = False


@dataclass
class Managers:
    """The resource managers of both clusters: they start what is decided when the test says so,
    and do what decisions say."""

    runs: dict[str, Run] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    ending: set[str] = field(default_factory=set)

    def take(self, decided: PlacementDecided) -> None:
        job_id = decided.job_id
        if decided.verdict == VERDICT_START:
            assert job_id not in self.runs, f"{job_id} is started twice"
            assert job_id not in self.ended
            self.runs[job_id] = Run(decided)
        elif decided.verdict == VERDICT_WITHDRAWN:
            void = self.runs.pop(job_id)
            assert not void.confirmed, f"{job_id} runs and is withdrawn"
            assert void.decided.cluster == decided.cluster
        elif decided.verdict == VERDICT_CANCELLED:
            if job_id in self.jobs(confirmed=True):
                self.ending.add(job_id)
            else:
                self.runs.pop(job_id, None)
                self.ended.add(job_id)

    def jobs(self, *, confirmed: bool) -> list[str]:
        return sorted(job_id for job_id, run in self.runs.items() if run.confirmed is confirmed)

    def check(self) -> None:
        """No core is given twice, and only jobs that share all their nodes share one."""
        used: dict[tuple[str, int], list[PlacementDecided]] = {}
        for run in self.runs.values():
            for index in run.decided.node_indices:
                used.setdefault((run.decided.cluster, index), []).append(run.decided)
        for (cluster, index), starts in used.items():
            assert index < NODES
            assert sum(start.cores_per_node for start in starts) <= CORES[cluster]
            assert len({tuple(start.node_indices) for start in starts}) == 1


class AnySequence(RuleBasedStateMachine):
    """Two placements get the same events; one of them is killed again and again."""

    @initialize(policy=st.sampled_from(list(Policy)))
    def begin(self, policy: Policy) -> None:
        self.settings = Rules(policy, start_timeout_s=90.0, most_missed_starts=2)
        self.steady = Placement({}, self.settings, 7.0)
        self.killed = Placement({}, self.settings, 7.0)
        self.state: dict[str, bytes] = {}
        self.managers = Managers()
        self.lost: set[str] = set()
        self.told: dict[str, str] = {}
        self.limit_nodes = 0
        self.number = self.sequence = 0
        for event in region.knowledge(NODES):
            self.tell(event)

    def tell(self, event: Event) -> None:
        outcomes: list[list[Publish] | None] = []
        for placement in (self.steady, self.killed):
            try:
                outcomes.append(list(placement.handle(event)))
            except AlreadyAppliedError:
                outcomes.append(None)
        assert outcomes[0] == outcomes[1]

    def now_us(self) -> int:
        self.sequence += 1
        return T0_US + self.number * 30_000_000 + self.sequence

    def known(self) -> st.SearchStrategy[str]:
        return st.sampled_from(sorted(self.managers.attempts))

    @rule(
        nodes=st.integers(1, NODES),
        user=st.sampled_from(["ada", "bob"]),
        shareable=st.booleans(),
        app=st.integers(0, 7),
        priority=st.integers(-1, 1),
        on_ok=st.booleans(),
        data=st.data(),
    )
    def submit(
        self,
        nodes: int,
        user: str,
        shareable: bool,
        app: int,
        priority: int,
        on_ok: bool,
        data: st.DataObject,
    ) -> None:
        job_id = f"job-{len(self.managers.attempts)}"
        others = [*sorted(self.managers.attempts), f"job-{len(self.managers.attempts) + 1}"]
        awaited = data.draw(st.lists(st.sampled_from(others), max_size=1))
        condition = DEPENDENCY_CONDITION_AFTER_OK if on_ok else DEPENDENCY_CONDITION_AFTER_ANY
        event = region.submitted(
            job_id,
            self.now_us(),
            nodes=nodes,
            user=user,
            shareable=shareable,
            app_id=region.APPS[app],
            priority=priority,
            walltime_s=600.0,
            depends_on=region.after(condition, *awaited),
        )
        self.managers.attempts[job_id] = 1
        self.tell(event)

    @precondition(lambda self: self.managers.jobs(confirmed=False))
    @rule(data=st.data())
    def confirm(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(self.managers.jobs(confirmed=False)))
        run = self.managers.runs[job_id]
        run.confirmed = True
        self.tell(region.started(run.decided, started_at_us=self.now_us()))

    @precondition(lambda self: self.managers.jobs(confirmed=True))
    @rule(data=st.data(), ok=st.booleans())
    def finish(self, data: st.DataObject, ok: bool) -> None:
        job_id = data.draw(st.sampled_from(self.managers.jobs(confirmed=True)))
        attempt = self.managers.runs.pop(job_id).decided.attempt
        outcome = JOB_OUTCOME_COMPLETED if ok else JOB_OUTCOME_FAILED
        self.managers.ended.add(job_id)
        self.managers.ending.discard(job_id)
        self.tell(region.finished(job_id, self.now_us(), attempt, outcome))

    @precondition(lambda self: self.managers.jobs(confirmed=True))
    @rule(data=st.data())
    def requeue(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(self.managers.jobs(confirmed=True)))
        del self.managers.runs[job_id]
        self.managers.ending.discard(job_id)
        self.managers.attempts[job_id] += 1
        self.tell(region.requeued(job_id, self.now_us(), self.managers.attempts[job_id]))

    @precondition(lambda self: self.managers.attempts)
    @rule(data=st.data(), kind=st.sampled_from([region.cancelled, region.held, region.released]))
    def ask(self, data: st.DataObject, kind: type) -> None:
        self.tell(kind(data.draw(self.known()), self.now_us()))

    @rule(cluster=st.sampled_from(["p1", "p2"]))
    def lose_or_return(self, cluster: str) -> None:
        kind = region.returned if cluster in self.lost else region.lost
        self.lost ^= {cluster}
        self.tell(kind(cluster, self.now_us()))

    @rule(jobs=st.integers(0, 3), nodes=st.integers(0, 6))
    def limit(self, jobs: int, nodes: int) -> None:
        self.limit_nodes = nodes
        at_us = self.now_us()
        self.tell(region.limits(LIMIT_SUBJECT_USER, "ada", at_us, most_running_jobs=jobs))
        self.tell(region.limits(LIMIT_SUBJECT_ACCOUNT, "physics", at_us, most_nodes=nodes))

    def kill(self) -> None:
        for key, value in self.killed.changes().items():
            self.state.pop(key, None)
            self.state |= {} if value is None else {key: value}
        self.killed = Placement(dict(self.state), self.settings, 7.0)

    @rule(kills=st.lists(st.booleans(), min_size=1, max_size=4))
    def end_rounds(self, kills: list[bool]) -> None:
        for kill in kills:
            if kill:
                self.kill()
            decided = round_of(self.steady, self.number)
            assert round_of(self.killed, self.number) == decided
            self.number += 1
            for one in decided:
                self.told[one.job_id] = one.reason
                self.managers.take(one)
                assert one.verdict != VERDICT_START or one.cluster not in self.lost
            starts = [one for one in decided if one.verdict == VERDICT_START]
            held = sum(len(run.decided.node_indices) for run in self.managers.runs.values())
            assert not (starts and self.limit_nodes) or held <= self.limit_nodes
            self.check_reasons()

    def check_reasons(self) -> None:
        for job_id in self.managers.attempts.keys() - self.managers.ended:
            answer = self.steady.inquiry.answer(job_id)
            assert answer is not None
            if any(words in answer.reason for words in STANDING_REASONS):
                assert self.told[job_id] == answer.reason

    @invariant()
    def no_node_is_given_twice(self) -> None:
        if hasattr(self, "managers"):
            self.managers.check()


AnySequence.TestCase.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
TestAnySequence = AnySequence.TestCase
