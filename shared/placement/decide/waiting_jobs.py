"""Which jobs have which entries in the queue."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain, islice
from math import inf, nextafter
from typing import Final, NamedTuple

from shared.domain.pstates import has_ghz
from shared.placement.decide.choices import (
    NO_BOOTS,
    Boots,
    Choice,
    Choices,
    as_evaluated,
    as_planned,
    boots_of,
    choices,
)
from shared.placement.decide.kinds import Kinds
from shared.placement.decide.manager_order import ManagerOrder
from shared.placement.decide.pending_reason import JobLimitReached, TasksLimitReached
from shared.placement.decide.pending_reasons import PendingReasons
from shared.placement.state.array_progress import ArrayProgress
from shared.placement.state.candidate import Candidate
from shared.placement.state.job_partitions import offered_in
from shared.placement.state.job_record import JobRecord
from shared.placement.state.limits import Subject, SubjectKind, subjects_in, subjects_of
from shared.placement.state.planned import PlannedMode
from shared.placement.state.plans import Plans
from shared.placement.state.policy_in_force import PolicyInForce, Ranking
from shared.scheduling.eligibility import NOTHING_REFUSED, RefusedToJob
from shared.scheduling.problem import NodeTable, counts_nodes, kind_on
from shared.scheduling.wait_queue import Entry, LaterTasks, WaitQueues
from shared.scheduling.windows import late_start_s

# Runs of tasks that one entry names: those behind them come in a further pass.
_MOST_RUNS: Final = 64
_NONE: Final[Mapping[str, Entry]] = {}


@dataclass(slots=True)
class _Waiting:
    job: JobRecord
    gone: frozenset[str] | None = None
    boots: Boots = NO_BOOTS
    evaluated: tuple[Candidate, ...] = ()
    usual: Choices = ()
    choices: Choices = ()
    entries: Mapping[str, Entry] = field(default_factory=dict)
    # The arrival number by which the entries are in the queues: of an array that of a task.
    queued_as: int = -1

    @property
    def first_arrival(self) -> int:
        """Return the arrival number of its entries; below 0 without any."""
        return next((entry.arrival for entry in self.entries.values()), -1)

    @property
    def is_queued_otherwise(self) -> bool:
        """Return whether a pass left another task of an array in the queues than its entries
        say."""
        return self.job.progress is not None and self.queued_as != self.first_arrival


class ArrayAhead(NamedTuple):
    """The tasks of an array that a forecast starts, by cluster the entries of the first with those
    behind it: of those that may start at once, and of those held back until others of it end. In
    the queues its entries have the arrival number `queued_as`."""

    array: JobRecord
    first_arrival: int
    queued_as: int
    next: dict[str, Entry]
    held_back: dict[str, Entry]


class WaitingJobs:
    """Keeps the queue as the pending reasons say. A job without pending reason has an entry for
    each cluster that its policy lets it wait for, one with a pending reason keeps its arrival
    number: its place. One that a plan names waits as the plan says."""

    def __init__(
        self,
        pending_reasons: PendingReasons,
        rules: PolicyInForce,
        plans: Plans,
        manager_order: ManagerOrder,
    ) -> None:
        self.queues, self.kinds = WaitQueues(), Kinds()
        self._manager_order = manager_order
        self._rules = rules
        self._plans = plans
        self._pending_reasons, self._times = pending_reasons, pending_reasons.times
        self._waiting: dict[str, _Waiting] = {}
        # By how many of these each licence is needed.
        self._licences = Counter[str]()
        self._refreshed: set[str] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def licences(self) -> Set[str]:
        """Return the names of the licences that jobs which wait need."""
        return self._licences.keys()

    def jobs(self) -> list[JobRecord]:
        """Return all jobs that wait."""
        return [waiting.job for waiting in self._waiting.values()]

    def entry(self, job: JobRecord, cluster: str) -> Entry | None:
        """Return the job's entry for a cluster, None when it has none."""
        return self.entries(job).get(cluster)

    def entries(self, job: JobRecord) -> Mapping[str, Entry]:
        """Return the job's entries by cluster: none of an attempt that came after the last
        round."""
        waiting = self._waiting.get(job.job.job_id)
        return waiting.entries if waiting and waiting.job is job else _NONE

    def arrival(self, job: JobRecord) -> int:
        """Return the arrival number by which a job has reservations: of an array that of its next
        task."""
        waiting = self._waiting.get(job.job.job_id)
        is_array = waiting is not None and waiting.job is job and job.progress is not None
        return waiting.queued_as if waiting is not None and is_array else job.arrival

    def choices(self, job: JobRecord) -> Choices:
        """Return the job's candidates among the clusters that were there at the end of the last
        round."""
        waiting = self._waiting.get(job.job.job_id)
        return waiting.choices if waiting and waiting.job is job else as_evaluated(job)

    def choice(self, job: JobRecord, cluster: str) -> Choice:
        """Return the job's choice for a cluster."""
        return next(choice for choice in self.choices(job) if choice.cluster == cluster)

    def usual_entries(self, job: JobRecord) -> Mapping[str, tuple[Choice, Entry]]:
        """Return the entries that a waiting job would have without a plan, by cluster."""
        return self._entries_by(job, self._waiting[job.job.job_id].usual, self.kinds)

    def arriving(self, job: JobRecord, kinds: Kinds) -> Mapping[str, tuple[Choice, Entry]]:
        """Return the entries, of such `kinds`, of a job that would arrive now, by cluster: it is
        not put into the queue."""
        gone = self._pending_reasons.unranked_clusters(job)
        ranking = self._rules.ranking_of(job.evaluated.update)
        [found] = choices([job], gone, ranking, self._boots)
        return self._entries_by(job, found, kinds)

    @property
    def _boots(self) -> Boots:
        return boots_of(self._pending_reasons.allocations.occupancy)

    def arrays_ahead(self, kinds: Kinds) -> list[ArrayAhead]:
        """Return the arrays whose tasks wait for nodes, or for others of them to end, with entries
        of such `kinds`: all tasks that nothing else keeps."""
        arrays = [each for each in self._waiting.values() if self.is_ahead(each.job)]
        return [self._ahead(each, kinds) for each in arrays]

    def is_ahead(self, array: JobRecord) -> bool:
        """Return whether tasks of an array wait for nodes, or for others of them to end."""
        if array.progress is None or not array.waits:
            return False
        reason = self._pending_reasons.of_job(array)
        return reason is None or isinstance(reason, JobLimitReached | TasksLimitReached)

    def _ahead(self, waiting: _Waiting, kinds: Kinds) -> ArrayAhead:
        job, progress = waiting.job, waiting.job.progress
        assert progress is not None
        most = self._pending_reasons.most_tasks(job)
        now, later = self._runs_of_tasks(job, progress, None, most)
        open_entries = self._open_entries(job, waiting.choices, kinds)
        entries = {name: entry for name, (_, entry) in open_entries.items()}
        both = _each_of_runs(entries, now), _each_of_runs(entries, later)
        return ArrayAhead(job, progress.first_arrival, waiting.queued_as, *both)

    def is_held_back(self, job: JobRecord, choice: Choice) -> bool:
        """Return whether a plan lets an entry come into the queue later: not so late that the job
        would miss its deadline."""
        later_s = choice.not_before_s
        return later_s > self._plans.now_s and (
            choice.candidate.walltime_s <= job.job.time_left_s(later_s)
        )

    def limited_by(self, subjects: Set[Subject]) -> list[JobRecord]:
        """Return the waiting jobs that may count against one of these: wherever they run, or on the
        clusters of a site or in a partition."""
        anywhere = {each._replace(site="") for each in subjects}
        partitions = {each.name for each in subjects if each.kind is SubjectKind.PARTITION}
        return [
            job
            for job in self.jobs()
            if any(each in anywhere for each in subjects_of(job.job))
            or (partitions and self._counts_in(job, partitions, anywhere))
        ]

    def _counts_in(self, job: JobRecord, partitions: Set[str], subjects: Set[Subject]) -> bool:
        """Return whether a job may be in a partition where it counts against one of these."""
        clusters = self._pending_reasons.models.clusters
        offered = (offered_in(job.job, clusters[each.cluster]) for each in job.evaluated.candidates)
        names = {name for parts in offered for among, _ in parts for name in among}
        found = (
            subjects_in(each, job.job.user, job.job.account, "") for each in names & partitions
        )
        return any(each in subjects for each in chain.from_iterable(found))

    def take_refreshed(self) -> set[str]:
        """Return the ids of the jobs that were refreshed since the last call."""
        refreshed, self._refreshed = self._refreshed, set()
        return refreshed

    def forget_kinds(self) -> bool:
        """Drop the numbers of kinds where they are many; True when all entries are to be made
        anew."""
        return self.kinds.forget(len(self._waiting))

    def leave(self, job_id: str) -> None:
        """Drop a job that waits no more, or begins anew."""
        waiting = self._waiting.pop(job_id, None)
        if waiting is not None:
            self._count_licences(waiting.job, -1)
            self.queues.remove([waiting.queued_as])
            self._times.note(job_id, inf)
            self._manager_order.leave(job_id)

    def refresh(self, jobs: Iterable[JobRecord]) -> bool:
        """Bring the entries of these jobs up to date; True when one that waits on lost some."""
        changed: dict[str, _Waiting] = {}
        lost_some = False
        places = self._places_of(jobs)
        for waiting in [*places, *self._reordered(places)]:
            before, waiting.entries = waiting.entries, self._entries_of(waiting)
            self._times.note(waiting.job.job.job_id, self._due_s(waiting))
            lost_some |= bool(before.keys() - waiting.entries.keys())
            if waiting.entries != before or waiting.is_queued_otherwise:
                changed[waiting.job.job.job_id] = waiting
        self._enqueue(list(changed.values()))
        return lost_some

    def refresh_all(self) -> bool:
        """Bring the entries of all jobs up to date, of whatever kinds they are now; True as
        `refresh`."""
        lost_some = self.refresh(self.jobs())
        self.queues.forget_kinds()
        return lost_some

    def restore(self, jobs: Iterable[JobRecord]) -> None:
        """Return what a pass took out of the queue for starts that do not take place. Arrays have
        other entries by now: see split."""
        alone = [job.job.job_id for job in jobs if job.progress is None]
        self._enqueue([self._waiting[job_id] for job_id in alone])

    def note_started(self, array: JobRecord, started: Entry) -> None:
        """Note which task of an array a pass left in the queues when it started this one."""
        later = started.later
        self._waiting[array.job.job_id].queued_as = -1 if later is None else later.arrival

    def split(self, array: JobRecord, task: JobRecord) -> None:
        """Let a task wait as its array does, which a pass has started: it is in no queue."""
        found, entries = self._waiting[array.job.job_id], {}
        for choice in found.choices:
            if (entry := found.entries.get(choice.cluster)) is not None:
                entries[choice.cluster] = entry.of_arrival(task.arrival)
        rest = found.gone, found.boots, found.evaluated, found.usual, found.choices, entries
        self._waiting[task.job.job_id] = _Waiting(task, *rest)
        self._count_licences(task, 1)

    def _reordered(self, refreshed: Sequence[_Waiting]) -> list[_Waiting]:
        """Return the jobs whose places at their resource managers are others, but for those that
        are refreshed."""
        reordered = self._manager_order.take_reordered()
        asked = [self._waiting[job_id].job for job_id in reordered if job_id in self._waiting]
        moved = self._manager_order.settle([*(place.job for place in refreshed), *asked])
        if not moved:
            return []
        moved -= {place.job.job.job_id for place in refreshed}
        return [self._waiting[job_id] for job_id in sorted(moved)]

    def _places_of(self, jobs: Iterable[JobRecord]) -> list[_Waiting]:
        """Return the jobs of these that wait, with their choices among the clusters that are
        there."""
        waiting = [place for job in jobs if (place := self._place_of(job)) is not None]
        stale: dict[tuple[frozenset[str], Ranking], list[_Waiting]] = defaultdict(list)
        boots = self._boots
        for place in waiting:
            gone = self._pending_reasons.unranked_clusters(place.job)
            is_other = place.gone != gone or place.boots != boots
            if is_other or place.evaluated is not place.job.evaluated.candidates:
                place.boots = boots
                stale[gone, self._rules.ranking_of(place.job.evaluated.update)].append(place)
        for (gone, ranking), places in stale.items():
            self._rank(places, gone, ranking)
        for place in waiting:
            place.choices = as_planned(place.usual, self._planned(place.job))
        return waiting

    def _rank(self, places: Sequence[_Waiting], gone: frozenset[str], ranking: Ranking) -> None:
        """Rank the clusters of jobs among each other, but those that are out of reach."""
        ranked = choices([place.job for place in places], gone, ranking, self._boots)
        for place, found in zip(places, ranked, strict=True):
            place.usual, place.gone, place.evaluated = found, gone, place.job.evaluated.candidates

    def _planned(self, job: JobRecord) -> Mapping[str, PlannedMode]:
        """Return what the plan has of a job at P-states that its clusters still have. Arrays are in
        no plan: one item would be of all their tasks; nor is anything that managers order."""
        if job.progress is not None or self._manager_order.is_in_force:
            return {}
        clusters = self._pending_reasons.models.clusters
        return {
            name: mode
            for name, mode in self._plans.of(job).items()
            if name in clusters and has_ghz(clusters[name].pstates_ghz, mode.candidate.freq_ghz)
        }

    def _place_of(self, job: JobRecord) -> _Waiting | None:
        """Return the place of a job in the queue; None for one that does not wait."""
        job_id = job.job.job_id
        self._refreshed.add(job_id)
        waiting = self._waiting.get(job_id)
        if waiting is not None and not (job.waits and waiting.job is job):
            self.leave(job_id)
            waiting = None
        if waiting is None and job.waits:
            waiting = self._waiting[job_id] = _Waiting(job)
            self._count_licences(job, 1)
        return waiting

    def _count_licences(self, job: JobRecord, jobs: int) -> None:
        """Count so many more jobs that wait with these licences."""
        for name, _ in job.job.licences:
            self._licences[name] += jobs
            if not self._licences[name]:
                del self._licences[name]

    def _enqueue(self, changed: list[_Waiting]) -> None:
        added: dict[str, list[Entry]] = defaultdict(list)
        for waiting in changed:
            for cluster, entry in waiting.entries.items():
                added[cluster].append(entry)
        self.queues.remove([waiting.queued_as for waiting in changed])
        for waiting in changed:
            waiting.queued_as = waiting.first_arrival
        for cluster, entries in added.items():
            self.queues.add(cluster, entries)

    def _entries_of(self, waiting: _Waiting) -> Mapping[str, Entry]:
        found = self._entries_by(waiting.job, waiting.choices, self.kinds)
        return {name: entry for name, (_, entry) in found.items()} or _NONE

    def _entries_by(
        self, job: JobRecord, found: Choices, kinds: Kinds
    ) -> dict[str, tuple[Choice, Entry]]:
        """Return the entries of a job that has these choices, by cluster."""
        if self._pending_reasons.of_job(job):
            return {}
        entries = self._open_entries(job, found, kinds)
        if job.progress is None or not entries:
            return entries
        most = self._pending_reasons.most_tasks(job)
        runs, _ = self._runs_of_tasks(job, job.progress, _MOST_RUNS, most)
        return {name: (c, task) for name, (c, e) in entries.items() if (task := _of_runs(e, runs))}

    def _open_entries(
        self, job: JobRecord, found: Choices, kinds: Kinds
    ) -> dict[str, tuple[Choice, Entry]]:
        """Return the entries of a job that nothing keeps out on all clusters: of an array as if it
        were a job."""
        reasons, entries = self._pending_reasons, dict[str, tuple[Choice, Entry]]()
        may_lack = reasons.may_keep_entries_out(job)
        for choice in found:
            candidate = choice.candidate
            if not choice.waits or self.is_held_back(job, choice):
                continue
            if (may_lack or candidate.power_unknown) and reasons.of_entry(job, candidate):
                continue
            refused = NOTHING_REFUSED
            if may_lack:
                refused = reasons.closed_on(job, choice.cluster, candidate.nodes)
            if (entry := self._entry(job, choice, kinds, refused)) is not None:
                entries[choice.cluster] = choice, entry
        return entries

    def _entry(
        self, job: JobRecord, choice: Choice, kinds: Kinds, refused: RefusedToJob
    ) -> Entry | None:
        """Return the entry for a choice; None where the cluster was declared anew, without what the
        job needs or the P-state of its evaluation, or refused the job all of its nodes."""
        cluster = self._pending_reasons.models.clusters[choice.cluster]
        if not has_ghz(cluster.pstates_ghz, choice.candidate.freq_ghz):
            return None
        kind = kind_on(job.job, cluster, NodeTable.names_of(cluster), refused)
        if kind is None:
            return None
        number = kinds.number(cluster.name, kind)
        in_parts = not counts_nodes(job.job, kind, cluster)
        most_s = job.job.time_left_s(self._times.now_s)
        entry = choice.entry(job.job, job.arrival, number, in_parts=in_parts, most_s=most_s)
        if self._manager_order.is_in_force:
            return entry._replace(order=self._manager_order.order(job, choice.rank))
        return entry

    def _runs_of_tasks(
        self, array: JobRecord, progress: ArrayProgress, most_runs: int | None, most: int
    ) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Return the arrival numbers of the tasks of an array that may start, of so many runs, in
        runs: of so many tasks, and of those behind them."""
        now, behind_them = list[tuple[int, int]](), list[tuple[int, int]]()
        for first, behind in islice(self._pending_reasons.tasks_left(array), most_runs):
            arrival, count = progress.first_arrival + first, max(min(behind - first, most), 0)
            most -= count
            if count:
                now.append((arrival, arrival + count))
            if first + count < behind:
                behind_them.append((arrival + count, progress.first_arrival + behind))
        return now, behind_them

    def _due_s(self, waiting: _Waiting) -> float:
        """Return when time changes the entries of a job next: it may begin, a delay ends, its
        reservation ends, or another of its limits does not end by its deadline any more, or by the
        end of its reservation."""
        job, now_s = waiting.job.job, self._times.now_s
        due_s = self._pending_reasons.dependencies.due_s(waiting.job)
        if job.begin_s > now_s:
            due_s = min(due_s, job.begin_s)
        if job.starts_by_s > now_s:
            due_s = min(due_s, job.starts_by_s)
        if job.reservation:
            due_s = min([due_s, *self._turns_s(waiting)])
        if job.deadline_s:
            latest_s = [job.deadline_s - limit_s for limit_s in _limits_s(waiting)]
            latest_s += self._last_before_windows_s(waiting)
            due_s = min([due_s, *self._kept_until_s(waiting)])
            late_s = (nextafter(start_s, inf) for start_s in latest_s if start_s >= now_s)
            due_s = min([due_s, *late_s])
        return due_s

    def _last_before_windows_s(self, waiting: _Waiting) -> Iterator[float]:
        """Yield for each cluster the next latest start that ends before a window begins."""
        for choice in waiting.usual:
            windows = self._pending_reasons.reservations.windows(choice.cluster)
            yield windows.last_start_s(self._times.now_s, choice.candidate.walltime_s)

    def _kept_until_s(self, waiting: _Waiting) -> Iterator[float]:
        """Yield when nodes are no more kept for others that a job would have by its deadline."""
        job = waiting.job.job
        for choice in waiting.usual:
            windows = self._pending_reasons.reservations.windows(choice.cluster)
            latest_s = job.deadline_s - choice.candidate.walltime_s
            against = windows.against(job.reservation, latest_s, job.deadline_s)
            yield from (each.until_s for each in against)

    def _turns_s(self, waiting: _Waiting) -> Iterator[float]:
        """Yield when the reservation of a job ends, or from when on one of its limits does not end
        within it."""
        now_s = self._times.now_s
        for each in self._pending_reasons.reservations_of(waiting.job):
            last_s = [each.until_s - limit_s for limit_s in _limits_s(waiting)]
            last_s.append(late_start_s(each.from_s, each.until_s))
            late_s = [nextafter(start_s, inf) for start_s in last_s if start_s >= now_s]
            yield from (s for s in (each.until_s, *late_s) if s > now_s)


def _of_runs(entry: Entry, runs: Sequence[tuple[int, int]]) -> Entry | None:
    """Return the entry of an array as that of the first task of these runs; None without any."""
    return entry._replace(later=LaterTasks(runs[0][0], tuple(runs))).next_task() if runs else None


def _each_of_runs(
    entries: Mapping[str, Entry], runs: Sequence[tuple[int, int]]
) -> dict[str, Entry]:
    """Return the entries of an array, by cluster, as those of the first task of these runs."""
    tasks = {name: _of_runs(entry, runs) for name, entry in entries.items()}
    return {name: task for name, task in tasks.items() if task is not None}


def _limits_s(waiting: _Waiting) -> Iterator[float]:
    """Yield the limits in each mode in which a job may start."""
    for mode in (choice.candidate for choice in (*waiting.choices, *waiting.usual)):
        yield mode.walltime_s
        yield from (slower.walltime_s for slower in mode.slower or ())
