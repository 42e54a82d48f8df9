"""What resource managers said of the order of their queues: a fold over their messages.

A priority that came with a submission is of the job. One that came later is a row of its own: a
manager that orders thousands of jobs anew writes no more of each than its priority.
"""

from typing import Final

from coplace.v1.jobs_pb2 import JobsReordered

from coplace_client.errors import RejectedError
from shared.placement.state.job_record import JobRecord
from shared.placement.state.job_table import JobTable
from shared.placement.state.stamps import is_ahead
from shared.streams.stages.stage import AlreadyAppliedError

_EACH: Final = "must be as many as job_ids"


class ManagerPriorities:
    """Folds new priorities of jobs into their table: of each job the newest counts. What a manager
    says of jobs that are not its own, or not known, is skipped."""

    def __init__(self, table: JobTable) -> None:
        self._table = table
        # Of which something was said since the last round ended; after a restart all.
        self._said_of = set(table.reordered())

    def fold(self, message: JobsReordered) -> None:
        """Give jobs the priorities of a message.

        Raises RejectedError where it has not a priority a job, AlreadyAppliedError for a copy, and
        where something newer is known of all its jobs.
        """
        if len(message.job_ids) != len(message.manager_priorities):
            problem = f"{_EACH}, {len(message.job_ids)}, got {len(message.manager_priorities)}"
            raise RejectedError("manager_priorities", problem)
        own, is_any_known, is_any_newer = frozenset(message.clusters), False, False
        for job_id, priority in zip(message.job_ids, message.manager_priorities, strict=True):
            job = self._table.get(job_id)
            if job is None or job.ended or manager_cluster(job) not in own:
                continue
            is_any_known = True
            for each in self._with_tasks(job):
                is_any_newer |= self.reorder(each, priority, message.reordered_at_us)
        if is_any_known and not is_any_newer:
            raise AlreadyAppliedError(message.manager)

    def reorder(self, job: JobRecord, priority: int, at_us: int) -> bool:
        """Give a job a priority of this time; return whether nothing newer is known."""
        if job.reordered is not None and at_us <= job.reordered.at_us:
            return False
        self._said_of.add(job.job.job_id)
        self._table.reorder(job, priority, at_us)
        return True

    def set_back(self, ended_us: int) -> None:
        """Set back what was said from a clock ahead of the end of this round."""
        for job in self._table.found(self._said_of):
            said = job.reordered
            if said is not None and is_ahead(said.at_us, ended_us):
                self._table.reorder(job, said.priority, ended_us)
        self._said_of.clear()

    def _with_tasks(self, job: JobRecord) -> list[JobRecord]:
        """Return a job, and of an array the tasks that are jobs of their own."""
        tasks = self._table.tasks_of(job.job.job_id) if job.progress is not None else []
        return [job, *tasks]


def manager_cluster(job: JobRecord) -> str:
    """Return a cluster of the resource manager that orders a job."""
    return job.job.home_cluster or job.job.reference_cluster
