"""Says in which order Slurm would take the jobs that wait."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Final

import structlog
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobSubmitted

from coplace_client.facts import reordered
from services.slurm.adapters.order_terms import OrderTerms
from services.slurm.adapters.region import AskedRegion
from services.slurm.adapters.sending import send
from services.slurm.model.jobs import SlurmJob
from services.slurm.model.order import manager_priority, to_say
from services.slurm.model.priority import QueueTerms
from shared.process.clock import now_us
from shared.slurm.answers import text

# The numbers that are said are those of a time that lies ahead: by a part of the time in which a
# job becomes as old as counts, so that they are near those of `sprio`.
_AHEAD_OF_MAX_AGE: Final = 0.01
_LEAST_AHEAD_S: Final = 600.0

log = structlog.get_logger(__name__)


class SlurmOrder:
    """Gives submissions their numbers, and says later which have others, of those alone whose place
    changed. After a restart it says all: what was said before is not known.

    One thread reads Slurm's jobs and calls `put` and `published`; another one calls `look`.
    """

    def __init__(
        self,
        region: AskedRegion,
        terms: OrderTerms,
        of: tuple[str, str, Sequence[str]],
        every_s: float,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        """`of` are the source, the name of the resource manager and its clusters. The terms are
        read every `every_s` at most, while jobs wait."""
        self._region, self._reader, self._of = region, terms, of
        self._every_s, self._clock_s = every_s, clock_s
        self._terms: QueueTerms | None = None
        self._read_s, self._until_s = float("-inf"), float("-inf")
        self._noted: Mapping[str, str] = {}
        self._lock = Lock()
        self._waiting: Mapping[str, SlurmJob] = {}
        self._shown: dict[str, SlurmJob] = {}
        self._said: dict[str, int] = {}
        self._has_told = False
        # Jobs that were seen before they might start, and since when they may.
        self._kept: set[str] = set()
        self._since_s: dict[str, float] = {}

    def put(self, job: SlurmJob, submitted: JobSubmitted) -> None:
        """Give a submission its number, as far as that is known."""
        if not job.is_pending:
            return
        job_id, now_s = submitted.job_id, self._clock_s()
        self._shown[job_id] = job
        if job.is_held_by_user or text(job.fields.get("dependency")):
            self._kept.add(job_id)
        elif job_id in self._kept:
            self._kept.discard(job_id)
            self._since_s[job_id] = now_s
        if self._terms is not None and job_id not in self._waiting:
            submitted.manager_priority = self._number(job_id, job, self._terms, now_s)

    def published(self, events: Iterable[Envelope]) -> None:
        """Note that a look at all jobs was published, of which these are new."""
        new = [event.job_submitted for event in events if event.HasField("job_submitted")]
        with self._lock:
            self._waiting, self._shown = self._shown, {}
            if self._has_told:  # else they may be copies
                numbers = {each.job_id: each.manager_priority for each in new}
                self._said.update((name, number) for name, number in numbers.items() if number)
            self._has_told = True
            self._said = {name: said for name, said in self._said.items() if name in self._waiting}
            self._kept &= self._waiting.keys()
            self._since_s = {
                name: at_s for name, at_s in self._since_s.items() if name in self._waiting
            }

    def look(self) -> None:
        """Say which jobs have other places than were said. Raises SlurmError and
        UnansweredError."""
        now_s = self._clock_s()
        is_due = not self._read_s <= now_s < self._read_s + self._every_s
        terms = self._terms
        if terms is None or (is_due and self._waiting):
            self._read_s = now_s
            terms = self._reader.read()
            self._note(self._reader.problems)
        with self._lock:
            self._look_ahead(terms, now_s)
            self._terms = terms
            waiting, said = self._waiting, dict(self._said)
        numbers = {name: self._number(name, job, terms, now_s) for name, job in waiting.items()}
        of_slurm = {name: job.array_number or job.job_id for name, job in waiting.items()}
        saying = to_say(said, numbers, of_slurm)
        if not saying:
            return
        named = {name: numbers[name] for name in saying}
        source, manager, clusters = self._of
        refused = send(self._region, list(reordered(source, manager, clusters, named, now_us())))
        for why in refused.values():
            log.warning("order refused", problem=why)
        with self._lock:
            self._said.update(named)

    def _look_ahead(self, terms: QueueTerms, now_s: float) -> None:
        """Move the time ahead for which numbers are said, once it has come; or the clock went
        back."""
        ahead_s = max(terms.rules.max_age_s * _AHEAD_OF_MAX_AGE, _LEAST_AHEAD_S)
        if not 0 <= self._until_s - now_s <= ahead_s:
            self._until_s = now_s + ahead_s
            self._said.clear()

    def _number(self, job_id: str, job: SlurmJob, terms: QueueTerms, now_s: float) -> int:
        since_s = self._since_s.get(job_id)
        found = manager_priority(job, terms, now_s, self._until_s - now_s, since_s)
        return max(found, self._said.get(job_id, 0)) if terms.rules.only_grows else found

    def _note(self, problems: Mapping[str, str]) -> None:
        """Say once what is not known of the order, as long as it stays so."""
        for what, problem in problems.items():
            if self._noted.get(what) != problem:
                log.warning("not in the order", factor=what, problem=problem)
        self._noted = problems
