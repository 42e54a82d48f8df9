"""A record under other rules: what came from outside comes as recorded, what followed from
decisions is made anew."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final

from coplace.v1.control_pb2 import (
    NodesDrained,
    PolicyDeclared,
    PowerCapDeclared,
    ReservationDeclared,
    RoundEnded,
)
from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_CANCELLED,
    JOB_OUTCOME_COMPLETED,
    JOB_OUTCOME_TIMED_OUT,
    JobActionDone,
    JobDeclined,
    JobFinished,
    JobOutcome,
    JobStarted,
    JobSubmitted,
    RunInterval,
)
from coplace.v1.placement_pb2 import (
    ACTION_KIND_END,
    ACTION_KIND_SUSPEND,
    VERDICT_ACTION,
    VERDICT_CANCELLED,
    VERDICT_REJECTED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    Action,
    PlacementDecided,
)
from coplace.v1.plans_pb2 import PlanProposed
from google.protobuf.message import Message

from coplace_client.millicores import beside_cores, whole_cores
from shared.catalogue.event import Event
from shared.catalogue.options import follows_decisions
from shared.catalogue.policy_declarations import reset_values
from shared.placement.evaluate.neighbour_rules import NeighbourRules
from shared.replay.caps import CapChanges
from shared.replay.inputs import RecordedInputs
from shared.replay.region import RecordFollower, ReplayedRegion, Setting
from shared.replay.runs import Allotment, Nodes, Run
from shared.replay.truth import Truth
from shared.scheduling.dispatch import Dispatcher, Served
from shared.scheduling.engine import Engine
from shared.scheduling.progress import ENDED
from shared.scheduling.wait_queue import Entry
from shared.streams.stages.stage import AlreadyAppliedError, Processor, Round

_US_PER_S: Final = 1_000_000
# Nothing is requeued: a job runs once.
_ONLY_ATTEMPT: Final = 1


@dataclass(slots=True)
class Course:
    """The course of a record: all decisions in their order, the jobs that ended, the caps that
    applied. `unfinished` counts the jobs that started and ran on, or never started, `rejected`
    those that fitted nowhere."""

    decisions: list[PlacementDecided] = field(default_factory=list)
    finished: list[JobFinished] = field(default_factory=list)
    caps: list[PowerCapDeclared] = field(default_factory=list)
    unfinished: int = 0
    rejected: int = 0


def as_recorded(inputs: RecordedInputs, decisions: Sequence[PlacementDecided]) -> Course:
    """Return the course that was recorded."""
    payloads = [event.payload for event in inputs.events]
    submitted = {each.job_id for each in payloads if isinstance(each, JobSubmitted)}
    ends = {each.job_id: each for each in payloads if isinstance(each, JobFinished)}
    last = {each.job_id: each.verdict for each in decisions}
    rejected = {job_id for job_id, verdict in last.items() if verdict == VERDICT_REJECTED}
    return Course(
        decisions=list(decisions),
        finished=[each for job_id, each in ends.items() if job_id in submitted],
        caps=[each for each in payloads if isinstance(each, PowerCapDeclared)],
        unfinished=len(submitted - ends.keys() - rejected),
        rejected=len(rejected),
    )


class WhatIf(Dispatcher):
    """One play of a record under some rules: the dispatcher of a region, in rounds.

    Resource managers start at the end of a round what was decided in it, act on what runs, and
    confirm it at once. Rounds end when they did in the record and, on the same grid of times, when
    a job ends, an action was done, a job that waits may begin or, while jobs wait or run, a cap
    changes or drained nodes are back. `sequencer` puts the events of a round into placement's
    order; `caps` takes the place of what the record declares, and what it declares of the settings
    that are `fixed` is left out. Plans come as recorded where they are `planned`: under other rules
    they would be of a course that never was. A `planner` makes them anew, after each round for the
    next one.

    To the engine recorded rounds are arrivals and what runs is on one cluster; a holder is the
    place of a job among those of the record. Its times are s after the first round, whole
    microseconds.
    """

    def __init__(
        self,
        inputs: RecordedInputs,
        truth: Truth,
        setting: Setting,
        sequencer: Processor,
        caps: CapChanges,
        *,
        fixed: Collection[str] = (),
        planned: bool = False,
        planner: RecordFollower | None = None,
    ) -> None:
        first = inputs.rounds[0]
        self._inputs, self._truth, self._sequencer = inputs, truth, sequencer
        self._region = ReplayedRegion(setting, first.round.ended_at_us)
        self._planner = planner
        self._begin_us, self._writer = first.round.ended_at_us, first.barrier
        known = truth.jobs
        self._ahead = list(_from_outside(inputs, caps, fixed, known, planned=planned))[::-1]
        self._nodes = Nodes(NeighbourRules(truth.models)())
        self._round = replace(first.round, number=first.round.number - 1, ended_at_us=0)
        self._due_us: float = inf
        self._job_ids = list(truth.jobs)
        self._holders = {job_id: holder for holder, job_id in enumerate(truth.jobs)}
        self._waiting: set[str] = set()
        self._running: dict[str, Run] = {}
        self._over: set[str] = set()
        self._done: set[str] = set()
        self._slowdowns: dict[int, float] = {}
        # When jobs are cancelled or end at their limits; what has moved since is passed over.
        self._stops = [(at_us, job_id) for job_id, at_us in truth.leaves_us.items()]
        heapify(self._stops)
        self._outbox: list[Event] = []
        self._cap_steps_us: set[int] = set()
        self._turns_us: set[int] = set()
        self._has_answers = False
        self.course = Course()

    def play(self, told: Callable[[int], None]) -> Course:
        """Play the record; `told` gets how many jobs have ended."""
        arrive_s = [self._s(recorded.round.ended_at_us) for recorded in self._inputs.rounds]
        begin_s = min(arrive_s[0], self.wake_s(-inf))
        engine = Engine(self, arrive_s, self._runs_s, begin_s, ticks_per_s=_US_PER_S)
        while engine.next_s < inf:
            engine.step()
            told(len(self.course.finished))
        self.course.unfinished = len(self._waiting) + len(self._running)
        return self.course

    @property
    def waits(self) -> bool:
        """Return whether a job waits."""
        return bool(self._waiting)

    def arrive(self) -> None:
        """End a recorded round; what the record says of it is put into the outbox."""
        self._due_us, events = self._ahead.pop()
        self._outbox += events
        self._learn(events)

    def end(self, number: int, holder: int) -> None:
        """End a job that has done its work, or was ended before."""
        self._done.add(self._job_ids[holder])

    def decide(self, now_s: float) -> list[Served]:
        """Decide what starts now, where a round ends."""
        self._slowdowns = {}
        self._let_go(now_s)
        if self._s(self._due_us) > now_s:
            return []
        self._round = Round(self._round.number + 1, int(self._due_us))
        self._has_answers = False
        events, barrier = self._sequenced(), self._barrier()
        decisions = self._region.decide(events, barrier)
        self.course.decisions += decisions
        self._obey(decisions)
        if self._planner is not None:
            self._answer(self._planner.plans(events, barrier))
        self._due_us = min(map(self._on_grid, self._asks_us()), default=inf)
        started = (each.job_id for each in decisions if each.verdict == VERDICT_START)
        return [self._served(job_id) for job_id in started if job_id in self._running]

    def wake_s(self, now_s: float) -> float:
        """Return when the next round ends, or a job is cancelled or ends at its limit."""
        while self._stops and self._outcome(*self._stops[0]) is None:
            heappop(self._stops)
        return self._s(min(self._due_us, self._stops[0][0] if self._stops else inf))

    def slowdowns(self) -> Mapping[int, float]:
        """Return the slowdowns of jobs that started, were acted on or ended, and of the neighbours
        of these."""
        return self._slowdowns

    def _answer(self, events: Sequence[Event]) -> None:
        """What somebody says to what was decided, which placement hears at the next end of a
        round."""
        self._outbox += events
        self._has_answers |= bool(events)

    def _served(self, job_id: str) -> Served:
        holder, run = self._holders[job_id], self._running[job_id]
        return 0, Entry(holder, holder, len(run.allotment.nodes), run.walltime_s), None, False

    def _runs_s(self, served: Served) -> float:
        return self._running[self._job_ids[served[1].arrival]].solo_s

    def _s(self, at_us: float) -> float:
        return (at_us - self._begin_us) / _US_PER_S

    def _asks_us(self) -> Iterator[int]:
        """Times behind the last round at which another one is due, whatever ends until then."""
        if self._has_answers or (self._outbox and not self._ahead):
            yield self._round.ended_at_us + 1
        if self._waiting or self._running:
            steps_us = self._cap_steps_us | self._turns_us
            yield from (us for us in steps_us if us > self._round.ended_at_us)
        if self._waiting and (start_us := self._region.placement.next_start_us()) is not None:
            yield start_us

    def _on_grid(self, at_us: int) -> int:
        """Return the first end of a round that is not before this time and behind the last
        round."""
        grid_us, begin_us = self._inputs.grid_us, self._begin_us
        at_us = max(at_us, self._round.ended_at_us + 1)
        return begin_us - (begin_us - at_us) // grid_us * grid_us

    def _learn(self, events: Iterable[Event]) -> None:
        for event in events:
            match event.payload:
                case JobSubmitted() as submitted:
                    is_copy = submitted.job_id in self._running or submitted.job_id in self._over
                    self._waiting |= set() if is_copy else {submitted.job_id}
                case PowerCapDeclared() as cap:
                    self.course.caps.append(cap)
                    self._cap_steps_us |= {step.from_us for step in cap.steps}
                case NodesDrained() as drained if drained.until_us:
                    self._turns_us.add(drained.until_us)
                case ReservationDeclared() as reservation:
                    self._turns_us |= {reservation.from_us, reservation.until_us}

    def _let_go(self, now_s: float) -> None:
        """Whoever has done its work, is at its limit or is cancelled by its user leaves; a round
        ends then."""
        now_us, done = self._begin_us + round(now_s * _US_PER_S), self._done
        gone = {(now_us, job_id) for job_id in done}
        while self._stops and self._s(self._stops[0][0]) <= now_s:
            gone.add(heappop(self._stops))
        for at_us, job_id in sorted(gone):
            outcome = self._outcome(at_us, job_id, is_done=job_id in done)
            if outcome is not None:
                self._due_us = min(self._due_us, self._on_grid(at_us))
                run = self._running.get(job_id)
                if run is None:
                    self._leave(job_id)
                else:
                    self._finish(run, outcome, at_us)
        self._done = set()

    def _outcome(
        self, at_us: int, job_id: str, *, is_done: bool = False
    ) -> JobOutcome.ValueType | None:
        """Return how a job ends then, None where it does not: what is done to it moves its limit.
        One that has done its work ends as it did where it ran."""
        if self._truth.leaves_us.get(job_id) == at_us and job_id not in self._over:
            return JOB_OUTCOME_CANCELLED
        run = self._running.get(job_id)
        if run is None:
            return None
        if run.deadline_us == at_us and not run.is_suspended:
            return JOB_OUTCOME_TIMED_OUT
        seen = self._truth.runs[job_id].finished if job_id in self._truth.runs else None
        return (seen.outcome if seen else JOB_OUTCOME_COMPLETED) if is_done else None

    def _leave(self, job_id: str) -> None:
        """A job that waits is cancelled by its user."""
        event = self._truth.finishes[job_id]
        finished = JobFinished.FromString(event.payload.SerializeToString())
        finished.attempt = _ONLY_ATTEMPT
        for never in ("started_at_us", "grant", "freq_ghz", "energy_j", "intervals"):
            finished.ClearField(never)
        self._waiting.discard(job_id)
        self._over.add(job_id)
        self._outbox.append(replace(event, payload=finished))
        self.course.finished.append(finished)

    def _sequenced(self) -> list[Event]:
        """Return what happened in the round, in the order in which placement learns it."""
        for event in self._outbox:
            with suppress(AlreadyAppliedError):
                self._sequencer.handle(event)
        self._outbox = []
        return [each.event for each in self._sequencer.end_round(self._round)]

    def _barrier(self) -> Event:
        ended = self._round
        payload = RoundEnded(round=ended.number, ended_at_us=ended.ended_at_us)
        name = f"{self._writer.source}/{self._writer.type}/round/{ended.number}"
        return replace(self._writer, id=name, time_us=ended.ended_at_us, payload=payload)

    def _obey(self, decisions: Iterable[PlacementDecided]) -> None:
        """Do what was decided, as resource managers do."""
        for decided in decisions:
            if decided.verdict == VERDICT_START:
                self._start(decided)
            elif decided.verdict == VERDICT_CANCELLED:
                self._cancel(decided.job_id)
            elif decided.verdict == VERDICT_WITHDRAWN and decided.job_id in self._waiting:
                self._decline(decided)
            elif decided.verdict == VERDICT_REJECTED:
                self._waiting.discard(decided.job_id)
                self.course.rejected += 1
            elif decided.verdict == VERDICT_ACTION and decided.job_id in self._running:
                self._act(self._running[decided.job_id], decided.action)

    def _start(self, decided: PlacementDecided) -> None:
        job_id, now_us = decided.job_id, self._round.ended_at_us
        job, allotment = self._truth.jobs[job_id], Allotment.from_decision(decided)
        solo_s = self._truth.solo_s(job, allotment)
        is_bounded = solo_s is None or self._truth.kills
        limit_us = now_us + max(1, round(decided.walltime_s * 1e6))
        run = Run(
            job=job,
            attempt=decided.attempt,
            allotment=allotment,
            started_us=now_us,
            grant=decided.grant,
            solo_s=inf if solo_s is None else solo_s,
            deadline_us=limit_us if is_bounded else None,
            walltime_s=decided.walltime_s,
        )
        self._waiting.remove(job_id)
        self._running[job_id] = run
        self._slow(self._nodes.start(run))
        self._stop_at_limit(run)
        started = JobStarted(
            job_id=job_id,
            attempt=decided.attempt,
            cluster=decided.cluster,
            freq_ghz=decided.freq_ghz,
            started_at_us=now_us,
            grant=decided.grant,
        )
        self._outbox.append(self._said(started, job_id, now_us, self._truth.starts.get(job_id)))

    def _cancel(self, job_id: str) -> None:
        """A job leaves the queue, or its nodes."""
        self._waiting.discard(job_id)
        self._over.add(job_id)
        if job_id in self._running:
            run = self._running[job_id]
            self._finish(run, JOB_OUTCOME_CANCELLED, self._round.ended_at_us)

    def _act(self, run: Run, asked: Action) -> None:
        """Do to a job that runs what is asked, and say so."""
        job_id, now_us = run.job.job_id, self._round.ended_at_us
        if asked.kind == ACTION_KIND_END:
            self._finish(run, JOB_OUTCOME_CANCELLED, now_us)
            return
        freq_ghz = asked.freq_ghz or run.freq_ghz
        pace_ratio = self._truth.pace(run.job, run.allotment, freq_ghz)
        is_stopped = asked.kind == ACTION_KIND_SUSPEND
        self._slow(self._nodes.act(run, now_us, freq_ghz, pace_ratio, suspended=is_stopped))
        run.limit(asked.walltime_s or run.walltime_s, now_us)
        self._stop_at_limit(run)
        done = JobActionDone(
            job_id=job_id,
            attempt=run.attempt,
            grant=run.grant,
            number=asked.number,
            done_at_us=now_us,
            freq_ghz=0.0 if is_stopped else freq_ghz,
        )
        like = self._truth.done.get((job_id, asked.number))
        self._outbox.append(self._said(done, job_id, now_us, like))
        self._has_answers = True

    def _decline(self, decided: PlacementDecided) -> None:
        """Undo a start that is withdrawn: it did not take place."""
        now_us = self._round.ended_at_us
        declined = JobDeclined(
            job_id=decided.job_id,
            attempt=decided.attempt,
            grant=decided.grant,
            reason="as asked",
            declined_at_us=now_us,
        )
        self._outbox.append(self._said(declined, decided.job_id, now_us, None))

    def _finish(self, run: Run, outcome: JobOutcome.ValueType, now_us: int) -> None:
        job_id = run.job.job_id
        self._slow(self._nodes.end(run))
        self._slowdowns[self._holders[job_id]] = ENDED
        del self._running[job_id]
        self._over.add(job_id)
        finished = self._finished(run, outcome, now_us)
        self.course.finished.append(finished)
        self._outbox.append(self._said(finished, job_id, now_us, self._truth.finishes.get(job_id)))

    def _slow(self, runs: Iterable[Run]) -> None:
        """Their slowdowns are new."""
        self._slowdowns |= {self._holders[run.job.job_id]: run.slowdown_ratio for run in runs}

    def _stop_at_limit(self, run: Run) -> None:
        if run.deadline_us is not None:
            heappush(self._stops, (run.deadline_us, run.job.job_id))

    def _finished(self, run: Run, outcome: JobOutcome.ValueType, now_us: int) -> JobFinished:
        job, on = run.job, run.allotment
        units, intervals = sum(on.units), self._intervals(run, now_us)
        return JobFinished(
            job_id=job.job_id,
            attempt=run.attempt,
            outcome=outcome,
            cluster=on.cluster,
            app_id=job.app_id,
            user=job.user,
            account=job.account,
            nodes=len(on.nodes),
            cores_per_node=whole_cores(on.most_millicores_on_a_node),
            freq_ghz=run.freq_ghz,
            submitted_at_us=round(job.submit_s * 1e6),
            started_at_us=run.started_us,
            ended_at_us=now_us,
            energy_j=sum(each.energy_j for each in intervals),
            node_model=self._truth.models.clusters[on.cluster].node_model,
            grant=run.grant,
            cores=whole_cores(on.all_millicores),
            millicores=beside_cores(on.all_millicores),
            resources=dict(job.resources(units)),
            intervals=intervals if run.stretches else (),
        )

    def _intervals(self, run: Run, now_us: int) -> list[RunInterval]:
        """Return the stretches of a run until now, with what it drew in each."""
        found = run.intervals
        ends_us = [*(began_us for began_us, _ in found[1:]), now_us]
        return [
            RunInterval(
                began_at_us=began_us,
                freq_ghz=ghz,
                energy_j=self._truth.stretch_j(
                    run.job, run.allotment, ghz, (end_us - began_us) / 1e6
                ),
            )
            for (began_us, ghz), end_us in zip(found, ends_us, strict=True)
        ]

    def _said(self, payload: Message, job_id: str, now_us: int, like: Event | None) -> Event:
        """A resource manager's word, under the name that it had in the record if there is one."""
        if like is not None:
            return replace(like, time_us=now_us, payload=payload)
        submission = self._truth.submissions[job_id]
        name = f"{submission.source}/{payload.DESCRIPTOR.full_name}/{job_id}"
        return replace(submission, id=f"{name}/{now_us}", time_us=now_us, payload=payload)


def _from_outside(
    inputs: RecordedInputs,
    caps: CapChanges,
    fixed: Collection[str],
    jobs: Collection[str],
    *,
    planned: bool,
) -> Iterator[tuple[int, list[Event]]]:
    """Yield when each recorded round ended, and what came from outside in it; of jobs, those of
    which the record says what they are."""
    changed = caps.changed()
    for recorded in inputs.rounds:
        found: list[Event] = []
        for event in recorded.events:
            if isinstance(event.payload, PolicyDeclared):
                left = reset_values(event.payload, fixed)
                found += [replace(event, payload=left)] if left else []
            elif isinstance(event.payload, JobSubmitted) and event.payload.job_id not in jobs:
                continue
            elif _is_from_outside(event.payload, planned):
                found += changed(event)
        yield recorded.round.ended_at_us, found


def _is_from_outside(payload: Message, planned: bool) -> bool:
    """Return whether something comes whatever placement decides. A job's first submission does, and
    later attempts follow from what came of it. What was learned of runs, signatures and what
    shutters saw of pairs among it, counts as it was recorded."""
    if isinstance(payload, JobSubmitted):
        return payload.attempt <= _ONLY_ATTEMPT
    if isinstance(payload, PlanProposed):
        return planned
    return not follows_decisions(payload)
