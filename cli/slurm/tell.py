"""Publishes what happens in a Slurm: the cluster, submissions, starts and ends."""

from collections.abc import Iterable, Sequence

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.ingest_service_pb2 import Envelope

from cli.asking import publish
from cli.notes import note
from cli.slurm.jobs import SlurmJob, facts
from cli.times import clock_us
from coplace_client.errors import RejectedError
from coplace_client.facts import fact
from coplace_client.ingest import publish_all
from shared.process.settings import settings
from shared.slurm.facts import Site


class SlurmPublisher:
    """Sends each fact once: after a restart it is sent again, a copy that nobody counts."""

    def __init__(self, ingest: str, site: Site, architecture: str) -> None:
        self._ingest, self._site, self._architecture = ingest, site, architecture
        self._sent: set[str] = set()

    def declare(self, cluster: ClusterDeclared) -> None:
        """Declare the cluster. Raises UnansweredError, for what ingest refuses too."""
        now_us = clock_us()
        publish(self._ingest, fact(self._site.name, cluster, f"{cluster.cluster}/{now_us}", now_us))

    def tell(self, jobs: Iterable[SlurmJob]) -> None:
        """Publish what is new of these jobs. Raises UnansweredError: then none of it counts as
        published."""
        known = {event.id: event for job in jobs if job.is_placed for event in self._facts(job)}
        self._send([event for name, event in known.items() if name not in self._sent])
        self._sent = set(known)  # Slurm forgets jobs that ended, and so does this

    def _facts(self, job: SlurmJob) -> Sequence[Envelope]:
        try:
            return facts(job, self._site, self._architecture)
        except RejectedError as error:
            note([f"job {job.job_id} is not published: {error}"])
            return ()

    def _send(self, events: Sequence[Envelope]) -> None:
        if events:
            refused = publish_all(self._ingest, settings(), events)
            note(f"ingest refused {events[at].id}: {why}" for at, why in refused.items())
