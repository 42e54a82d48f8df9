"""Publishes what happens in a Slurm: the cluster, submissions, starts and ends."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import grpc
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.ingest_service_pb2 import Envelope

from cli.asking import publish
from cli.notes import note
from cli.slurm.jobs import SlurmJob, facts_of
from cli.slurm.runs import RunsSeen
from cli.slurm.start_terms import ShownJobs, release
from cli.times import clock_us
from coplace_client.calls import UnansweredError
from coplace_client.facts import fact
from coplace_client.ingest import publish_all
from shared.domain.printable import printable
from shared.process.settings import settings
from shared.slurm.facts import Site
from shared.streams.stages.unit import EventTimeLimit

# What one event can cause for a whole call: alone it is refused, and the others are taken.
_OF_ONE: Final = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)
_RESTART: Final = "which is not declared: restart this program when the cluster is idle"
_AHEAD_US: Final = EventTimeLimit.from_wall_clock().ahead_us


class SlurmPublisher:
    """Sends each fact once: after a restart it is sent again, a copy that nobody counts.

    A job whose facts fail is set aside with its reason, noted once, and holds up no other. It is
    tried again with each look at Slurm.
    """

    def __init__(
        self,
        ingest: str,
        site: Site,
        architecture: str,
        uncounted: frozenset[str] = frozenset(),
        runs: RunsSeen | None = None,
    ) -> None:
        self._ingest, self._site, self._architecture = ingest, site, architecture
        self._uncounted = uncounted
        self._runs = runs or RunsSeen()
        self._sent: set[str] = set()
        # Jobs whose submission was published: what is said of a run that is over holds one too.
        self._submitted: set[str] = set()
        # Jobs that were held since something that Slurm says of their start was not understood.
        self._kept_out: set[str] = set()
        self._declared: ClusterDeclared | None = None
        # The nodes that were noted since they are not those that are declared.
        self._unlike: tuple[str, ...] = ()
        # What was noted of which job, or of which fact that was refused.
        self._noted: dict[str, str] = {}

    def declare(self, cluster: ClusterDeclared) -> None:
        """Declare the cluster. Raises UnansweredError, for what ingest refuses too."""
        now_us = clock_us()
        publish(self._ingest, fact(self._site.name, cluster, f"{cluster.cluster}/{now_us}", now_us))
        self._declared = cluster

    def declare_changed(self, cluster: ClusterDeclared) -> None:
        """Declare the cluster again where its nodes or partitions are others by now, unless nodes
        have other places: what runs is known by these. Raises as `declare`."""
        declared, unlike = self._declared, tuple(cluster.node_names)
        if declared is not None and list(unlike) != list(declared.node_names):
            if unlike != self._unlike:
                note([f"{cluster.cluster} has other nodes or another order of them, {_RESTART}"])
            self._unlike = unlike
            return
        self._unlike = ()
        if cluster != declared:
            self.declare(cluster)

    def tell(self, jobs: Iterable[SlurmJob]) -> None:
        """Publish what is new of these jobs. Raises UnansweredError: then none of it counts as
        published."""
        shown = list(jobs)
        ended = self._runs.ended(shown)
        self._kept_out |= self._runs.kept_out
        before, self._noted = self._noted, {}
        beside = ShownJobs(shown, self._site)
        known = {
            event.id: event
            for job in [*ended, *shown]
            for event in self._facts(job, beside, before)
        }
        self._send(
            [
                event
                for name, event in known.items()
                if name not in self._sent and event.job_submitted.job_id not in self._submitted
            ],
            before,
        )
        # Slurm forgets jobs that ended, and so does this.
        self._sent = set(known)
        self._submitted = {event.job_submitted.job_id for event in known.values()} - {""}
        self._kept_out &= self._submitted
        self._runs.remember(shown)

    def _facts(
        self, job: SlurmJob, beside: ShownJobs, before: Mapping[str, str]
    ) -> Sequence[Envelope]:
        latest_us = clock_us() + _AHEAD_US
        try:
            if not job.is_placed:
                return ()
            found = facts_of(job, self._site, self._architecture, latest_us, self._uncounted)
            told = self._with_terms(job, beside, found.told)
            for event in told:
                event.SerializeToString()
        except Exception as error:  # noqa: BLE001 one job of Slurm's is no reason to end
            problem = f"is not published: {_shown(error)}"
            self._note(f"job {job.fields.get('job_id')!r:.40}", problem, before)
            return ()
        if found.repaired:
            left_out = ", ".join(sorted(found.repaired))
            self._note(f"job {job.job_id}", f"is published with less of its {left_out}", before)
        if held_because := told[0].job_submitted.held_because:
            self._note(f"job {job.job_id}:", f"held. {held_because}", before)
        return told

    def _with_terms(
        self, job: SlurmJob, beside: ShownJobs, told: Sequence[Envelope]
    ) -> Sequence[Envelope]:
        """Return the facts of a job with when it may start; it is released once what it was held
        for is met. One that asks for what Coplace can't follow stays held."""
        if not job.is_pending or job.unmapped:
            return told
        submitted = told[0].job_submitted
        beside.put_terms(job, submitted)
        if submitted.held_because:
            self._kept_out.add(submitted.job_id)
        if submitted.job_id in self._kept_out and beside.is_met(job, time.time()):
            return [*told, release(submitted, self._site)]
        return told

    def _note(self, name: str, what: str, before: Mapping[str, str]) -> None:
        """Say it once, as long as it stays so."""
        self._noted[name] = what
        if before.get(name) != what:
            note([printable(f"{name} {what}", 1_000)])

    def _send(self, events: Sequence[Envelope], before: Mapping[str, str]) -> None:
        if not events:
            return
        try:
            refused = publish_all(self._ingest, settings(), events)
        except UnansweredError as error:
            if error.code not in _OF_ONE:
                raise
            refused = self._one_by_one(events)
        for at, why in refused.items():
            self._note(f"ingest refused {events[at].id}:", why, before)

    def _one_by_one(self, events: Sequence[Envelope]) -> Mapping[int, str]:
        """Why some are refused, by their position. Raises UnansweredError where it is no fault of
        one of them."""
        refused: dict[int, str] = {}
        for at, event in enumerate(events):
            try:
                found = publish_all(self._ingest, settings(), [event])
            except UnansweredError as error:
                if error.code not in _OF_ONE:
                    raise
                found = {0: str(error)}
            refused.update((at, why) for why in found.values())
        return refused


def _shown(error: Exception) -> str:
    return str(error) if isinstance(error, ValueError) else repr(error)
