"""Obeys decisions on the jobs of a Slurm."""

from coplace.v1.placement_pb2 import PlacementDecided

from cli.asking import publish
from cli.slurm.jobs import SlurmJob
from cli.slurm.orders import Cancel, Decline, Hold, Order, Refuse, Release, orders
from cli.slurm.slurm import Slurm
from cli.times import clock_us
from coplace_client.errors import RejectedError
from coplace_client.facts import action_refused, decline_event
from shared.slurm.facts import Site, submission


class Obedience:
    """Carries decisions out; what Slurm keeps of them lets each be carried out again."""

    def __init__(self, slurm: Slurm, ingest: str, site: Site) -> None:
        self._slurm, self._ingest, self._site = slurm, ingest, site

    def obey(self, decision: PlacementDecided) -> list[Order]:
        """Do what is decided, and say what that was. Raises SlurmError and UnansweredError: then it
        is to be done again."""
        job = self._job(decision.job_id)
        found = orders(decision, job, clock_us())
        for order in found:
            if not self._carry_out(order, decision, job):
                return self.obey(decision)  # it started meanwhile
        return found

    def _job(self, job_id: str) -> SlurmJob | None:
        """The job of an id, which Slurm may know no more."""
        for job in self._slurm.jobs():
            if _id_of(job, self._site) == job_id:
                return job
        return None

    def _carry_out(self, order: Order, decision: PlacementDecided, job: SlurmJob | None) -> bool:
        """Hold a job; return False where it is not held since it started before."""
        now_us = clock_us()
        source, grant = self._site.name, decision.grant
        match order:
            case Release() if job is not None:
                self._slurm.release(job.job_id, order)
            case Hold() if job is not None:
                return self._hold(job, order, decision.job_id)
            case Cancel() if job is not None:
                self._slurm.cancel(job.job_id)
            case Decline(reason):
                told = decline_event(
                    source, decision.job_id, decision.attempt, grant, reason, now_us
                )
                publish(self._ingest, told)
            case Refuse(reason):
                publish(self._ingest, action_refused(source, decision, reason, now_us))
        return True

    def _hold(self, job: SlurmJob, order: Hold, job_id: str) -> bool:
        """Once it is held it starts no more: what is seen then is final."""
        self._slurm.hold(job.job_id)
        now = self._job(job_id)
        if now is not None and now.has_nodes:
            return False
        self._slurm.leave(job.job_id, order.word)
        return True


def _id_of(job: SlurmJob, site: Site) -> str:
    """Empty for one that cannot be published."""
    try:
        return submission(job.message(), site).job_submitted.job_id
    except RejectedError:
        return ""
