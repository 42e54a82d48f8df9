"""Composition root of the resource manager of a Slurm."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import structlog
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.watch_service_pb2 import WatchDecisionsRequest

from coplace_client.decisions import AsyncDecisionWatcher
from coplace_client.errors import UnusableError
from services.slurm.adapters.commands import Slurm, SlurmError
from services.slurm.adapters.contact import Contact
from services.slurm.adapters.cursor import CursorFile
from services.slurm.adapters.decisions import DecisionsInHand
from services.slurm.adapters.declared import DeclaredBySlurm
from services.slurm.adapters.declared_limits import LimitsBySlurm, LimitWatch
from services.slurm.adapters.drains import DrainPublisher
from services.slurm.adapters.giving_back import alone
from services.slurm.adapters.heartbeat import SlurmHeartbeat
from services.slurm.adapters.kept_runs import EndedRuns
from services.slurm.adapters.kept_terms import TermsFile
from services.slurm.adapters.limited import LimitedStarts
from services.slurm.adapters.looks import SlurmLooks
from services.slurm.adapters.lost_starts import LostStarts
from services.slurm.adapters.meter import SlurmMeter
from services.slurm.adapters.node_power import NodePowerPublisher
from services.slurm.adapters.notes import JobNotes, NotesAMinute
from services.slurm.adapters.obedience import Obedience
from services.slurm.adapters.order import SlurmOrder
from services.slurm.adapters.order_terms import OrderTerms
from services.slurm.adapters.publisher import SlurmPublisher
from services.slurm.adapters.quotes import Quotes
from services.slurm.adapters.reasons import Reasons
from services.slurm.adapters.region import AskedRegion, RegionOverGrpc
from services.slurm.adapters.runs import RunsSeen
from services.slurm.adapters.tries import Tries, shown_error
from services.slurm.adapters.word import NO_WORD, PluginsWord
from services.slurm.model.clusters import (
    ClusterShare,
    declared_clusters,
    shared_out,
    uncounted_resources,
    undeclared,
)
from services.slurm.model.declared import licences_of, reservations_of
from services.slurm.model.facts import SlurmTerms
from services.slurm.model.jobs import SlurmJob, names_of_waiting
from services.slurm.model.node_power import Boot
from services.slurm.model.select_rules import SelectRules
from services.slurm.settings import SlurmSettings, shares_of
from shared.process.life import Process, run_process
from shared.slurm.facts import Site

NAME: Final = "slurm"
_AGAIN_S: Final = 5.0
# Somebody waits at a prompt for what his new job costs.
_QUOTES_EVERY_S: Final = 0.2
# For so long behind a change Slurm is looked at as often as while there are some.
_BUSY_S: Final = 30.0
# A slurmctld that was killed shows soon what it forgot.
_LOST_EVERY_S: Final = 10.0
# The plugin leaves its word a moment before Slurm has the job.
_WORD_BEFORE_S: Final = 0.05
# Slurm answers no more than this part of the time, since slurmctld has others to answer; where jobs
# come, whose users wait, a larger one, and a smaller one while nothing happens.
_MOST_OF_TIME: Final = 0.2
_MOST_WHILE_IDLE: Final = 0.05
_MOST_WHERE_JOBS_COME: Final = 0.5

log = structlog.get_logger(__name__)
_T = TypeVar("_T")
_Act = Callable[[], Awaitable[object]]


async def serve(process: Process) -> None:
    """Connect Slurm and Coplace until the process shall stop."""
    own = SlurmSettings()
    shares = shares_of(own.clusters_file)
    await process.run_until_stopped(NAME, _run(process, own, shares))


async def _run(process: Process, own: SlurmSettings, shares: Sequence[ClusterShare]) -> None:
    """Connect the Slurm, and leave no command of it behind."""
    meter = SlurmMeter(process.telemetry.meter)
    slurm = Slurm(meter.called)
    try:
        await _connect(process, own, shares, slurm, meter)
    finally:
        slurm.stop()


class _Connection(NamedTuple):
    """A Slurm, its region, and what a site says of both."""

    own: SlurmSettings
    slurm: Slurm
    looks: SlurmLooks
    config: Mapping[str, str]
    region: AskedRegion
    site: Site
    shares: Sequence[ClusterShare]

    @property
    def clusters(self) -> list[str]:
        return [share.cluster for share in self.shares]

    @property
    def name(self) -> str:
        return self.config["ClusterName"]

    @property
    def source(self) -> str:
        """Who declares what is of the whole Slurm."""
        return f"{self.own.site}/{self.name}"

    def terms(self, nodes: Sequence[Mapping[str, Any]]) -> SlurmTerms:
        """What its jobs do not say."""
        uncounted = uncounted_resources(nodes)
        if uncounted:
            log.warning("not declared of nodes, nor asked of them", resources=sorted(uncounted))
        select = SelectRules.of_config(self.config)
        architecture = self.own.architecture or self.name
        return SlurmTerms(self.site, architecture, uncounted, select=select)


async def _connect(
    process: Process,
    own: SlurmSettings,
    shares: Sequence[ClusterShare],
    slurm: Slurm,
    meter: SlurmMeter,
) -> None:
    """Declare the clusters, then work."""
    region = RegionOverGrpc(own.ingest_address, own.placement_address, process.settings)
    until = _Until(process)
    config = await until.done("Slurm", slurm.config)
    nodes = await until.done("Slurm", slurm.nodes)
    site = Site(own.site, own.account, shares[0].hardware.node_model, config["ClusterName"])
    both = _Connection(own, slurm, SlurmLooks(slurm), config, region, site, shares)
    terms, declarer = both.terms(nodes), _Declarer(both)
    manager = (own.site, f"Slurm {both.name} of {own.site}", both.clusters)
    order = SlurmOrder(region, OrderTerms(slurm), manager, own.order_every_s)
    runs = RunsSeen.beside(region, site)
    publisher = SlurmPublisher(region, terms, runs, order, TermsFile(own.terms))
    declared = await until.done("Slurm and ingest", lambda: declarer.declare(publisher, terms))
    declarer.note_left_out(declared)
    # Before that it rejects their jobs.
    await until.done("placement", lambda: _require_known(region, both.clusters))
    process.readiness.ready()
    reader = _reader(process, both)
    meter.watch(
        lambda: publisher.states,
        lambda: reader.waiting,
        lambda: len(publisher.unknown_fields),
    )
    declare_all = partial(declarer.declare_all, publisher, terms)
    await _work(both, publisher, order, reader, declare_all)


def _reader(process: Process, both: _Connection) -> DecisionsInHand:
    own = both.own

    def watch(request: WatchDecisionsRequest) -> AsyncDecisionWatcher:
        return AsyncDecisionWatcher(own.watch_address, process.settings, request)

    named = {both.name, *both.clusters}
    return DecisionsInHand(watch, own.site, named, CursorFile(own.cursor_file))


async def _work(
    both: _Connection,
    publisher: SlurmPublisher,
    order: SlurmOrder,
    reader: DecisionsInHand,
    declare_all: Callable[[], object],
) -> None:
    """Publish what happens, and do what is decided, until cancelled."""
    own, slurm, region, site = both.own, both.slurm, both.region, both.site
    looks = _Looks(both, publisher, reader)
    notes = _Notes(both, publisher, looks)
    ended = EndedRuns(own.ended_dir, region, lambda: publisher.site, publisher.published)
    done_every_s: Sequence[tuple[float, Callable[[], object]]] = (
        (own.idle_looks_every_s, notes.note_reasons),
        (_QUOTES_EVERY_S, notes.note_quotes),
        (own.nodes_every_s, _Nodes(both, publisher).tell),
        (own.reorders_every_s, order.look),
        (own.declares_every_s, declare_all),
        (own.limits_every_s, lambda: limits.look(looks.shown)),
    )
    obedience = Obedience(
        *(slurm, region, site, notes.made, both.looks, publisher.held_at_us),
        shapes=lambda: publisher.shapes,
        changed_at_us=publisher.changed_at_us,
    )
    tries = Tries(obedience)
    limited = LimitedStarts(region, site, both.clusters, tries.refuse)
    lost = LostStarts(region, site, both.clusters, tries.obey)
    declared_limits = LimitsBySlurm(region, both.source, own.site)
    limits = LimitWatch(slurm, both.config, declared_limits, limited, own.site)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(looks.run())
        tasks.create_task(_behind(looks, reader.run(tries.obey)))
        publish, word = _beside(ended.publish), PluginsWord(own.ended_dir)
        tasks.create_task(_every(own.looks_every_s, publish, word))
        tasks.create_task(_every(own.looks_every_s, lambda: limited.look(looks.shown)))
        tasks.create_task(_every(_LOST_EVERY_S, lambda: lost.look(looks.shown)))
        for period_s, act in done_every_s:
            tasks.create_task(_every(period_s, _beside(act)))


class _Nodes:
    """Publishes which nodes are out, off or reserved."""

    def __init__(self, both: _Connection, publisher: SlurmPublisher) -> None:
        region, site = both.region, both.own.site
        self._both, self._publisher = both, publisher
        self._drains = {
            each: DrainPublisher(region, site, each, both.own.drains_every_s)
            for each in both.clusters
        }
        self._power = {
            each.cluster: NodePowerPublisher(
                region, site, each.cluster, Boot.of(both.config, each.hardware)
            )
            for each in both.shares
        }
        self._declared = DeclaredBySlurm(region, both.source, both.clusters)

    def tell(self) -> None:
        """Publish what is new of that."""
        slurm = self._both.slurm
        for cluster, nodes in shared_out(slurm.nodes(), self._both.shares).items():
            self._drains[cluster].tell(nodes)
            self._power[cluster].tell(nodes)
        shown = slurm.shown("reservation")
        self._declared.declare_reservations(reservations_of(shown, self._publisher.site.clusters))


class _Notes:
    """Notes in jobs what their users see."""

    def __init__(self, both: _Connection, publisher: SlurmPublisher, looks: "_Looks") -> None:
        own, region = both.own, both.region
        self._publisher, self._looks = publisher, looks
        self.made, commands = JobNotes(both.slurm), NotesAMinute(own.notes_per_minute)
        self._reasons = Reasons(
            region, self.made, both.site, both.clusters, own.notes_every_s, commands
        )
        self._quotes = Quotes(region, self.made, self._reasons, commands)

    def note_reasons(self) -> None:
        """Note why jobs wait."""
        self._reasons.note(self._looks.shown, self._publisher.held_because)

    def note_quotes(self) -> None:
        """Note what new jobs cost."""
        self._quotes.came(self._publisher.new_jobs())
        self._quotes.note()


class _Until:
    """Does something until it succeeds, and says meanwhile what keeps the process from its work."""

    def __init__(self, process: Process) -> None:
        self._readiness = process.readiness

    async def done(self, whom: str, act: Callable[[], _T]) -> _T:
        """Return what it returns."""
        self._readiness.wait_for(whom)
        while True:
            try:
                return await asyncio.to_thread(act)
            except UnusableError as error:
                self._readiness.wait_for(f"{whom}: {error}")
            await asyncio.sleep(_AGAIN_S)


class _NotKnownYetError(UnusableError):
    """Placement has not taken in a declaration yet."""


def _require_known(region: AskedRegion, clusters: Sequence[str]) -> None:
    if missing := set(clusters) - set(region.clusters()):
        raise _NotKnownYetError(f"it does not know {', '.join(sorted(missing))} yet")


class _Declarer:
    """Declares the clusters that a Slurm is, as it shows them now, and its licences."""

    def __init__(self, both: _Connection) -> None:
        self._both = both
        self._declared = DeclaredBySlurm(both.region, both.source, both.clusters)
        self._nodes: Sequence[Mapping[str, Any]] = ()
        self._partitions: Sequence[Mapping[str, Any]] = ()

    def declare_all(self, publisher: SlurmPublisher, terms: SlurmTerms) -> None:
        """Declare what is not declared so. Raises UnusableError."""
        self.declare(publisher, terms)
        shown = self._both.slurm.shown("licenses")
        licences = licences_of(shown, self._both.own.site, self._both.clusters)
        self._declared.declare_licences(licences)

    def declare(self, publisher: SlurmPublisher, terms: SlurmTerms) -> Sequence[ClusterDeclared]:
        """Declare the clusters alone. Raises UnusableError."""
        slurm = self._both.slurm
        self._nodes, self._partitions = slurm.nodes(), slurm.partitions()
        found = declared_clusters(
            *(self._nodes, self._both.own.site, terms.architecture),
            *(self._both.shares, self._partitions),
            shares_nodes=terms.select.shares_nodes,
        )
        publisher.declare(found, self._nodes)
        return found

    def note_left_out(self, declared: Sequence[ClusterDeclared]) -> None:
        """Note what there is too much of, and which nodes are of no cluster."""
        placed = shared_out(self._nodes, self._both.shares)
        for cluster in declared:
            for each in undeclared(placed[cluster.cluster], self._partitions, cluster):
                log.warning("not declared", cluster=cluster.cluster, what=each)
        if left := len(self._nodes) - sum(map(len, placed.values())):
            log.warning("nodes are of no cluster in the file of clusters", nodes=left)


class _Looks:
    """Looks at jobs: more often while some come, start or end, and when Slurm's plugin leaves word
    of one that came. Of runs that ended it leaves all there is to say: see EndedRuns."""

    def __init__(
        self, both: _Connection, publisher: SlurmPublisher, reader: DecisionsInHand
    ) -> None:
        own, region = both.own, both.region
        self._slurm, self._publisher, self._own = both.slurm, publisher, own
        self._looks = both.looks
        every_s = own.speaks_every_s
        self._heartbeat = SlurmHeartbeat(region, own.site, both.name, both.clusters, every_s)
        self._contact = Contact(region, own.heartbeat, lambda: reader.is_silent, every_s)
        self._word = PluginsWord(own.submitted_file, before_s=_WORD_BEFORE_S)
        self._busy_until_s = 0.0
        self._answered_in_s = 0.0
        self.tried = asyncio.Event()
        self.shown: Sequence[SlurmJob] = ()
        """The jobs of the last look."""

    async def run(self) -> None:
        """Look, until cancelled."""
        problem = ""
        while True:
            problem = await _tried(_beside(self._look), problem)
            self.tried.set()
            is_busy = time.monotonic() < self._busy_until_s
            every_s = self._own.looks_every_s if is_busy else self._own.idle_looks_every_s
            pause_s = max(every_s, self._longest_rest_s(is_busy=is_busy))
            least_s = _rest_s(self._answered_in_s, _MOST_WHERE_JOBS_COME)
            await asyncio.sleep(least_s)
            await self._word.wait(pause_s - least_s)

    def _longest_rest_s(self, *, is_busy: bool) -> float:
        """Return how long to rest where nobody leaves word: no longer than until this process has
        to speak."""
        busy_s = _rest_s(self._answered_in_s, _MOST_OF_TIME)
        idle_s = min(_rest_s(self._answered_in_s, _MOST_WHILE_IDLE), self._own.speaks_every_s)
        return busy_s if is_busy else max(busy_s, idle_s)

    def _look(self) -> None:
        self._word.heard()
        began_s = time.monotonic()
        self.shown = jobs = self._looks.all()
        self._answered_in_s = time.monotonic() - began_s
        for job in jobs:
            self._keep_to_placement(job)
        if self._publisher.tell(jobs):
            self._busy_until_s = time.monotonic() + _BUSY_S
        self._heartbeat.beat()
        self._contact.look()
        if self._contact.is_there and any(job.is_lent for job in jobs):
            with alone(self._own.heartbeat) as is_alone:
                if is_alone:
                    self._take_back([job for job in self._slurm.jobs() if job.is_lent])

    def _take_back(self, lent: Sequence[SlurmJob]) -> None:
        """Hold what waits and was given back while Coplace was silent; the word that says so goes
        at the next look, when that is held for certain."""
        try:
            with self._looks.changing(*lent):
                for names in names_of_waiting(job for job in lent if not job.is_held):
                    self._slurm.hold(names)
                for names in names_of_waiting(job for job in lent if job.is_held):
                    self._slurm.leave(names, "")
        except SlurmError as error:
            log.warning("tried again", problem=str(error))

    def _keep_to_placement(self, job: SlurmJob) -> None:
        """Hold a job that Slurm may start though nobody decided that. Those of scrontab are Slurm's
        own."""
        try:
            if job.is_loose:
                with self._looks.changing(job):
                    self._slurm.hold(job.name_in_slurm)
            elif job.is_slurms_own:
                self._slurm.let_go(job.name_in_slurm)
        except SlurmError as error:
            log.warning("tried again", job=job.name_in_slurm, problem=str(error))


async def _behind(looks: _Looks, act: Coroutine[Any, Any, None]) -> None:
    """Do it behind the first look, which says what users held meanwhile."""
    await looks.tried.wait()
    await act


def _rest_s(answered_in_s: float, most_of_time: float) -> float:
    """Return how long Slurm is asked nothing behind an answer that took so long."""
    return answered_in_s * (1 / most_of_time - 1)


def _beside(act: Callable[[], object]) -> _Act:
    """Return what does it beside the loop."""
    return lambda: asyncio.to_thread(act)


async def _every(period_s: float, act: _Act, word: PluginsWord = NO_WORD) -> None:
    """Do it so often, and when there is word."""
    problem = ""
    while True:
        word.heard()
        problem = await _tried(act, problem)
        await word.wait(period_s)


async def _tried(act: _Act, before: str) -> str:
    """Do it; what fails is tried at the next time, and keeps nothing else from being done. Return
    what the problem is, which is noted where it was another one `before`."""
    try:
        await act()
    except Exception as error:  # noqa: BLE001 no answer of Slurm's is a reason to end
        problem = shown_error(error)
        if problem != before:
            log.warning("tried again", problem=problem)
        return problem
    return ""


def main() -> None:
    """Run the process of the resource manager of a Slurm."""
    run_process(NAME, serve)
