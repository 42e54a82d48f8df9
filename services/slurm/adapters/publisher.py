"""Publishes what happens in a Slurm: the cluster, submissions, starts and ends."""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final

import structlog
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import HOLDER_USER, JobSubmitted

from coplace_client.facts import fact
from services.slurm.adapters.kept_terms import TermsFile
from services.slurm.adapters.order import SlurmOrder
from services.slurm.adapters.published_facts import PublishedFacts
from services.slurm.adapters.published_jobs import PublishedJob, PublishedJobs
from services.slurm.adapters.quotes import NewJob
from services.slurm.adapters.region import AskedRegion
from services.slurm.adapters.runs import RunsSeen
from services.slurm.adapters.sending import latest_us, send
from services.slurm.model.changes import WaitingChanges, WaitingTerms
from services.slurm.model.facts import SlurmTerms, facts_of
from services.slurm.model.fields import CANNOT, unknown_fields, why_not_followed
from services.slurm.model.jobs import SlurmJob
from services.slurm.model.run_limits import RunLimits
from services.slurm.model.shapes import NodeShapes
from services.slurm.model.start_terms import MARK, ShownJobs, release
from shared.domain.array_tasks import as_task
from shared.domain.printable import printable
from shared.process.clock import now_us
from shared.slurm.answers import text
from shared.slurm.clusters import ClusterMap
from shared.slurm.facts import Site

_MOST_NEW: Final = 1_000
_RESTART: Final = "not declared: restart this process when the cluster is idle"

log = structlog.get_logger(__name__)


class ShownState(StrEnum):
    """A job of Slurm's, as Coplace has it: set aside where something about it fails."""

    WAITS = "waits"
    RUNS = "runs"
    ENDED = "ended"
    ASIDE = "aside"


class SlurmPublisher:
    """Sends each fact once: after a restart it is sent again, a copy that nobody counts, but for
    submissions that placement has.

    A job whose facts fail is set aside with its reason, noted once, and holds up no other. It is
    tried again with each look at Slurm.
    """

    def __init__(
        self,
        region: AskedRegion,
        terms: SlurmTerms,
        runs: RunsSeen | None = None,
        order: SlurmOrder | None = None,
        terms_file: TermsFile | None = None,
    ) -> None:
        self._region, self._terms, self._site = region, terms, terms.site
        self._runs, self._order = runs or RunsSeen(), order
        self.published = PublishedFacts()
        self._terms_file = terms_file
        kept = terms_file.read() if terms_file is not None else {}
        self._changes, self._made = WaitingChanges(terms.site.name, kept), PublishedJobs()
        self._limits = RunLimits()
        # Changes of jobs that were said, and of which nobody knows whether that was heard.
        self._unsaid: list[Envelope] = []
        self._waiting: dict[str, SlurmJob] = {}
        # Of these, how they would be submitted now, where changes of them can be followed.
        self._asked: dict[str, JobSubmitted] = {}
        # Jobs that were held since something of them was not understood or can't be followed, and
        # those of them for which it has come now.
        self._kept_out: set[str] = set()
        self._met: set[str] = set()
        self._declared: dict[str, ClusterDeclared] = {}
        # The nodes of clusters that were noted since they are not those that are declared.
        self._unlike: dict[str, tuple[str, ...]] = {}
        # What was noted of which job, or of which fact that was refused.
        self._noted: dict[str, str] = {}
        self._aside: set[str] = set()
        # Arrays that wait, or have waited.
        self._arrays: set[str] = set()
        self._arrays_shown: set[str] = set()
        self._new = deque[NewJob](maxlen=_MOST_NEW)
        self.held_because: dict[int, str] = {}
        """Why jobs of the last look are held, by Slurm's number."""
        self.unknown_fields: set[str] = set()
        """Fields of jobs that say something, and that no known release of Slurm has."""
        self.states: Mapping[ShownState, int] = {}
        """How many jobs were in which state at the last look."""

    def declare(
        self, clusters: Sequence[ClusterDeclared], nodes: Iterable[Mapping[str, Any]] = ()
    ) -> None:
        """Declare clusters that are not declared so, unless nodes have other places by now: what
        runs is known by these. `nodes` are theirs, as Slurm shows them. Raises UnansweredError,
        for what ingest refuses too."""
        for cluster in clusters:
            if not self._is_moved(cluster) and cluster != self._declared.get(cluster.cluster):
                self._declare(cluster)
        declared = [self._declared[each.cluster] for each in clusters]
        site = replace(self._site, clusters=ClusterMap.of_declared(declared))
        terms = replace(self._terms, site=site, shapes=NodeShapes(nodes))
        if terms != self._terms:
            self._site, self._terms = site, terms
            self._made.forget_waiting()

    def held_at_us(self, job_id: str) -> int:
        """Return when it was published that the user of a job holds it; 0: it was not."""
        return self._changes.held_at_us(job_id)

    def changed_at_us(self, job_id: str) -> int:
        """Return when it was published that the terms of a job are others; 0: it was not."""
        return self._changes.changed_at_us(job_id)

    @property
    def shapes(self) -> NodeShapes:
        """Return the nodes as they were declared last."""
        return self._terms.shapes

    @property
    def site(self) -> Site:
        """Return whose jobs they are, on the clusters as they are declared."""
        return self._site

    def _declare(self, cluster: ClusterDeclared) -> None:
        at_us = now_us()
        subject = f"{cluster.cluster}/{at_us}"
        self._region.publish(fact(self._site.name, cluster, subject, at_us))
        self._declared[cluster.cluster] = cluster
        cores = cluster.cores_per_node
        log.info("declared", cluster=cluster.cluster, nodes=cluster.nodes, cores_per_node=cores)

    def _is_moved(self, cluster: ClusterDeclared) -> bool:
        """Note once where a cluster that is declared has other nodes, or another order of them."""
        name, nodes = cluster.cluster, tuple(cluster.node_names)
        declared = self._declared.get(name)
        if declared is None or nodes == tuple(declared.node_names):
            self._unlike.pop(name, None)
            return False
        if self._unlike.get(name) != nodes:
            log.warning("other nodes, or another order of them", cluster=name, problem=_RESTART)
        self._unlike[name] = nodes
        return True

    def tell(self, jobs: Iterable[SlurmJob]) -> bool:
        """Publish what is new of these jobs; return whether anything was. Raises UnansweredError:
        then all of it is published again, whatever is changed until then."""
        shown = list(jobs)
        ended = self._runs.ended(shown)
        self._kept_out |= self._runs.kept_out
        self._changes.held_by_user |= self._runs.held_by_user
        self._changes.held_changed |= self._runs.held_changed
        # What they were submitted as is not said again: they may be others by now.
        self.published.submitted |= self._runs.known
        self._changes.unrecorded = self.published.submitted
        before, self._noted, self._aside = self._noted, {}, set()
        self._arrays_shown, self._waiting, self._asked, self._met = set(), {}, {}, set()
        self.held_because = {}
        self._made.give_up()
        beside = ShownJobs(shown, self._site)
        known = {
            event.id: event
            for job in [*ended, *shown]
            for event in self._facts(job, beside, before)
        }
        fresh = [event for event in known.values() if not self.published.has(event)]
        self._unsaid += self._changes.events(
            self._waiting, now_us(), self._asked, beside.depends_on_others
        )
        self._unsaid += self._limits.events(shown, self._site, now_us(), self._runs.ends_by_us)
        self._changes.confirm()
        self._keep(TermsFile.doubt)
        fresh += self._unsaid
        self._send(fresh, before)
        self._keep(TermsFile.keep)
        self._unsaid = []
        self._new.extend(self._came(fresh))
        if self._order is not None:
            self._order.published(fresh)
        self._made.confirm()
        self.published.remember(known)
        self._kept_out &= self.published.submitted
        self._arrays &= self._arrays_shown
        self._runs.remember(shown)
        self.states = Counter(self._state(job) for job in shown)
        return bool(fresh)

    def _keep(self, keep: Callable[[TermsFile, Mapping[str, WaitingTerms]], None]) -> None:
        if self._terms_file is None:
            return
        try:
            keep(self._terms_file, self._changes.known)
        except OSError as error:
            log.error("what was said of jobs is not kept", problem=str(error))

    def new_jobs(self) -> Sequence[NewJob]:
        """Return the jobs that wait and were published since the last call."""
        return [self._new.popleft() for _ in range(len(self._new))]

    def _came(self, fresh: Iterable[Envelope]) -> Iterator[NewJob]:
        for event in fresh:
            job = self._waiting.get(event.job_submitted.job_id)
            if job is not None:
                yield NewJob(job, event.job_submitted)

    def _note_waiting(self, submitted: JobSubmitted, job: SlurmJob) -> None:
        """What is held for what Coplace can't follow is let in by nobody's release in Slurm, but
        where it became so."""
        job_id = submitted.job_id
        if self._order is not None:
            self._order.put(job, submitted)
        is_followed = submitted.held_by == HOLDER_USER or not submitted.held_because
        is_kept_out = job_id in self._kept_out - self._met
        is_let_in = not (is_kept_out or why_not_followed(job, self._terms.select))
        if job.is_pending and (is_let_in or self._changes.knows(job_id)):
            self._waiting[job_id] = job
            if is_let_in and is_followed:
                self._asked[job_id] = submitted

    def _note_unknown_fields(self, job: SlurmJob) -> None:
        """Note once each field that says something of a job that waits and nobody reads."""
        for name in sorted(unknown_fields(job) - self.unknown_fields):
            self.unknown_fields.add(name)
            log.warning("unknown field of a job", field=printable(name), job=_name(job))

    def _state(self, job: SlurmJob) -> ShownState:
        if self._aside and _name(job) in self._aside:
            return ShownState.ASIDE
        if job.is_pending:
            return ShownState.WAITS
        return ShownState.RUNS if job.has_nodes else ShownState.ENDED

    def _facts(
        self, job: SlurmJob, beside: ShownJobs, before: Mapping[str, str]
    ) -> Sequence[Envelope]:
        made = self._made.of(job)
        if made is not None:
            return self._as_before(job, made)
        return self._facts_anew(job, beside, before)

    def _facts_anew(
        self, job: SlurmJob, beside: ShownJobs, before: Mapping[str, str]
    ) -> Sequence[Envelope]:
        try:
            if not job.is_placed:
                return ()
            if job.is_pending:
                self._note_unknown_fields(job)
            found = facts_of(job, self._terms, latest_us())
            told = self._with_terms(job, beside, found.told)
            for event in told:
                event.SerializeToString()
        except Exception as error:  # noqa: BLE001 one job of Slurm's is no reason to end
            problem = f"is not published: {_shown(error)}"
            self._aside.add(_name(job))
            self._note(_name(job), problem, before)
            return ()
        if found.repaired:
            left_out = ", ".join(sorted(found.repaired))
            self._note(f"job {job.job_id}", f"is published with less of its {left_out}", before)
        if held_because := told[0].job_submitted.held_because:
            self._note(f"job {job.job_id}:", f"held. {held_because}", before)
            self.held_because[job.job_id] = held_because
        self._note_waiting(told[0].job_submitted, job)
        array_id, is_known = self._array_of(job, told[0].job_submitted)
        facts = told[1:] if is_known else told
        if self._is_settled(job, told[0].job_submitted, found.repaired):
            self._made.note(job, facts, array_id)
        return facts

    def _as_before(self, job: SlurmJob, made: PublishedJob) -> Sequence[Envelope]:
        """Return the facts of a job of which nothing is new."""
        self._arrays_shown.add(made.array_id)
        if job.is_pending:
            submitted = JobSubmitted(job_id=job.id_at(self._site))
            self._waiting[submitted.job_id] = job
            if self._order is not None:
                self._order.put(job, submitted)
        return made.events

    def _is_settled(self, job: SlurmJob, submitted: JobSubmitted, repaired: Set[str]) -> bool:
        """Return whether nothing can be said of a job as long as Slurm shows it as it is: it has
        ended, or waits for nobody, and there is nothing to note of it."""
        if not job.is_pending:
            return not job.has_nodes
        job_id, awaits = submitted.job_id, text(job.fields.get("dependency"))
        is_said = job_id in self._asked and not job.is_task
        is_plain = not (repaired or submitted.held_because or awaits or job_id in self._kept_out)
        return is_plain and is_said and self._changes.is_followed(job_id)

    def _array_of(self, job: SlurmJob, submitted: JobSubmitted) -> tuple[str, bool]:
        """Return the id of the array that a job is or is of, and whether its submission is that of
        the array."""
        named = as_task(submitted.job_id) if job.is_task else None
        array_id = named[0] if named else submitted.job_id
        self._arrays_shown.add(array_id)
        if job.is_array:
            self._arrays.add(array_id)
        is_known = array_id in self._arrays or job.word.grant > 0
        return array_id, named is not None and is_known

    def _with_terms(
        self, job: SlurmJob, beside: ShownJobs, told: Sequence[Envelope]
    ) -> Sequence[Envelope]:
        """Return the facts of a job with when it may start; it is released once what it was held
        for is met. One that asks for what Coplace can't follow stays held until it does not."""
        submitted = told[0].job_submitted
        if not job.is_pending:
            return told
        if submitted.held_because.startswith(CANNOT):
            self._keep_out(submitted.job_id)
            return told
        beside.put_terms(job, submitted)
        if submitted.held_because.startswith(MARK):
            self._keep_out(submitted.job_id)
        if submitted.job_id not in self._kept_out or not beside.is_met(job, time.time()):
            return told
        self._met.add(submitted.job_id)
        return told if job.is_held_by_user else [*told, release(submitted, self._site)]

    def _keep_out(self, job_id: str) -> None:
        """Note a job that is submitted as held; one that was let in is held for its change."""
        if not self._changes.knows(job_id):
            self._kept_out.add(job_id)

    def _note(self, name: str, what: str, before: Mapping[str, str]) -> None:
        """Say it once, as long as it stays so."""
        self._noted[name] = what
        if before.get(name) != what:
            log.warning("noted", problem=printable(f"{name} {what}", 1_000))

    def _send(self, events: Sequence[Envelope], before: Mapping[str, str]) -> None:
        if not events:
            return
        for at, why in send(self._region, events).items():
            self._note(f"ingest refused {events[at].id}:", why, before)


def _name(job: SlurmJob) -> str:
    return f"job {job.fields.get('job_id')!r:.40}"


def _shown(error: Exception) -> str:
    return str(error) if isinstance(error, ValueError) else repr(error)
