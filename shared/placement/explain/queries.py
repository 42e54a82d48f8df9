"""The state of a job, and why it does not start: read between rounds, never changed."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Final

from coplace.v1.placement_pb2 import (
    CONSTRAINT_KIND_NOT_TRIED,
    MISFIT_KIND_STARTS_TOO_LATE,
    Candidate,
    Reservation,
)
from coplace.v1.placement_service_pb2 import (
    JOB_STANDING_CANCELLED,
    JOB_STANDING_DECIDED,
    JOB_STANDING_FINISHED,
    JOB_STANDING_HELD,
    JOB_STANDING_REJECTED,
    JOB_STANDING_RESERVED,
    JOB_STANDING_RUNNING,
    JOB_STANDING_SUSPENDED,
    JOB_STANDING_WAITING,
    Allocation,
    AskedAction,
    ClusterOutlook,
    ClusterStanding,
    ExplainResponse,
    JobStanding,
    ListClustersResponse,
    ListedCluster,
    ListedJob,
    ListedLimit,
    ListedReservation,
    ListJobsRequest,
    ListJobsResponse,
    ListLicencesRequest,
    ListLicencesResponse,
    ListLimitsResponse,
    ListReservationsRequest,
    ListReservationsResponse,
    PolicySetting,
    PowerStanding,
    ShowNodesResponse,
    ShowPolicyResponse,
    ShowPowerResponse,
)

from coplace_client.errors import RejectedError
from coplace_client.millicores import beside_cores, whole_cores
from shared.authority.binding import SitedCluster
from shared.authority.holding import HeldRun
from shared.authority.rules import OwnedJob
from shared.domain.array_tasks import count_of, parse_tasks
from shared.domain.folding import fold
from shared.domain.job import Dependency, Job, JobState
from shared.placement.budgets.layer import BudgetLayer
from shared.placement.budgets.overshoots import UnderCap
from shared.placement.decide.choices import Choice
from shared.placement.decide.interactive_jobs import NEVER, ExpectedStart
from shared.placement.decide.layer import DecideLayer
from shared.placement.decide.pending_reason import is_lasting
from shared.placement.decide.schedulers import Arriving
from shared.placement.decide.waiting_jobs import ArrayAhead
from shared.placement.evaluate.layer import EvaluateLayer
from shared.placement.evaluate.run_shares import TO_THEIR_LIMITS, ExpectedRuns
from shared.placement.explain.array_answer import array_answer
from shared.placement.explain.constraints import Constraint, WaitReason, write
from shared.placement.explain.listed_licences import listed_licences
from shared.placement.explain.listed_partitions import listed_features, listed_partitions
from shared.placement.explain.node_groups import MOST_GROUPS, node_groups
from shared.placement.explain.pages import JobsById, page_token
from shared.placement.explain.pass_decisions import PassDecisions, candidate_message, reason_of
from shared.placement.explain.pending_words import PendingReasonWords, misfit_words
from shared.placement.explain.power_words import action_words
from shared.placement.explain.quoting import QuotedJob, Quoting
from shared.placement.explain.refusals import WhyNot
from shared.placement.explain.start_estimates import Snapshot, StartEstimates
from shared.placement.explain.state_words import closure_words, withdrawal_words
from shared.placement.state.actions import MESSAGES as ACTION_KINDS
from shared.placement.state.actions import Action
from shared.placement.state.caps import (
    MESSAGES,
    Covered,
    covered_by,
    step_messages,
    unrated,
    watts_or_none,
)
from shared.placement.state.job_allocation import JobAllocation
from shared.placement.state.job_record import JobRecord
from shared.placement.state.layer import StateLayer
from shared.placement.state.limits import Limit, Subject, declared
from shared.placement.state.occupancy import Occupancy
from shared.placement.state.policy_in_force import told
from shared.scheduling.forecast import HeldBackTasks
from shared.scheduling.power import NO_CAP_MW
from shared.scheduling.user_runs import AS_REQUESTED

_CHANGED: Final = Constraint(
    CONSTRAINT_KIND_NOT_TRIED,
    "the job or its clusters changed since the last round: it is tried at the end of this one",
)
_RESTARTED: Final = Constraint(
    CONSTRAINT_KIND_NOT_TRIED,
    "placement started anew and nothing happened since: it is known at the end of the next round",
)
# Rows of an answer: each reason is worked out, and no decision is made meanwhile.
USUAL_LISTED: Final = 50
MOST_LISTED: Final = 200
_ENDED: Final = {
    JobState.FINISHED: JOB_STANDING_FINISHED,
    JobState.CANCELLED: JOB_STANDING_CANCELLED,
    JobState.REJECTED: JOB_STANDING_REJECTED,
}


class Queries:
    """Answers from what a processor keeps, with the words of its decisions.

    An answer can be one transaction ahead of what was committed: after a kill the same is decided
    again. It can lag by the events of the open round.
    """

    def __init__(
        self,
        state: StateLayer,
        evaluation: EvaluateLayer,
        budgets: BudgetLayer,
        decide: DecideLayer,
        words: PendingReasonWords,
    ) -> None:
        self._job_table, self._models, self._nodes = state.jobs, state.models, state.nodes
        self._reservations, self._licences = state.reservations, state.licences
        self._budgets, self._decide = budgets, decide
        self._waiting_jobs, self._pending_reasons = decide.waiting_jobs, decide.pending_reasons
        self._words = words
        self._by_id = JobsById(state.jobs)
        self.guarantees = state.guarantees
        self._last: PassDecisions | None = None
        self.is_deciding = False
        self._quoting = Quoting(state, evaluation, decide, words)

    def begin_round(self) -> None:
        """Note that a round is being decided: threads beside it give way."""
        self.is_deciding = True

    def end_round(self, written: PassDecisions | None) -> None:
        """Note that a round ended; `written` is what wrote its last pass, None where it was decided
        before."""
        self._last = written or self._last
        self.is_deciding = False

    def arrival(self, job_id: str) -> int | None:
        """Return the arrival number of a job that has a place in the queue, or of a task that waits
        for others of its array."""
        job = self._job_table.get(job_id)
        if job is None and (left := self._job_table.left_in(job_id)) is not None:
            array, ordinal = left
            if array.progress is None or not self._waiting_jobs.is_ahead(array):
                return None
            return array.progress.first_arrival + ordinal
        if job is None or not job.waits or not self._waiting_jobs.entries(job):
            return None
        return self._waiting_jobs.arrival(job)

    def answer(self, job_id: str) -> ExplainResponse | None:
        """Return an explanation without its forecast; None of a job that is not known. A task that
        is left in its array waits as that does."""
        job = self._job_table.get(job_id) or self._array_with(job_id)
        if job is None:
            return None
        answer = ExplainResponse(
            job_id=job_id,
            attempt=job.job.attempt,
            standing=self._standing(job),
            as_of_us=self.as_of_us,
            runs_on=job.run.runs_on,
        )
        if job.run.allocation is not None:
            answer.allocation.CopyFrom(self._allocation(job, job.run.allocation))
        if (array := self._array_of(job)) is not None:
            answer.array.CopyFrom(array_answer(array, self._job_table.tasks_of(array.job.job_id)))
        if (ended := self._job_table.ended_run(job)) is not None:
            answer.ended.CopyFrom(ended.message())
        if job.waits or _was_rejected(job):
            answer.misfits.extend(each.message() for each in job.evaluated.misfits)
        if job.waits:
            if self._decide.manager_order.is_in_force:
                answer.manager_priority = job.manager_priority
            self._explain(answer, job)
        else:
            answer.reason = _why_not_waiting(job)
        return answer

    def _array_with(self, job_id: str) -> JobRecord | None:
        """Return the array in which a task is left."""
        found = self._job_table.left_in(job_id)
        return None if found is None else found[0]

    def _array_of(self, job: JobRecord) -> JobRecord | None:
        """Return an array, and that of a task which waits."""
        if job.progress is not None:
            return job
        return self._job_table.get(job.job.array_id) if job.waits and job.job.array_id else None

    def owned(self, job_id: str) -> OwnedJob:
        """Return who owns a job, and on which cluster it is."""
        job = self._job_table.get(job_id) or self._array_with(job_id)
        if job is None:
            return OwnedJob(job_id)
        on = job.run.allocation
        held = HeldRun(job.job.attempt, on.grant, self.sited(on.cluster)) if on else None
        runs, newest = (held,) if held else (), job.grants.newest
        return OwnedJob(job_id, job.job.user, job.job.account, runs, newest)

    def sited(self, cluster: str) -> SitedCluster:
        """Return a cluster with its site."""
        found = self._models.clusters.get(cluster)
        return SitedCluster(cluster, found.site if found else "")

    def unanswered(self) -> int:
        """Return how many starts were withdrawn and are not answered."""
        return sum(bool(job.grants.withdrawn) for job, _ in self._job_table.allocations.granted())

    def waiting(self) -> int:
        """Return how many jobs and tasks of arrays may be started, and are not."""
        waiting = self._job_table.waiting()
        return sum(count_of(job.progress.left) if job.progress else 1 for job in waiting)

    def occupancy(self) -> Mapping[str, Occupancy]:
        """Return what is allocated of each cluster."""
        return self._job_table.allocations.occupancy

    def late_starts(self) -> int:
        """Return how many starts came, since this process began, that had been seized."""
        return self._job_table.late_starts

    def declines(self) -> dict[tuple[str, str, str], int]:
        """Return how many starts were declined since this process began, by cluster, kind and name
        of what was refused."""
        return dict(self._job_table.declines)

    def snapshot(self) -> Snapshot:
        """Return what a forecast starts from."""
        return self._snapshot(Arriving(self._waiting_jobs.kinds.copy()))

    def quoted(self, job: Job, awaits: tuple[Dependency, ...]) -> QuotedJob:
        """Return a job of a question, evaluated as one that would arrive now."""
        return self._quoting.quoted(job, awaits)

    def snapshot_with(self, quoted: QuotedJob, runs: ExpectedRuns) -> Snapshot:
        """Return what a forecast starts from if the job of a question had arrived, and all ran for
        such a share of their limits."""
        found = self._snapshot(quoted.arriving)
        if runs == TO_THEIR_LIMITS:
            return found
        running = self._job_table.allocations.running() + self._job_table.allocations.granted()
        expected_s = {
            job.arrival: runs.end_s(found.now_s, placed)
            for job, placed in running
            if placed.suspended_s is None
        }
        for number, held in enumerate(self.occupancy().values()):
            for called, arrival in held.holders(number):
                if arrival in expected_s:
                    expected_s[called] = expected_s[arrival]
        return replace(found, share=runs.share, expected_s=expected_s)

    def _snapshot(self, arriving: Arriving) -> Snapshot:
        now_s = self._last.refusals.refusals.plan.now_s if self._last else 0.0
        return self._snapshot_at(now_s, arriving)

    def expected_starts(self, now_s: float, most: int) -> Callable[[JobRecord], ExpectedStart]:
        """Return what says when a job that waits is expected to start, as of a pass at this time,
        so many starts and instants ahead at most. Several jobs cost one forecast."""
        snapshot = self._snapshot_at(now_s, Arriving(self._waiting_jobs.kinds.copy()))
        estimates = StartEstimates(snapshot, most, most_instants=most)

        def expected(job: JobRecord) -> ExpectedStart:
            arrival = self.arrival(job.job.job_id)
            return NEVER if arrival is None else estimates.start_of(arrival)

        return expected

    def _snapshot_at(self, now_s: float, arriving: Arriving) -> Snapshot:
        arrays = self._waiting_jobs.arrays_ahead(arriving.kinds)
        arrays = [each for each in arrays if each.array is not arriving.instead_of]
        schedulers = self._decide.schedulers(now_s, apart=replace(arriving, arrays=arrays))
        queues = {cluster: list(scheduler.queue) for cluster, scheduler in schedulers.items()}
        return Snapshot(now_s, queues, schedulers, held_back=self._held_back(arrays))

    def _held_back(self, arrays: Sequence[ArrayAhead]) -> list[HeldBackTasks]:
        """Return the tasks that wait for others of their arrays, with the holders of these."""
        called: dict[int, list[int]] = defaultdict(list)
        for number, held in enumerate(self.occupancy().values()) if arrays else ():
            for holder, arrival in held.holders(number):
                called[arrival] += [holder, arrival]
        found = list[HeldBackTasks]()
        for each in arrays:
            job, first = each.array.job, each.first_arrival
            tasks = self._job_table.tasks_of(job.job_id)
            holders = chain.from_iterable(called.get(task.arrival, ()) for task in tasks)
            behind = first + len(parse_tasks(job.array))
            found.append(HeldBackTasks(each.held_back, first, behind, tuple(holders)))
        return found

    def jobs(self, request: ListJobsRequest) -> ListJobsResponse:
        """Return the jobs of a request, each with its state and the reason. Raises RejectedError,
        naming the field."""
        if not (request.in_queue or request.most or request.skip):
            return self._page(request)
        for name in ("page_size", "page_token"):
            if getattr(request, name):
                raise RejectedError(name, "goes without in_queue, most and skip")
        wanted = [job for job in self._candidates(request) if self._is_wanted(job, request)]
        most = min(request.most or USUAL_LISTED, MOST_LISTED)
        shown = wanted[request.skip : request.skip + most]
        listed = [self._listed(job, request.cluster) for job in shown]
        return ListJobsResponse(as_of_us=self.as_of_us, jobs=listed, in_all=len(wanted))

    def _page(self, request: ListJobsRequest) -> ListJobsResponse:
        """Return the jobs that follow on the page before, in the order of their ids."""
        most = min(request.page_size or USUAL_LISTED, MOST_LISTED)
        behind = self._by_id.after(request.page_token)
        wanted = (job for job in behind if self._is_wanted(job, request))
        shown, following = list(islice(wanted, most)), next(wanted, None)
        return ListJobsResponse(
            as_of_us=self.as_of_us,
            jobs=[self._listed(job, request.cluster) for job in shown],
            next_page_token=page_token(shown[-1].job.job_id) if following else "",
        )

    def _candidates(self, request: ListJobsRequest) -> list[JobRecord]:
        """Return the jobs of the requested queue, else all, in their order."""
        if not request.in_queue:
            return self._job_table.all()
        if request.cluster not in self._models.clusters:
            return []
        queue = self._waiting_jobs.queues.queue(request.cluster)
        return [self._job_table.of_arrival(entry.arrival) for entry in queue]

    def _is_wanted(self, job: JobRecord, request: ListJobsRequest) -> bool:
        """Return whether a request selects a job; the costliest condition comes last."""
        return (
            request.number in ("", _number(job.job))
            and request.user in ("", job.job.user)
            and request.account in ("", job.job.account)
            and (not request.cluster or self._concerns(job, request.cluster))
            and (not request.standings or self._standing(job) in request.standings)
        )

    def _concerns(self, job: JobRecord, cluster: str) -> bool:
        if job.run.allocation is not None:
            return job.run.allocation.cluster == cluster
        return self._waiting_jobs.entry(job, cluster) is not None

    def _listed(self, job: JobRecord, cluster: str) -> ListedJob:
        entry = self._waiting_jobs.entry(job, cluster)
        queue = self._waiting_jobs.queues.queue(cluster) if entry else None
        on = job.run.allocation
        reservation = self._reservation(job) if job.waits else None
        return ListedJob(
            job_id=job.job.job_id,
            attempt=job.job.attempt,
            user=job.job.user,
            account=job.job.account,
            app_id=job.job.app_id,
            priority=job.job.priority,
            standing=self._standing(job),
            reason=self._why_it_waits(job).text if job.waits else _why_not_waiting(job),
            submitted_at_us=round(job.job.submit_s * 1e6),
            allocation=self._allocation(job, on) if on else None,
            reservation=reservation,
            place=queue.position(entry.order) + 1 if queue and entry else 0,
        )

    def clusters(self) -> ListClustersResponse:
        """Return the clusters, by their names."""
        closed = self._pending_reasons.closed
        listed = [
            ListedCluster(
                name=name,
                site=cluster.site,
                node_model=cluster.node_model,
                nodes=cluster.nodes,
                free_nodes=self.occupancy()[name].free,
                running=len(self.occupancy()[name].held),
                waiting=len(self._waiting_jobs.queues.queue(name)),
                lost=closure_words(closed[name]) if name in closed else "",
                drained_nodes=len(self._nodes.drained(name)),
                drained=self._words.drains(name),
                partitions=listed_partitions(cluster, self.occupancy()[name]),
                features=listed_features(cluster),
            )
            for name, cluster in sorted(self._models.clusters.items())
        ]
        return ListClustersResponse(as_of_us=self.as_of_us, clusters=listed)

    def reservations(self, request: ListReservationsRequest) -> ListReservationsResponse:
        """Return the reservations of a cluster, or of all, by their begin."""
        listed = [
            ListedReservation(
                reservation=each.message(),
                declared_by=each.by,
                nodes=(nodes := self._reservations.nodes_of(each)).bit_count(),
                allocated_nodes=self.occupancy()[each.cluster].allocated(nodes),
            )
            for each in self._reservations.listed()
            if request.cluster in ("", each.cluster) and request.name in ("", each.name)
        ]
        return ListReservationsResponse(as_of_us=self.as_of_us, reservations=listed)

    def licences(self, request: ListLicencesRequest) -> ListLicencesResponse:
        """Return how many licences there are, of what, and which jobs hold them."""
        known = self._licences, self._models.clusters, self._job_table.allocations
        listed = listed_licences(*known, request)
        return ListLicencesResponse(as_of_us=self.as_of_us, licences=listed)

    def _under_easy(self) -> dict[str, str]:
        if self._last is None:
            return {}
        plan, decide = self._last.refusals.refusals.plan, self._decide
        return decide.looks.under_easy(plan) | decide.passing.under_easy(plan)

    def limits(self, site: str = "") -> ListLimitsResponse:
        """Return the limits, or those of a site, with what is allocated under them."""
        limits = sorted(self._models.limits.items(), key=lambda item: item[0].words)
        listed = [
            self._limit(subject, limit)
            for subject, limit in limits
            if any(limit) and site in ("", subject.site)
        ]
        return ListLimitsResponse(as_of_us=self.as_of_us, limits=listed)

    def _limit(self, subject: Subject, limit: Limit) -> ListedLimit:
        who, held = self._job_table.allocations.held_under(subject)
        return ListedLimit(
            limit=declared(subject, limit),
            who=who,
            running_jobs=held.jobs,
            nodes=held.nodes,
            cores=whole_cores(held.millicores),
            millicores=beside_cores(held.millicores),
            resources=dict(held.resources),
            node_hours=held.node_s / 3600,
            declared_by=self._models.limited_by(subject),
        )

    def policy(self) -> ShowPolicyResponse:
        """Return the settings in force, those that the process was started with, and who declared
        others."""
        rules, updates = self._models.rules, self._models.updates
        now, started = told(rules.now), told(rules.started)
        settings = [PolicySetting(name=n, value=now[n], started_with=started[n]) for n in now]
        for setting in settings:
            if word := rules.word(setting.name):
                setting.declared_by, setting.declared_at_us = word.source, word.time_us
                setting.reason = getattr(word.payload, "reason", "")
        waiting = self._job_table.waiting()
        stale = sum(updates.are_for(job.job.app_id, job.evaluated.update) for job in waiting)
        return ShowPolicyResponse(
            as_of_us=self.as_of_us,
            settings=settings,
            still_to_weigh=stale,
            promises_kept=self.guarantees.kept,
            promises_broken=self.guarantees.broken,
            pairs_kept_apart=self.guarantees.pairs_apart,
            pairs_apart=self.guarantees.listed(),
            under_easy=self._under_easy(),
        )

    @property
    def as_of_us(self) -> int:
        """Return the end of the last round; 0 where there was none."""
        return self._last.decisions.ended.ended_at_us if self._last else 0

    def power(self) -> ShowPowerResponse:
        """Return what clusters, sites and the region may draw, and draw as predicted."""
        covered = covered_by(self._models.clusters.values())
        standings = [self._power_of(each, self.as_of_us / 1e6) for each in covered]
        return ShowPowerResponse(as_of_us=self.as_of_us, standings=standings)

    def nodes(self, cluster: str) -> ShowNodesResponse:
        """Return the states of the nodes of a cluster, or of all clusters where it is empty."""
        found = ShowNodesResponse(as_of_us=self.as_of_us)
        for name in [cluster] if cluster else self._models.clusters:
            if name in self._models.clusters:
                self._show(found, name)
        return found

    def _show(self, found: ShowNodesResponse, cluster: str) -> None:
        nodes = self._models.clusters[cluster].nodes
        closure = self._pending_reasons.closure(cluster)
        closed = closure_words(closure) if closure else ""
        found.clusters.append(ClusterStanding(cluster=cluster, nodes=nodes, closed=closed))
        held = self._job_table.allocations.occupancy[cluster]
        drained, names = self._nodes.drained(cluster), self._models.node_names[cluster]
        groups = node_groups(cluster, names, held, drained)
        room = max(0, MOST_GROUPS - len(found.groups))
        found.groups.extend(groups[:room])
        found.groups_left_out += len(groups[room:])

    def _power_of(self, covered: Covered, now_s: float) -> PowerStanding:
        drawn_mw = sum(
            held.drawn_mw
            for name, held in self._job_table.allocations.occupancy.items()
            if covered.covers(self._models.clusters[name])
        )
        idle_mw = self._models.idle_mw(covered)
        capped = self._models.caps.get(covered)
        cap_mw = capped.cap.limit_mw(now_s) if capped else NO_CAP_MW
        is_capped = cap_mw < NO_CAP_MW
        margin_mw = 0
        if capped and is_capped:
            margin_mw = cap_mw - self._budgets.caps.allowed_mw(capped.cap, now_s)
            margin_mw += self._budgets.margin.of_what_runs(covered)
        silent = self._budgets.meters.under(covered)
        found = PowerStanding(
            scope=MESSAGES[covered.scope],
            name=covered.name,
            cap_w=watts_or_none(cap_mw),
            idle_w=idle_mw / 1000,
            committed_w=drawn_mw / 1000,
            headroom_w=(cap_mw - margin_mw - idle_mw - drawn_mw) / 1000 if is_capped else 0.0,
            margin_w=margin_mw / 1000,
            silent_nodes=silent.nodes,
            nameplate_w=silent.nameplate_mw / 1000,
            nameplate_derived=silent.is_derived,
            unrated_clusters=unrated(covered, self._models.declared.values()),
        )
        if capped is not None:
            found.ahead.extend(step_messages(capped.cap, now_s))
            found.declared_by, found.reason = capped.cap.author, capped.cap.reason
            found.declared_at_us = capped.declared_at_us
            _add_metered(found, self._budgets.overshoots.under(covered), self.as_of_us)
        return found

    def overshoots(self) -> dict[Covered, UnderCap]:
        """Return what meters show of each cap."""
        return {covered: self._budgets.overshoots.under(covered) for covered in self._models.caps}

    def silent_managers(self) -> dict[str, bool]:
        """Return of each cluster whether its resource manager is silent."""
        silent = self._pending_reasons.managers.silent
        return {name: name in silent for name in self._models.clusters}

    def silent_meters(self) -> dict[str, int]:
        """Return how many nodes of each cluster have a meter that is silent."""
        return {name: len(self._budgets.meters.silent(name)) for name in self._models.clusters}

    def _standing(self, job: JobRecord) -> JobStanding.ValueType:
        if job.ended:
            return _ENDED[job.life.state]
        if job.life.state is JobState.RUNNING:
            return JOB_STANDING_SUSPENDED if job.run.is_suspended else JOB_STANDING_RUNNING
        if job.life.state is JobState.SPLIT:
            return JOB_STANDING_RUNNING
        if job.life.state is JobState.GRANTED:
            return JOB_STANDING_DECIDED
        pending_reason = self._pending_reasons.of_job(job)
        if pending_reason is not None:
            return JOB_STANDING_HELD if is_lasting(pending_reason) else JOB_STANDING_WAITING
        return JOB_STANDING_RESERVED if self._reservation(job) else JOB_STANDING_WAITING

    def _reservation(self, job: JobRecord) -> Reservation | None:
        """Return the reservation of a job that waits on after the last pass."""
        return (
            self._last.reservation(job) if self._last and self._waiting_jobs.entries(job) else None
        )

    def _allocation(self, job: JobRecord, placed: JobAllocation) -> Allocation:
        timeout_s = self._models.rules.now.start_timeout_s
        is_waited_for = job.life.state is JobState.GRANTED and timeout_s
        start_by_s = placed.since_s + timeout_s if is_waited_for else 0.0
        withdrawn = job.grants.withdrawn
        clocks = [c.freq_ghz for c in job.evaluated.candidates if c.cluster == placed.cluster]
        found = Allocation(
            cluster=placed.cluster,
            nodes=len(placed.nodes),
            freq_ghz=placed.freq_ghz or next(iter(clocks), 0.0),
            since_us=round((placed.since_s - placed.boot_s) * 1e6),
            ends_by_us=round(placed.ends_s * 1e6),
            start_by_us=round(start_by_s * 1e6),
            grant=placed.grant,
            asked_back=withdrawal_words(withdrawn) if withdrawn else "",
            plan_round=placed.plan_round,
            suspended_since_us=round((placed.suspended_s or 0.0) * 1e6),
            asked=map(_asked, job.run.actions),
            passed_as_predicted_s=self._decide.passing.predicted_s(job),
        )
        if placed.wanted_ghz > placed.freq_ghz > 0:
            found.best_freq_ghz = placed.wanted_ghz
        if placed.boot_s:
            booting = self._job_table.allocations.power(placed.cluster).boots(placed.nodes)
            found.booting.extend(fold(map(self._models.node_names[placed.cluster].name, booting)))
            found.boots_until_us = round(placed.since_s * 1e6)
        return found

    def _explain(self, answer: ExplainResponse, job: JobRecord) -> None:
        reason = self._why_it_waits(job)
        answer.reason = reason.text
        write(answer.constraints, reason.constraints, reason.cluster)
        answer.clusters.extend(self._of_clusters(job, self._reasons(job)))
        reservation = self._reservation(job)
        if reservation is not None:
            answer.reservation.CopyFrom(reservation)
        if self._decide.passing.is_chosen and job.expected_run != AS_REQUESTED:
            answer.predicted_runtime_s = job.expected_run.predict_s(job.job.walltime_s)

    def _why_it_waits(self, job: JobRecord) -> WaitReason:
        pending_reason = self._pending_reasons.of_job(job)
        if pending_reason is not None:
            return WaitReason([self._words(pending_reason).constraint])
        if not job.evaluated.candidates:
            return WaitReason([_CHANGED])
        return reason_of(self._waiting_jobs.choices(job), self._reasons(job))

    def _reasons(self, job: JobRecord) -> Mapping[str, WhyNot]:
        if self._last is None:
            return {c.cluster: WhyNot([_RESTARTED]) for c in job.evaluated.candidates}
        found = self._last.reasons(job, None)
        return {
            cluster: why if why.constraints else WhyNot([_CHANGED])
            for cluster, why in found.items()
        }

    def _told(self, job: JobRecord, choice: Choice, why_not: WhyNot) -> Candidate:
        if self._last is None:
            cluster = self._models.clusters[choice.cluster]
            return candidate_message(job.job, cluster, choice, why_not)
        return self._last.candidate_message(job, choice, why_not)

    def _of_clusters(
        self, job: JobRecord, reasons: Mapping[str, WhyNot]
    ) -> Iterator[ClusterOutlook]:
        for choice in self._waiting_jobs.choices(job):
            queue = self._waiting_jobs.queues.queue(choice.cluster)
            held = self._job_table.allocations.occupancy[choice.cluster]
            entry = self._waiting_jobs.entry(job, choice.cluster)
            yield ClusterOutlook(
                candidate=self._told(job, choice, reasons[choice.cluster]),
                place=queue.position(entry.order) + 1 if entry else 0,
                waiting=len(queue),
                free_nodes=held.free,
                nodes=held.nodes,
            )


def _add_metered(standing: PowerStanding, under: UnderCap, as_of_us: int) -> None:
    """Write what meters show of a cap."""
    standing.above_s, standing.above_j = under.above_us / 1e6, under.above_mj / 1000
    if under.last.stands_at(as_of_us):
        standing.measured_w, standing.metered_nodes = (
            under.last.measured_mw / 1000,
            under.last.metered,
        )
        standing.measured_at_us = under.last.at_us
        if under.lasts and under.last.above_mw:
            standing.above_since_us = under.lasts.began_us


def _asked(action: Action) -> AskedAction:
    return AskedAction(
        number=action.number,
        kind=ACTION_KINDS[action.kind],
        freq_ghz=action.freq_ghz,
        asked_at_us=round(action.asked_s * 1e6),
        reason=action_words(action),
    )


def _why_not_waiting(job: JobRecord) -> str:
    """Return how a job ended, or what was asked of it."""
    if job.requests.cancelled is not None and job.life.state is not JobState.FINISHED:
        told = f"cancelled: {job.requests.cancelled}" if job.requests.cancelled else "cancelled"
        rejected = misfit_words(job.evaluated.misfits) if _was_rejected(job) else ""
        return f"{told}; it had been rejected: {rejected}" if rejected else told
    if job.life.state is JobState.REJECTED:
        return misfit_words(job.evaluated.misfits)
    if job.progress is not None and job.life.state is JobState.SPLIT:
        return "its tasks were decided, and some have not ended"
    if job.life.state is JobState.FINISHED:
        return "completed" if job.life.completed else "ended without completing"
    return withdrawal_words(job.grants.withdrawn) if job.grants.withdrawn else ""


def _number(job: Job) -> str:
    """How its resource manager numbers it: a task that was split off has that of its array."""
    number = job.sequence
    return f"{number}_{job.array_index}" if job.array_id and "_" not in number else number


def _was_rejected(job: JobRecord) -> bool:
    """Return whether it fitted on no cluster from the start, or was to start too late: a
    cancellation takes no reason away."""
    lacks = job.evaluated.misfits
    if not lacks or job.life.state not in (JobState.REJECTED, JobState.CANCELLED):
        return False
    return lacks[0].kind == MISFIT_KIND_STARTS_TOO_LATE or not job.evaluated.admitted
