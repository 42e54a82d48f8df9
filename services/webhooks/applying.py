"""Events of one transaction: whose jobs are, and who hears what happens to them."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from coplace.v1.accounts_pb2 import AllocationDeclared
from coplace.v1.history_service_pb2 import Run
from coplace.v1.jobs_pb2 import JobFinished, JobRequeued, JobSubmitted
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.pricing_pb2 import ChargeMade
from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.sqlite import insert

from coplace_client.errors import RejectedError
from services.webhooks.budgets import UsedBudgets
from services.webhooks.facts import JobEvent, JobOwner, job_event
from services.webhooks.posting import Outbox
from services.webhooks.tables import EARLY, JOBS, known_rows
from shared.catalogue.event import Event
from shared.domain.array_tasks import TaskIndices, as_task, parse_tasks


class AppliedEvents:
    """Events of one transaction, with the rows that these concern in memory."""

    def __init__(
        self, connection: Connection, outbox: Outbox, events: Sequence[tuple[Event, int]]
    ) -> None:
        self._connection, self._outbox, self._events = connection, outbox, events
        self._written_us = max(written_us for _, written_us in events)
        payloads = [event.payload for event, _ in events]
        named = [each.job_id for each in payloads if hasattr(each, "job_id")]
        arrays = [each.array_job_id for each in payloads if isinstance(each, PlacementDecided)]
        self._job_ids = list(dict.fromkeys(each for each in (*named, *arrays) if each))
        self._jobs = {
            row.job_id: row._asdict() for row in known_rows(connection, JOBS, self._job_ids)
        }
        self._changed_jobs: set[str] = set()
        self._early = list[tuple[JobEvent, int]]()
        self._arrays: dict[str, TaskIndices] = {}

    def apply(self) -> None:
        """Apply them."""
        charges = list[ChargeMade]()
        allocations = list[tuple[AllocationDeclared, str]]()
        for event, written_us in self._events:
            match event.payload:
                case JobSubmitted() as job:
                    self._submit(job)
                case ChargeMade() as charge:
                    charges.append(charge)
                case AllocationDeclared() as allocation:
                    allocations.append((allocation, event.id))
                case payload:
                    self._happen(payload, written_us)
        self._begin_early_tasks()
        self._write_jobs()
        self._write_early()
        if charges or allocations:
            UsedBudgets(self._connection, self._outbox, self._written_us).apply(
                charges, allocations
            )

    def _submit(self, job: JobSubmitted) -> None:
        """A later submission is of an attempt; its owner is that of the first."""
        owner = JobOwner.from_submission(job)._asdict()
        known = self._jobs.setdefault(job.job_id, {"job_id": job.job_id, **owner})
        known |= {"heard_at_us": self._outbox.now_us, "has_ended": False}
        self._changed_jobs.add(job.job_id)
        if job.array:
            with suppress(RejectedError):
                self._arrays[job.job_id] = parse_tasks(job.array)

    def _begin_task(self, job_id: str, array_id: str) -> None:
        """Note whose a task of an array is: the owner of the array."""
        heard = {"heard_at_us": self._outbox.now_us, "has_ended": False}
        self._jobs[job_id] = {**self._jobs[array_id], "job_id": job_id, **heard}
        self._changed_jobs.add(job_id)

    def _begin_early_tasks(self) -> None:
        """Note whose the tasks of new arrays are of which something is kept already."""
        for array_id, tasks in self._arrays.items():
            among = EARLY.c.job_id.between(f"{array_id}_", f"{array_id}_:")
            found = self._connection.scalars(select(EARLY.c.job_id).where(among))
            for job_id in (*found, *(early.run.job_id for early, _ in self._early)):
                named = as_task(job_id)
                if named is None or named[0] != array_id or tasks.ordinal(named[1]) is None:
                    continue
                self._begin_task(job_id, array_id)
                self._job_ids.append(job_id)

    def _decide_task(self, decided: PlacementDecided, written_us: int) -> None:
        """Begin a task of an array as soon as it is decided. That it was is kept until the
        submission of the array is read."""
        if decided.job_id in self._jobs:
            return
        if decided.array_job_id in self._jobs:
            self._begin_task(decided.job_id, decided.array_job_id)
            return
        run = Run(job_id=decided.job_id, attempt=decided.attempt)
        of_nobody = JobEvent(f"task/{decided.job_id}", "", decided.decided_at_us, run)
        self._early.append((of_nobody, written_us))

    def _happen(self, payload: Any, written_us: int) -> None:
        if isinstance(payload, PlacementDecided) and payload.array_job_id:
            self._decide_task(payload, written_us)
        row = self._jobs.get(payload.job_id)
        if row is not None and isinstance(payload, JobFinished | JobRequeued):
            row |= {"heard_at_us": self._outbox.now_us}
            row |= {"has_ended": isinstance(payload, JobFinished)}
            self._changed_jobs.add(payload.job_id)
        found = job_event(payload)
        if found is not None:
            self._hear(found, written_us)

    def _hear(self, found: JobEvent, written_us: int) -> None:
        known = found.completed(self._owner(found.run.job_id))
        if known is None:
            self._early.append((found, written_us))
            return
        run = known.run
        hearers = self._outbox.hearers.of(
            known.type, user=run.user, account=run.account, written_us=written_us
        )
        self._outbox.post(hearers, known.event_id, known.type, known.at_us, run)

    def _owner(self, job_id: str) -> JobOwner | None:
        row = self._jobs.get(job_id)
        return JobOwner(*(row[name] for name in JobOwner._fields)) if row else None

    def _write_jobs(self) -> None:
        rows = [self._jobs[job_id] for job_id in self._changed_jobs]
        if rows:
            query = insert(JOBS)
            changed = {name: query.excluded[name] for name in ("heard_at_us", "has_ended")}
            query = query.on_conflict_do_update(index_elements=["job_id"], set_=changed)
            self._connection.execute(query, rows)

    def _write_early(self) -> None:
        """Keep what nobody is known to have submitted, and take up what was kept of those that are
        known now: topics are read in any order."""
        waiting, self._early = self._early, []
        for found, written_us in waiting:
            self._hear(found, written_us)
        for row in list(known_rows(self._connection, EARLY, self._job_ids)):
            if row.job_id in self._jobs:
                run = Run.FromString(row.run)
                self._hear(JobEvent(row.event_id, row.type, row.at_us, run), row.written_at_us)
                self._connection.execute(delete(EARLY).where(EARLY.c.event_id == row.event_id))
        rows = [
            {
                "event_id": found.event_id,
                "job_id": found.run.job_id,
                "type": found.type,
                "at_us": found.at_us,
                "written_at_us": written_us,
                "heard_at_us": self._outbox.now_us,
                "run": found.run.SerializeToString(),
            }
            for found, written_us in self._early
        ]
        if rows:
            self._connection.execute(insert(EARLY).on_conflict_do_nothing(), rows)
