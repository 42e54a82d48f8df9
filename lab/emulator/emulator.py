"""The emulated resource managers and nodes: a discrete-event core without clock or I/O.

A function of (requests, clusters, seed, decisions): given the same, it says the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from types import MappingProxyType

from coplace.v1 import placement_pb2
from coplace.v1.control_pb2 import LicencesDeclared, PowerCapDeclared, ReservationDeclared
from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_CANCELLED,
    JOB_OUTCOME_COMPLETED,
    JOB_OUTCOME_TIMED_OUT,
    JobOutcome,
)
from coplace.v1.placement_pb2 import (
    ACTION_KIND_END,
    ACTION_KIND_REQUEUE,
    ACTION_KIND_SUSPEND,
    VERDICT_ACTION,
    VERDICT_CANCELLED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    PlacementDecided,
)
from coplace.v1.plans_pb2 import PlanProposed

from coplace_client.errors import UnusableError
from lab.emulator import facts
from lab.emulator.arrays import EmulatedArrays
from lab.emulator.caps import cap_event, step_times_us
from lab.emulator.effects import EVERY, Effect
from lab.emulator.facts import EPOCH_US, id_of, submit_us
from lab.emulator.fair_share import FairShare
from lab.emulator.feasibility import (
    ImpossibleDecisionError,
    named_co_runners,
    require_possible,
    require_pstate,
    unit_given,
    units_of,
)
from lab.emulator.imported import ImportedSignatures
from lab.emulator.licences import licences_event, wrong_licences
from lab.emulator.machine import Machine
from lab.emulator.observed import ObservedRuns
from lab.emulator.profiling import profiling_events
from lab.emulator.reservations import reservation_event, wrong_reservation
from lab.emulator.running import ATTEMPT, EmulatedUnits, RunningJob, TimeBeside, node_power_w
from lab.emulator.scales import PER_INSTRUCTION, TpiScale
from lab.emulator.shapes import units_that_fit
from lab.emulator.start_terms import StartTerms
from lab.emulator.truth.noise import Noise
from lab.emulator.truth.runs import EmulatedTruth
from lab.workloads.request import JobRequest
from shared.catalogue.event import Event, Publish
from shared.domain.cluster import Cluster
from shared.scheduling.progress import Progress
from shared.streams.stages.stage import Round

ROUND_S = 30.0


class StalledError(RuntimeError):
    """Jobs wait, none runs and none will come: nothing can happen any more."""


@dataclass(frozen=True, slots=True)
class RoundOutput:
    """What happened in one round, in the order of its time."""

    events: tuple[Publish, ...]
    round: Round


class Emulator:
    """Call `next_round`, publish its events, `apply` what was decided on them, until `finished`.

    A start takes place at the end of the round that it was decided in; its event is the first of
    the next round in which anything happens. Rounds end on a grid of `round_s` of virtual time
    and are numbered without gaps; those in which nothing happens do not exist.
    `kill_at_limit` ends jobs at their limit, as most resource managers do. `measured_after_s` above
    0 has running jobs measured so long after their start too; `metered_every_s` above 0 has the
    meters of nodes in use read so often. Of a share `under_predicted_share` of the jobs predictions
    are `UNDER_PREDICTED` below what their nodes draw. Operators declare each of `caps` when
    it says, and `reservations` and `licences` at the begin; while jobs wait or run, a round ends
    when one of them changes. Actions are obeyed at the end of the round that they were decided in;
    the answers, and plans, go out with the next round, which follows at once. A plan has rounds end
    when it lets something start, and so has a job that may begin; one that waits at its deadline is
    cancelled. `effects` are those that
    what really happens is made of; `imported` is known of applications in place of a first run.

    Raises UnusableError for a request that no cluster can hold or a cluster that it does not know.
    """

    def __init__(
        self,
        requests: Sequence[JobRequest],
        clusters: Sequence[Cluster],
        seed: int,
        *,
        round_s: float = ROUND_S,
        tpi_scale: TpiScale = PER_INSTRUCTION,
        kill_at_limit: bool = False,
        measured_after_s: float = 0.0,
        metered_every_s: float = 0.0,
        under_predicted_share: float = 0.0,
        caps: Sequence[PowerCapDeclared] = (),
        reservations: Sequence[ReservationDeclared] = (),
        licences: Sequence[LicencesDeclared] = (),
        fair_share_every_s: float = 0.0,
        effects: frozenset[Effect] = EVERY,
        imported: ImportedSignatures = MappingProxyType({}),
    ) -> None:
        self._noise = Noise(seed)
        self._truth = EmulatedTruth(self._noise, effects)
        self._machines = {cluster.name: Machine(cluster, self._noise) for cluster in clusters}
        for request in requests:
            _require_placeable(request, clusters)
        self._arrivals = sorted(requests, key=lambda r: (submit_us(r), r.index), reverse=True)
        self._round_us = round(round_s * 1e6)
        self._tpi_scale, self._imported = tpi_scale, imported
        self._kill_at_limit = kill_at_limit
        self._measured_after_us = round(measured_after_s * 1e6)
        self._metered_every_us, self._metered_next_us = round(metered_every_s * 1e6), 0
        self._runs = ObservedRuns(self._truth, self._noise, under_predicted_share)
        later = sorted(caps, key=lambda cap: cap.declared_at_us, reverse=True)
        self._caps, self._steps_us = later, step_times_us(caps)
        self._reservations, self._licences = tuple(reservations), tuple(licences)
        self._steps_us += [us for each in reservations for us in (each.from_us, each.until_us)]
        self._start_terms = StartTerms(requests, self._machines)
        self._queued: dict[str, JobRequest] = {}
        self._arrays = EmulatedArrays()
        self._fair_share = FairShare(clusters, round(fair_share_every_s * 1e6))
        self._attempts: dict[str, int] = {}
        self._running: dict[str, RunningJob] = {}
        self._declined: set[tuple[str, int]] = set()
        self._proposed: Event | None = None
        self._has_answers = False
        self._planned_us: tuple[int, ...] = ()
        self._ends: list[tuple[int, str]] = []
        self._measurements: list[tuple[int, str]] = []
        self._outbox: list[Publish] = []
        self._round: Round | None = None

    @property
    def finished(self) -> bool:
        """Return whether every job has ended and everything about it is published."""
        waits = self._arrivals or self._queued or self._running or self._outbox
        return self._round is not None and not waits

    def next_round(self) -> RoundOutput:
        """Let time pass to the end of the next round in which anything happens.

        The last round is marked so: nothing is left that could be decided on.
        Raises StalledError when nothing ever will.
        """
        self._round = self._next_round()
        if self._proposed is not None:
            self._outbox.append(Publish(facts.COMMANDS, self._proposed))
            self._proposed = None
        if self._round.number == 0:
            known = self._tpi_scale, self._truth, self._noise, self._imported
            for machine in self._machines.values():
                self._outbox += profiling_events(machine, *known)
            self._declare_caps(EPOCH_US)
            self._outbox += map(reservation_event, self._reservations)
            self._outbox += map(licences_event, self._licences)
        else:
            self._pass_time(self._round.ended_at_us)
            waiting, ended_us = self._queued, self._round.ended_at_us
            running = self._running.values()
            self._outbox += self._fair_share.reorder(waiting, running, ended_us)
        events, self._outbox = tuple(self._outbox), []
        self._has_answers = False
        self._round = replace(self._round, last=self.finished)
        return RoundOutput(events, self._round)

    def apply(self, decisions: Sequence[PlacementDecided], proposed: Event | None = None) -> None:
        """End what was cancelled, decline what was withdrawn and did not start, drop what was
        rejected, act on what runs, and start what was decided on the last round; the order of
        `decisions` on several jobs does not matter. A plan that was `proposed` after that round
        goes on its way while jobs wait.

        Raises ImpossibleDecisionError for a decision that the clusters cannot obey.
        """
        for decision in decisions:
            if decision.verdict == VERDICT_START and decision.array_job_id:
                self._begin_task(decision)
            self._require_current(decision)
        for decision in sorted(decisions, key=lambda d: d.job_id):
            self._stop_or_change(decision)
        starts = [decision for decision in decisions if decision.verdict == VERDICT_START]
        starts.sort(key=lambda d: (bool(d.co_runner_job_id), d.job_id))
        undone = {decision.job_id: decision for decision in starts}
        if len(undone) < len(starts):
            raise ImpossibleDecisionError(starts[-1], "a job was started twice")
        for decision in starts:
            self._start_behind_its_hosts(decision, undone)
        if proposed is not None and self._queued:
            self._proposed, self._planned_us = proposed, planned_times_us(proposed)

    def _stop_or_change(self, decision: PlacementDecided) -> None:
        match decision.verdict:
            case placement_pb2.VERDICT_CANCELLED:
                self._cancel(decision.job_id)
            case placement_pb2.VERDICT_WITHDRAWN:
                self._decline(decision)
            case placement_pb2.VERDICT_REJECTED:
                self._queued.pop(decision.job_id, None)
                self._arrays.drop_left(decision.job_id)
            case placement_pb2.VERDICT_ACTION:
                self._act(decision)

    def _begin_task(self, decision: PlacementDecided) -> None:
        """Queue a task of an array as a job of its own, for its first start."""
        task, array = decision.job_id, decision.array_job_id
        if task in self._queued or task in self._running or array not in self._queued:
            return
        self._queued[task], is_last = self._arrays.take(array)
        if is_last:
            del self._queued[array]
            self._start_terms.start(array, self._current.ended_at_us)

    def _start_behind_its_hosts(
        self, decision: PlacementDecided, undone: dict[str, PlacementDecided]
    ) -> None:
        """A job may join some that start in the same round: they go first."""
        if undone.pop(decision.job_id, None) is None:
            return
        for job in named_co_runners(decision):
            if job in undone:
                self._start_behind_its_hosts(undone[job], undone)
        self._start(decision)

    def _next_round(self) -> Round:
        if self._round is None:
            return Round(0, EPOCH_US)
        due_us = self._next_due_us()
        if due_us is None and self._outbox:
            due_us = self._round.ended_at_us
        due_us = self._next_wake_us(due_us)
        if due_us is None:
            raise StalledError(
                f"{len(self._queued)} jobs wait, none runs and none will come, among them "
                f"{sorted(self._queued)[:3]}: placement must start one of them"
            )
        steps = max(1, -((self._round.ended_at_us - due_us) // self._round_us))
        return Round(self._round.number + 1, self._round.ended_at_us + steps * self._round_us)

    def _next_due_us(self) -> int | None:
        """When the next thing happens; None when nothing ever will."""
        while self._ends and not self._holds(*self._ends[0]):
            heappop(self._ends)
        while self._measurements and self._measurements[0][1] not in self._running:
            heappop(self._measurements)
        expected = [heap[0][0] for heap in (self._ends, self._measurements) if heap]
        comes = [submit_us(self._arrivals[-1])] if self._arrivals else []
        if self._metered_every_us and self._running:
            comes.append(self._metered_next_us)
        if self._caps and (self._queued or self._running or self._arrivals):
            comes.append(self._caps[-1].declared_at_us)
        comes += self._start_terms.deadlines_us(self._queued)
        return min(expected + comes, default=None)

    def _next_wake_us(self, due_us: int | None) -> int | None:
        """When the next thing happens, or sooner: when a cap or a reservation changes that jobs may
        wait for or draw under, or what is planned of them; at once where a plan is to be
        published."""
        ended_us = self._current.ended_at_us
        if self._proposed is not None or self._has_answers:
            return ended_us
        is_asked = self._queued or self._running
        planned_us = self._planned_us if self._queued else ()
        begins_us = self._start_terms.begins_us(ended_us) if self._queued else ()
        times_us = (*self._steps_us, *planned_us, *begins_us) if is_asked else ()
        ahead_us = [at_us for at_us in times_us if at_us > ended_us]
        return min([*ahead_us, *([] if due_us is None else [due_us])], default=None)

    def _holds(self, ends_at_us: int, job: str) -> bool:
        """Whether an expected end still is one: a neighbour's coming or going, or an action, moves
        it."""
        run = self._running.get(job)
        return run is not None and not run.is_suspended and run.ends_at_us == ends_at_us

    def _pass_time(self, until_us: int) -> None:
        while (now_us := self._next_due_us()) is not None and now_us <= until_us:
            if self._ends and self._ends[0][0] == now_us:
                run = self._running[heappop(self._ends)[1]]
                outcome = JOB_OUTCOME_TIMED_OUT if run.timed_out else JOB_OUTCOME_COMPLETED
                self._finish(run, outcome, now_us)
            elif self._measurements and self._measurements[0][0] == now_us:
                self._measure(self._running[heappop(self._measurements)[1]], now_us)
            elif self._caps and self._caps[-1].declared_at_us == now_us:
                self._declare_caps(now_us)
            elif self._running and self._metered_next_us == now_us:
                self._read_meters(now_us)
            elif now_us in self._start_terms.deadlines_us(self._queued):
                self._expire(now_us)
            else:
                self._submit(self._arrivals.pop())

    def _declare_caps(self, now_us: int) -> None:
        """What operators declare by now."""
        while self._caps and self._caps[-1].declared_at_us <= now_us:
            self._outbox.append(cap_event(self._caps.pop()))

    def _submit(self, request: JobRequest) -> None:
        cluster = self._machines[request.reference_cluster].cluster
        job = id_of(request, cluster.site)
        self._queued[job] = request
        self._arrays.submit(job, request)
        self._start_terms.submit(request)
        priority = self._fair_share.priority(request)
        submitted = facts.submission(request, job, cluster, self._start_terms.ids, priority)
        self._outbox.append(submitted)

    def _expire(self, now_us: int) -> None:
        """Cancel a job that waits at its deadline."""
        job = self._start_terms.take_expired(now_us)
        self._leave_queue(job, now_us)

    def _leave_queue(self, job: str, now_us: int) -> None:
        request = self._queued.pop(job)
        self._arrays.drop_left(job)
        self._stop(job, now_us)
        cluster = self._machines[request.reference_cluster].cluster
        self._outbox.append(facts.cancellation(request, job, cluster, now_us))

    def _stop(self, job: str, now_us: int) -> None:
        """Note that a job ended, and its array where it was the last of its tasks."""
        self._start_terms.stop(job, now_us)
        if array := self._arrays.end(job):
            self._start_terms.stop(array, now_us)

    def _decline(self, decision: PlacementDecided) -> None:
        """Give a start back, unless it took place: then that word has crossed the question."""
        grant = (decision.job_id, decision.grant)
        if decision.job_id not in self._running and grant not in self._declined:
            self._declined.add(grant)
            cluster = self._machines[decision.cluster].cluster
            self._outbox.append(facts.decline(decision, cluster, self._current.ended_at_us))

    def _start(self, decision: PlacementDecided) -> None:
        if (decision.job_id, decision.grant) in self._declined:
            return
        request, machine = self._of(decision)
        require_possible(decision, request, machine, self._running)
        now_us = self._current.ended_at_us
        broken = wrong_reservation(decision, request, machine, self._reservations, now_us)
        running = self._running.values()
        broken = broken or wrong_licences(request, machine, self._licences, running)
        if broken:
            raise ImpossibleDecisionError(decision, broken)
        run = self._run(decision, request, machine)
        del self._queued[decision.job_id]
        if not self._running:
            self._metered_next_us = run.started_us + self._metered_every_us
        self._running[run.job_id] = run
        machine.take(run.job_id, run.shares)
        for job in self._on_nodes_of(run):
            self._settle(job, run.started_us)
        if self._measured_after_us:
            due_us = run.started_us + self._measured_after_us
            heappush(self._measurements, (due_us, run.job_id))
        self._start_terms.start(run.job_id, run.started_us)
        self._outbox.append(facts.start(run))

    def _act(self, decision: PlacementDecided) -> None:
        """Do to a job that runs what is asked, and say so."""
        run, asked = self._running[decision.job_id], decision.action
        now_us = self._current.ended_at_us
        if asked.kind == ACTION_KIND_END:
            self._finish(run, JOB_OUTCOME_CANCELLED, now_us)
            return
        if asked.kind == ACTION_KIND_REQUEUE:
            self._requeue(run, decision.reason, now_us)
            return
        freq_ghz = asked.freq_ghz or run.allocation.freq_ghz
        require_pstate(decision, freq_ghz, run.machine)
        nodes = len(run.allocation.nodes)
        solo, _ = self._runs.alone(run.request, run.machine, freq_ghz, run.job_id, nodes)
        run.act(
            now_us,
            suspended=asked.kind == ACTION_KIND_SUSPEND,
            allocation=replace(run.allocation, freq_ghz=freq_ghz),
            solo=solo,
            walltime_s=asked.walltime_s or run.walltime_s,
        )
        for job in self._on_nodes_of(run):
            self._settle(job, now_us)
        self._outbox.append(facts.action_done(run, asked, now_us))
        self._has_answers = True

    def _requeue(self, run: RunningJob, reason: str, now_us: int) -> None:
        """End a run and put its job back, which begins anew."""
        self._finish(run, JOB_OUTCOME_CANCELLED, now_us)
        self._queued[run.job_id] = run.request
        self._arrays.begin_anew(run.job_id)
        self._start_terms.submit(run.request)
        self._attempts[run.job_id] = run.attempt + 1
        self._outbox.append(facts.requeue(run, reason, now_us))
        self._has_answers = True

    def _measure(self, run: RunningJob, now_us: int) -> None:
        seen = facts.signature_of_job(run, self._tpi_scale, now_us, facts.WHILE_RUNNING)
        self._outbox.append(seen)

    def _read_meters(self, now_us: int) -> None:
        """Of all nodes in use; nobody reads the others."""
        self._metered_next_us += self._metered_every_us
        for machine in self._machines.values():
            for node in range(machine.cluster.nodes):
                if jobs := [self._running[job] for job in machine.shares(node)]:
                    power_w = node_power_w(node, jobs)
                    read = facts.node_read(machine, node, power_w, self._noise, now_us)
                    self._outbox.append(read)

    def _run(self, decision: PlacementDecided, request: JobRequest, machine: Machine) -> RunningJob:
        nodes = tuple(decision.node_indices)
        solo, repetitions = self._runs.alone(
            request, machine, decision.freq_ghz, decision.job_id, len(nodes)
        )
        started_us = self._current.ended_at_us
        limit_us = started_us + max(1, round(decision.walltime_s * 1e6))
        return RunningJob(
            job_id=decision.job_id,
            request=request,
            machine=machine,
            allocation=EmulatedUnits(
                nodes,
                tuple(units_of(decision)),
                unit_given(decision),
                decision.freq_ghz,
            ),
            started_us=started_us,
            solo=solo,
            progress=Progress(solo.time_s * repetitions),
            deadline_us=limit_us if self._kill_at_limit else None,
            grant=decision.grant,
            attempt=decision.attempt,
            walltime_s=decision.walltime_s,
        )

    def _cancel(self, job: str) -> None:
        """Let a job leave the queue, or end it, at the round's end."""
        now_us = self._current.ended_at_us
        if job in self._running:
            self._finish(self._running[job], JOB_OUTCOME_CANCELLED, now_us)
        else:
            self._leave_queue(job, now_us)

    def _finish(self, run: RunningJob, outcome: JobOutcome.ValueType, now_us: int) -> None:
        run.machine.release(run.job_id, run.allocation.nodes)
        self._tell(run, run.settle(now_us, {}), now_us)
        for neighbour in self._on_nodes_of(run):
            self._settle(neighbour, now_us)
        self._outbox += [
            facts.signature_of_job(run, self._tpi_scale, now_us),
            facts.node_samples(run, self._noise, now_us),
            facts.finish(run, outcome, now_us),
        ]
        self._stop(run.job_id, now_us)
        del self._running[run.job_id]

    def _on_nodes_of(self, run: RunningJob) -> list[RunningJob]:
        """The jobs with a part of its nodes, itself included while it has."""
        return [self._running[job] for job in run.machine.jobs_on(run.allocation.nodes)]

    def _settle(self, run: RunningJob, now_us: int) -> None:
        """Handle that a neighbour started on its nodes, or left them."""
        self._tell(run, run.settle(now_us, self._beside(run)), now_us)
        if not run.is_suspended:
            heappush(self._ends, (run.ends_at_us, run.job_id))

    def _tell(self, run: RunningJob, co_runs: Sequence[TimeBeside], now_us: int) -> None:
        self._outbox += [facts.shutters(run, each, self._noise, now_us) for each in co_runs]

    def _beside(self, run: RunningJob) -> dict[int, list[RunningJob]]:
        """Its neighbours by node, where it has any: nobody disturbs or is disturbed while
        suspended."""
        beside = {}
        for node in run.allocation.nodes if not run.is_suspended else ():
            others = [self._running[job] for job in run.machine.shares(node) if job != run.job_id]
            if there := [other for other in others if not other.is_suspended]:
                beside[node] = there
        return beside

    @property
    def _current(self) -> Round:
        if self._round is None:
            raise ValueError("no round has begun: call next_round first")
        return self._round

    def _require_current(self, decision: PlacementDecided) -> None:
        if decision.round != self._current.number:
            raise ImpossibleDecisionError(
                decision, f"was decided for another round than {self._current.number}"
            )
        runs = decision.job_id in self._running
        if decision.verdict == VERDICT_ACTION:
            if not runs:
                raise ImpossibleDecisionError(decision, "does not run")
            return
        if decision.verdict == placement_pb2.VERDICT_REJECTED and not runs:
            return  # somebody else's job, which nobody plays
        may_run = decision.verdict in (VERDICT_CANCELLED, VERDICT_WITHDRAWN)
        if decision.job_id not in self._queued and not (may_run and runs):
            raise ImpossibleDecisionError(decision, "is not in the queue")

    def _of(self, decision: PlacementDecided) -> tuple[JobRequest, Machine]:
        if decision.job_id not in self._queued:
            raise ImpossibleDecisionError(decision, "was started twice")
        if decision.cluster not in self._machines:
            raise ImpossibleDecisionError(decision, f"there is no cluster {decision.cluster!r}")
        if decision.attempt != self._attempts.get(decision.job_id, ATTEMPT):
            problem = f"attempt {decision.attempt} was never submitted"
            raise ImpossibleDecisionError(decision, problem)
        return self._queued[decision.job_id], self._machines[decision.cluster]


def planned_times_us(proposed: Event) -> tuple[int, ...]:
    """Return when a plan lets something start, and when it ends; none for an empty plan."""
    plan = proposed.payload
    if not isinstance(plan, PlanProposed) or not plan.items:
        return ()
    return (*sorted({item.not_before_us for item in plan.items}), plan.valid_until_us)


def _require_placeable(request: JobRequest, clusters: Sequence[Cluster]) -> None:
    if request.reference_cluster not in {cluster.name for cluster in clusters}:
        raise UnusableError(f"request {request.index} refers to no cluster: {request}")
    if request.nodes > max(units_that_fit(request, cluster) for cluster in clusters):
        raise UnusableError(f"request {request.index} is bigger than every cluster: {request}")
