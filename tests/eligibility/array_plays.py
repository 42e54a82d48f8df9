"""Arrays of tasks at random: two placements get the same events, one of them is restored from its
state again and again, and each task is followed as a row of its own."""

from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from coplace.v1.jobs_pb2 import (
    DEPENDENCY_CONDITION_AFTER_ANY,
    DEPENDENCY_CONDITION_AFTER_CORR,
    DEPENDENCY_CONDITION_AFTER_OK,
    JOB_OUTCOME_COMPLETED,
    JOB_OUTCOME_FAILED,
    Dependency,
)
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided

from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from shared.streams.stages.stage import Round
from tests.eligibility.oracle import ENDED, State
from tests.eligibility.plays import NODES, ROUND_US, _one_cluster
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import T0_US

_INDICES: Final = ("0", "0-1", "0-4", "2-9", "1,3,5-9:2", "0-11:3", "4,7-8,30")
_CONDITIONS: Final = (
    DEPENDENCY_CONDITION_AFTER_ANY,
    DEPENDENCY_CONDITION_AFTER_OK,
    DEPENDENCY_CONDITION_AFTER_CORR,
    DEPENDENCY_CONDITION_AFTER_CORR,
)
# Nothing is held for what resource managers did to it.
_RULES: Final = PolicySettings(
    Policy.BASE, start_timeout_s=0.0, most_missed_starts=0, most_requeues=0
)
ACTIVE: Final = (State.GRANTED, State.RUNS)


def indices_of(text: str) -> list[int]:
    """All indices, one by one."""
    found: list[int] = []
    for part in text.split(","):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        found += range(int(first), int(last or first) + 1, int(step or 1))
    return found


@dataclass(slots=True)
class Task:
    """One task, or a job that is no array: the index is -1."""

    job_id: str
    of: str
    index: int
    nodes: int
    order: tuple[int, int]
    state: State = State.WAITS
    is_held: bool = False
    has_started: bool = False
    attempt: int = 1


@dataclass(slots=True)
class Submitted:
    """What was submitted, with all its tasks."""

    job_id: str
    tasks: list[Task]
    at_most: int
    awaits: list[Dependency]
    licences: dict[str, int] = field(default_factory=dict)

    @property
    def active(self) -> int:
        """How many of its tasks have nodes."""
        return sum(task.state in ACTIVE for task in self.tasks)

    @property
    def has_ended(self) -> bool:
        """Whether all have."""
        return all(task.state in ENDED for task in self.tasks)

    @property
    def has_completed(self) -> bool:
        """Whether all have, well."""
        return all(task.state is State.COMPLETED for task in self.tasks)


@dataclass
class ArrayPlay:
    """One seed. `violations` are what broke a rule; `starts` counts."""

    seed: int
    violations: list[str] = field(default_factory=list)
    events: int = 0
    starts: int = 0

    def __post_init__(self) -> None:
        self._rng = Random(self.seed)
        self._steady, self._killed = Placement({}, _RULES, 7.0), Placement({}, _RULES, 7.0)
        self._state: dict[str, bytes] = {}
        self._now_us, self._number, self._sequence, self._arrivals = T0_US, 0, 0, 0
        self._all: dict[str, Submitted] = {}
        self._by_id: dict[str, Task] = {}
        self._granted: dict[str, PlacementDecided] = {}
        self._runs: dict[str, PlacementDecided] = {}
        self._met: set[tuple[str, str]] = set()
        for placement in (self._steady, self._killed):
            region.feed(placement, _one_cluster())

    def play(self, rounds: int) -> "ArrayPlay":
        """So many rounds, or up to the first violation; then all that can ends."""
        for _ in range(rounds):
            if self.violations:
                return self
            for _ in range(self._rng.choice([0, 1, 1, 2, 4])):
                self._happen()
            self._end_round()
        for _ in range(200):
            if self.violations or not self._drain():
                break
            self._end_round()
        self._require_none_lost()
        return self

    # What happens -----------------------------------------------------------------------------

    def _happen(self) -> None:
        acts = [self._submit] * 2 + [self._cancel, self._hold_or_release]
        acts += [self._confirm] * 4 if self._granted else []
        acts += [self._end] * 4 if self._runs else []
        self._rng.choice(acts)()

    def _tell(self, event: Event) -> None:
        self.events += 1
        for placement in (self._steady, self._killed):
            region.feed(placement, [event])

    def _at_us(self) -> int:
        self._sequence += 1
        return self._now_us + self._sequence

    def _submit(self) -> None:
        rng, at_us, name = self._rng, self._at_us(), f"job-{len(self._all)}"
        array = rng.choice(_INDICES) if rng.random() < 0.8 else ""
        said: dict[str, Any] = {"array": array, "nodes": rng.randint(1, NODES)}
        said["walltime_s"] = 60.0 * rng.randint(1, 9)
        said["array_at_most"] = rng.choice([0, 1, 2, 3]) if array else 0
        others = list(self._all)[-4:]
        said["depends_on"] = [
            Dependency(job_id=rng.choice(others), condition=rng.choice(_CONDITIONS))
            for _ in range(rng.choice([0, 0, 1, 1, 2]) if others else 0)
        ]
        licences = self._licences()
        self._tell(region.submitted(name, at_us, licences=licences, **said))
        self._arrivals += 1
        tasks = [
            Task(f"{name}_{n}" if array else name, name, n, said["nodes"], (self._arrivals, n))
            for n in (indices_of(array) if array else [-1])
        ]
        of_all = said["array_at_most"], said["depends_on"], licences
        self._all[name] = Submitted(name, tasks, *of_all)
        self._by_id |= {task.job_id: task for task in tasks}

    def _licences(self) -> dict[str, int]:
        """What each task needs beside nodes: nothing here."""
        return {}

    def _waiting(self) -> list[Task]:
        return [task for task in self._by_id.values() if task.state is State.WAITS]

    def _some(self) -> tuple[str, list[Task]] | None:
        """A task that waits, or an array with such tasks, and those that a word on it is on."""
        if not (waiting := self._waiting()):
            return None
        task = self._rng.choice(waiting)
        if task.index < 0 or self._rng.random() < 0.6:
            return task.job_id, [task]
        return task.of, [each for each in self._all[task.of].tasks if each.state not in ENDED]

    def _cancel(self) -> None:
        if (found := self._some()) is None or self._rng.random() < 0.5:
            return
        name, tasks = found
        self._tell(region.cancelled(name, self._at_us()))
        for task in tasks:
            if task.state is State.WAITS:
                task.state = State.FAILED
            else:
                self._cancel_started(task)

    def _cancel_started(self, task: Task) -> None:
        """What has nodes ends by the word of its resource manager, which comes at once."""
        decided = self._granted.pop(task.job_id, None)
        if decided is not None:
            self._tell(region.declined(decided, self._at_us()))
        elif (run := self._runs.pop(task.job_id, None)) is not None:
            self._finish(run, JOB_OUTCOME_FAILED)
        task.state = State.FAILED

    def _hold_or_release(self) -> None:
        if (found := self._some()) is None:
            return
        name, tasks = found
        is_held = tasks[0].is_held
        act = region.released if is_held else region.held
        self._tell(act(name, self._at_us()))
        for task in tasks:
            task.is_held = not is_held
        # What is granted and held now is withdrawn, and declined.
        for task in tasks:
            if task.is_held and (decided := self._granted.pop(task.job_id, None)) is not None:
                self._tell(region.declined(decided, self._at_us()))
                task.state = State.WAITS

    def _confirm(self) -> None:
        decided = self._granted.pop(self._rng.choice(sorted(self._granted)))
        task = self._by_id[decided.job_id]
        if self._rng.random() < 0.2:
            self._tell(region.declined(decided, self._at_us()))
            task.state = State.WAITS
            return
        self._tell(region.started(decided, started_at_us=self._now_us))
        self._runs[decided.job_id], task.state = decided, State.RUNS

    def _end(self) -> None:
        decided = self._runs.pop(self._rng.choice(sorted(self._runs)))
        task = self._by_id[decided.job_id]
        if self._rng.random() < 0.2:
            self._requeue(task, decided)
            return
        self._finish(decided, self._rng.choice([JOB_OUTCOME_COMPLETED, JOB_OUTCOME_FAILED]))
        if self._rng.random() < 0.1:
            self._requeue(task, decided)

    def _requeue(self, task: Task, decided: PlacementDecided) -> None:
        """Let a task run again: one that runs, or has just ended."""
        task.attempt = decided.attempt + 1
        back = region.requeued(task.job_id, self._at_us(), task.attempt, grant=decided.grant)
        self._tell(back)
        self._arrivals += 1
        task.state, task.order = State.WAITS, (self._arrivals, 0)

    def _finish(self, decided: PlacementDecided, outcome: Any) -> None:
        end = (decided.attempt, outcome, decided.grant)
        at_us = self._at_us()
        self._tell(region.finished(decided.job_id, at_us, *end, started_at_us=self._now_us))
        is_ok = outcome == JOB_OUTCOME_COMPLETED
        self._by_id[decided.job_id].state = State.COMPLETED if is_ok else State.FAILED

    def _drain(self) -> bool:
        """Let what is held go, what was granted start, and what runs end; False where nothing is
        left to do."""
        held = [task for task in self._waiting() if task.is_held]
        for task in held:
            self._tell(region.released(task.job_id, self._at_us()))
            task.is_held = False
        left = bool(held or self._granted or self._runs or self._line())
        for job_id in sorted(self._granted):
            decided = self._granted.pop(job_id)
            self._tell(region.started(decided, started_at_us=self._now_us))
            self._runs[job_id], self._by_id[job_id].state = decided, State.RUNS
        for job_id in sorted(self._runs):
            self._finish(self._runs.pop(job_id), JOB_OUTCOME_COMPLETED)
        return left

    # What may start ---------------------------------------------------------------------------

    def _note_met(self) -> None:
        """What was met stays met, for a task each."""
        for submitted in self._all.values():
            for number, awaited in enumerate(submitted.awaits):
                for task in submitted.tasks:
                    if task.state is State.WAITS and self._is_met(task, awaited):
                        self._met.add((task.job_id, str(number)))

    def _is_met(self, task: Task, awaited: Dependency) -> bool:
        other = self._all[awaited.job_id]
        if awaited.condition == DEPENDENCY_CONDITION_AFTER_ANY:
            return other.has_ended
        if awaited.condition == DEPENDENCY_CONDITION_AFTER_CORR and task.index >= 0:
            same = [each for each in other.tasks if each.index == task.index]
            if same:
                return same[0].state is State.COMPLETED
        return other.has_ended and other.has_completed

    def why_not(self, task: Task) -> str:
        """Why a task that waits may not start, but for nodes; empty where nothing keeps it."""
        submitted = self._all[task.of]
        if task.is_held:
            return "it is held"
        for number in range(len(submitted.awaits)):
            if (task.job_id, str(number)) not in self._met:
                return f"dependency {number} is not met"
        if submitted.at_most and submitted.active >= submitted.at_most:
            return f"{submitted.active} of its array have nodes"
        return ""

    def _line(self) -> list[Task]:
        line = [task for task in self._waiting() if not self.why_not(task)]
        return sorted(line, key=lambda task: task.order)

    # Rounds -----------------------------------------------------------------------------------

    def _end_round(self) -> None:
        self._now_us, self._sequence = self._now_us + ROUND_US, 0
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
            self._violated("who was restored decides otherwise")
        self._note_met()
        self._judge([one for one in decided if one.verdict == VERDICT_START])
        for submitted in self._all.values():
            self._judge_standing(submitted)

    def _judge(self, starts: list[PlacementDecided]) -> None:
        for one in starts:
            self.starts += 1
            task = self._by_id.get(one.job_id)
            if task is None or task.state is not State.WAITS:
                self._violated(f"{one.job_id} starts though it does not wait")
                continue
            if one.attempt != task.attempt:
                self._violated(f"{one.job_id} starts as attempt {one.attempt}")
            if why := self.why_not(task):
                self._violated(f"{one.job_id} starts though {why}")
            earlier = [each for each in self._line() if each.of == task.of]
            if earlier and earlier[0].order < task.order:
                self._violated(f"{one.job_id} starts before {earlier[0].job_id}")
            self._judge_start(task)
            task.state, task.has_started = State.GRANTED, True
            self._granted[one.job_id] = one
        used = sum(task.nodes for task in self._by_id.values() if task.state in ACTIVE)
        if used > NODES:
            self._violated(f"{used} nodes are used")
        line = self._line()
        if line and line[0].nodes <= NODES - used and self._gets_licences(line[0]):
            self._violated(f"{line[0].job_id} is the first in line, fits and waits")

    def _judge_start(self, task: Task) -> None:
        """A task starts, before it counts."""

    def _gets_licences(self, _task: Task) -> bool:
        """Whether a task needs nothing that others have."""
        return True

    def _judge_standing(self, submitted: Submitted) -> None:
        """What is answered of an array is what its tasks are."""
        if submitted.tasks[0].index < 0:
            return
        answer = self._steady.queries.answer(submitted.job_id)
        if answer is None:
            self._violated(f"{submitted.job_id} is not known")
            return
        states = [task.state for task in submitted.tasks]
        own = (
            states.count(State.WAITS),
            sum(state in ACTIVE for state in states),
            states.count(State.COMPLETED),
            states.count(State.FAILED),
        )
        told = answer.array
        if own != (told.waiting, told.running, told.completed, told.failed):
            self._violated(f"{submitted.job_id} is said to be {told}, is {own}")

    def _require_none_lost(self) -> None:
        """Each task ended, but those whose dependencies are never met."""
        for task in self._waiting() if not self.violations else ():
            if not self.why_not(task):
                self._violated(f"{task.job_id} was lost")

    def _violated(self, what: str) -> None:
        self.violations.append(f"round {self._number - 1}: {what}")
