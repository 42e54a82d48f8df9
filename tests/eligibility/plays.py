"""A small region that jobs with all kinds of start terms meet at random: two placements get the
same events, one of them is restored from its state again and again, and the oracle judges."""

from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import (
    DEPENDENCY_CONDITION_AFTER,
    DEPENDENCY_CONDITION_AFTER_ANY,
    DEPENDENCY_CONDITION_AFTER_NOT_OK,
    DEPENDENCY_CONDITION_AFTER_OK,
    DEPENDENCY_CONDITION_SINGLETON,
    JOB_OUTCOME_COMPLETED,
    JOB_OUTCOME_FAILED,
    Dependency,
)
from coplace.v1.placement_pb2 import VERDICT_HELD, VERDICT_QUEUED, VERDICT_START, PlacementDecided

from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from shared.streams.stages.stage import Round
from tests.eligibility.oracle import Oracle, Seen, State
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import T0_US

NODES: Final = 4
RESERVATIONS: Final = ("r0", "r1", "r2")
CLUSTER: Final = "p1"
ROUND_US: Final = 30_000_000
MINUTE_US: Final = 60_000_000
_CONDITIONS: Final = (
    DEPENDENCY_CONDITION_AFTER,
    DEPENDENCY_CONDITION_AFTER_ANY,
    DEPENDENCY_CONDITION_AFTER_OK,
    DEPENDENCY_CONDITION_AFTER_NOT_OK,
)
# Jobs start at the nominal P-state, so that limits are as they were asked for, and no start is
# withdrawn.
_RULES: Final = PolicySettings(Policy.BASE, start_timeout_s=0.0, most_missed_starts=0)


def _one_cluster() -> list[Event]:
    """All that is known of it."""
    events = region.models(NODES)
    return [
        event
        for event in events
        if not isinstance(event.payload, ClusterDeclared) or event.payload.cluster == CLUSTER
    ]


@dataclass
class Play:
    """One seed. `violations` are those of the oracle; `starts` counts."""

    seed: int
    violations: list[str] = field(default_factory=list)
    events: int = 0
    starts: int = 0

    def __post_init__(self) -> None:
        self._rng, self._oracle = Random(self.seed), Oracle(frozenset(range(NODES)))
        # Drawn by itself, so that no other draw moves.
        self._reserving = Random(f"reserved {self.seed}")
        self._has_reservations = self._reserving.random() < 0.6
        self._steady, self._killed = Placement({}, _RULES, 7.0), Placement({}, _RULES, 7.0)
        self._state: dict[str, bytes] = {}
        self._now_us, self._number, self._sequence = T0_US, 0, 0
        self._granted: dict[str, PlacementDecided] = {}
        self._runs: dict[str, PlacementDecided] = {}
        self._verdicts: dict[str, int] = {}
        for placement in (self._steady, self._killed):
            region.feed(placement, _one_cluster())

    def play(self, rounds: int) -> "Play":
        """So many rounds, or up to the first violation."""
        for _ in range(rounds):
            if self.violations:
                break
            for _ in range(self._rng.choice([0, 1, 1, 2, 4])):
                self._happen()
            self._end_round()
        return self

    # What happens -----------------------------------------------------------------------------

    def _happen(self) -> None:
        rng = self._rng
        acts = [self._submit, self._submit, self._submit, self._cancel, self._hold_or_release]
        acts += [self._confirm] * 4 if self._granted else []
        acts += [self._end] * 4 if self._runs else []
        rng.choice(acts)()
        if self._has_reservations and self._reserving.random() < 0.15:
            self._reserve()

    def _reserve(self) -> None:
        """A reservation or a maintenance of some nodes, or one is removed."""
        rng, at_us = self._reserving, self._at_us()
        name = rng.choice(RESERVATIONS)
        if name in self._oracle.reserved and rng.random() < 0.3:
            self._tell(region.unreserved(name, at_us))
            return
        from_s = (self._now_us - T0_US) / 1e6 + 60.0 * rng.randint(-2, 12)
        until_s = max(from_s, (self._now_us - T0_US) / 1e6) + 60.0 * rng.randint(1, 20)
        nodes = rng.sample(range(NODES), rng.choice([1, 1, 2, 2, 3, NODES]))
        said: dict[str, Any] = {"nodes": [f"{CLUSTER}-{node:04d}" for node in sorted(nodes)]}
        if rng.random() < 0.6:
            said |= rng.choice([{"users": ["ada"]}, {"accounts": ["physics"]}])
        self._tell(region.reserved(name, from_s, until_s, at_us, **said))

    def _tell(self, event: Event) -> None:
        self.events += 1
        for placement in (self._steady, self._killed):
            region.feed(placement, [event])
        self._oracle.read(event.payload)

    def _at_us(self) -> int:
        self._sequence += 1
        return self._now_us + self._sequence

    def _submit(self) -> None:
        rng, at_us = self._rng, self._at_us()
        said: dict[str, Any] = {
            "nodes": rng.randint(1, NODES),
            "walltime_s": 60.0 * rng.randint(1, 9),
        }
        said["account"] = rng.choice(["physics", "physics", "physics", "bio"])
        limit_us = round(said["walltime_s"] * 1e6)
        if rng.random() < 0.3:
            said["begin_at_us"] = at_us + rng.randint(-2, 10) * MINUTE_US
        if rng.random() < 0.3:
            begin_us = max(at_us, said.get("begin_at_us", 0))
            said["deadline_at_us"] = begin_us + limit_us + rng.randint(-1, 8) * MINUTE_US
        if rng.random() < 0.5:
            said["job_name"] = rng.choice(["train", "test"])
        if rng.random() < 0.3:
            said["sequence"] = str(rng.randrange(30))
        said["depends_on"] = self._dependencies(at_us)
        if "job_name" in said and rng.random() < 0.5:
            singleton = Dependency(condition=DEPENDENCY_CONDITION_SINGLETON)
            said["depends_on"].insert(0, singleton)
        said["depends_on_any"] = rng.random() < 0.3
        if rng.random() < 0.05:
            said["held_because"] = "not understood"
        if self._has_reservations and self._reserving.random() < 0.3:
            said["reservation"] = self._reserving.choice([*RESERVATIONS, "nobody's"])
        self._tell(region.submitted(f"job-{len(self._oracle.jobs)}", at_us, **said))

    def _dependencies(self, at_us: int) -> list[Dependency]:
        rng, count = self._rng, len(self._oracle.jobs)
        # Among them jobs that are long over, the next ones, and one that never comes.
        others = [f"job-{n}" for n in range(max(0, count - 12), count + 3) if n != count]
        return [
            Dependency(
                job_id=rng.choice([*others, *others, *others, "nobody"]),
                condition=rng.choice(_CONDITIONS),
                delay_s=rng.choice([0.0, 0.0, 60.0 * rng.randint(1, 8), rng.uniform(1, 200)]),
            )
            for _ in range(rng.choice([0, 0, 1, 1, 2, 3]))
        ]

    def _cancel(self) -> None:
        if waiting := self._some_waiting():
            self._tell(region.cancelled(waiting.job.job_id, self._at_us()))

    def _hold_or_release(self) -> None:
        if waiting := self._some_waiting():
            act = region.released if waiting.is_held else region.held
            self._tell(act(waiting.job.job_id, self._at_us()))

    def _some_waiting(self) -> Seen | None:
        waiting = self._oracle.waiting()
        return self._rng.choice(waiting) if waiting else None

    def _confirm(self) -> None:
        decided = self._granted.pop(self._rng.choice(sorted(self._granted)))
        if self._rng.random() < 0.15:
            self._tell(region.declined(decided, self._at_us()))
            return
        # Resource managers may report it late.
        started_us = self._rng.randint(decided.decided_at_us, self._now_us)
        self._tell(region.started(decided, started_at_us=started_us))
        self._runs[decided.job_id] = decided

    def _end(self) -> None:
        decided = self._runs.pop(self._rng.choice(sorted(self._runs)))
        job, at_us = decided.job_id, self._at_us()
        if self._rng.random() < 0.15:
            self._tell(region.requeued(job, at_us, decided.attempt + 1, grant=decided.grant))
            return
        outcome = self._rng.choice([JOB_OUTCOME_COMPLETED, JOB_OUTCOME_FAILED])
        began_us = self._oracle.jobs[job].started_us
        end = (decided.attempt, outcome, decided.grant)
        self._tell(region.finished(job, at_us, *end, started_at_us=began_us))

    # Rounds -----------------------------------------------------------------------------------

    def _end_round(self) -> None:
        """At a wake, at the same moment as something else, or after some time."""
        later_us = self._now_us + ROUND_US * self._rng.choice([1, 1, 1, 2, 7])
        wake_us = self._steady.wake_us()
        if wake_us is not None and self._now_us + 1_000 < wake_us <= later_us:
            later_us = wake_us
        self._now_us, self._sequence = later_us, 0
        if self._rng.random() < 0.2:
            self._state = region.saved(self._state, self._killed.changes())
            self._killed = Placement(self._state, _RULES, 7.0)
        ended = Round(self._number, self._now_us)
        self._number += 1
        decided, again = (
            region.decisions(placement.end_round(ended))
            for placement in (self._steady, self._killed)
        )
        if decided != again:
            self.violations.append(f"round {ended.number}: who was restored decides otherwise")
        self._oracle.end_round(self._now_us)
        self._judge(decided)
        self._require_wake()

    def _require_wake(self) -> None:
        """Whatever time alone changes, a round is wanted then."""
        next_us, wake_us = self._oracle.next_us(), self._steady.wake_us()
        if next_us is not None and (wake_us is None or wake_us > next_us + 1):
            self.violations.append(f"no round is wanted at {next_us}, but at {wake_us}")

    def _judge(self, decided: list[PlacementDecided]) -> None:
        oracle = self._oracle
        for one in decided:
            self._verdicts[one.job_id] = one.verdict
            if one.verdict != VERDICT_START:
                continue
            self.starts += 1
            job = oracle.jobs[one.job_id]
            if job.state is not State.WAITS:
                self._violated(one.job_id, "starts though it does not wait")
            elif why := oracle.why_not(job):
                self._violated(one.job_id, f"starts though {why}")
            elif not set(one.node_indices) <= oracle.free_for(job):
                self._violated(one.job_id, f"starts on {list(one.node_indices)}, kept for others")
            oracle.start(one.job_id, one.node_indices)
            self._granted[one.job_id] = one
        self._judge_heads()
        self._judge_words()

    def _judge_heads(self) -> None:
        """The first job in line starts where it fits."""
        oracle, now_us = self._oracle, self._now_us
        line = [job for job in oracle.waiting() if not oracle.why_not(job)]
        # Behind one that awaits its reservation others wait for nothing.
        line = [job for job in line if not _awaits(oracle, job, now_us)]
        free = len(oracle.free_for(line[0])) if line else 0
        if line and line[0].job.nodes <= free:
            name = line[0].job.job_id
            self._violated(name, f"is the first in line, fits on {free} nodes and waits")

    def _judge_words(self) -> None:
        """A job is held where it never starts by itself, else queued."""
        oracle = self._oracle
        startable = oracle.startable()
        for job in oracle.waiting():
            name, verdict = job.job.job_id, self._verdicts.get(job.job.job_id)
            is_kept = job.is_held or oracle.misses_deadline(job) or oracle.is_hopeless(job)
            is_kept |= oracle.lacks_reservation(job)
            if verdict == VERDICT_HELD and not is_kept and name in startable:
                self._violated(name, "is held though it may start some time")
            if verdict == VERDICT_QUEUED and is_kept:
                self._violated(name, "is queued though it never starts by itself")

    def _violated(self, job_id: str, what: str) -> None:
        self.violations.append(f"round {self._number - 1}: {job_id} {what}")


def _awaits(oracle: Oracle, job: Seen, now_us: int) -> bool:
    own = oracle.reserved.get(job.job.reservation)
    return own is not None and now_us < own.from_us
