"""Obeys decisions on the jobs of a Slurm."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Final

import structlog
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.placement_pb2 import VERDICT_ACTION, VERDICT_START, PlacementDecided

from coplace_client.facts import action_done, action_refused, decline_event
from services.slurm.adapters.commands import Slurm, SlurmBusyError, SlurmRefusedError
from services.slurm.adapters.giving_back import GIVEN_BACK, restored
from services.slurm.adapters.looks import SlurmLooks
from services.slurm.adapters.notes import JobNotes, boot_note, noted
from services.slurm.adapters.region import AskedRegion
from services.slurm.model.facts import id_of
from services.slurm.model.het_jobs import as_a_whole
from services.slurm.model.jobs import SlurmJob
from services.slurm.model.shapes import NodeShapes
from services.slurm.processor.orders import (
    Cancel,
    Decline,
    Done,
    Explain,
    GiveBack,
    Hold,
    Order,
    Refuse,
    Release,
    ReleaseParts,
    Requeue,
    Resume,
    Suspend,
    orders,
    orders_of_refused,
    why_too_soon,
)
from shared.domain.array_tasks import as_task
from shared.domain.hostlist import expand
from shared.domain.printable import printable
from shared.process.clock import now_us
from shared.slurm.facts import Site
from shared.slurm.grant_answer import GrantAnswer

# Placement waits for a word on these.
ANSWERED: Final = frozenset({VERDICT_START, VERDICT_ACTION})
# Slurm's number in an id, with what it says of a task or a part behind it.
_NUMBER: Final = re.compile(r"/(\d{1,12})[^/]*/\d+(?:_\d+)?$")

log = structlog.get_logger(__name__)
_COMMANDS: Final[Mapping[type[Order], Callable[[Slurm, str], None]]] = {
    Cancel: lambda slurm, job: slurm.cancel(job),
    Suspend: lambda slurm, job: slurm.suspend(job),
    Resume: lambda slurm, job: slurm.resume(job),
    Requeue: lambda slurm, job: slurm.requeue(job),
}


class Obedience:
    """Carries decisions out; what Slurm keeps of them lets each be carried out again."""

    def __init__(
        self,
        slurm: Slurm,
        region: AskedRegion,
        site: Site,
        notes: JobNotes,
        looks: SlurmLooks,
        held_at_us: Callable[[str], int] = lambda _: 0,
        shapes: Callable[[], NodeShapes] = NodeShapes,
        changed_at_us: Callable[[str], int] = lambda _: 0,
    ) -> None:
        """`held_at_us` says when it was published that the user of a job holds it, and
        `changed_at_us` that its terms are others; 0: never. `shapes` are the nodes of the
        Slurm."""
        self._changed_at_us = changed_at_us
        self._shapes = shapes
        self._slurm, self._region, self._site = slurm, region, site
        self._notes, self._looks, self._held_at_us = notes, looks, held_at_us

    def obey(self, decision: PlacementDecided) -> list[Order]:
        """Do what is decided, and say what that was; a start or an action that Slurm refuses for
        good is refused in Slurm's words. Raises SlurmError and UnansweredError: then it is to be
        done again."""
        job = self._job(decision.job_id)
        at_us, held_at_us = now_us(), self._held_at_us(decision.job_id)
        if too_soon := why_too_soon(decision, job, at_us, held_at_us):
            raise SlurmBusyError(too_soon)
        found = orders(decision, job, at_us, held_at_us, self._changed_at_us(decision.job_id))
        try:
            return self._all_carried_out(found, decision, job)
        except SlurmRefusedError as error:
            if decision.verdict not in ANSWERED or job is None:
                raise
            return self.refuse(decision, error.words)

    def refuse(self, decision: PlacementDecided, reason: str, limit: str = "") -> list[Order]:
        """Answer that a start or an action cannot be made, for a limit of Slurm or otherwise, and
        say what that took. Raises as `obey`."""
        job = self._job(decision.job_id)
        found = orders_of_refused(decision, job, reason, limit)
        return self._all_carried_out(found, decision, job)

    def _all_carried_out(
        self, found: list[Order], decision: PlacementDecided, job: SlurmJob | None
    ) -> list[Order]:
        for order in found:
            if not self._carry_out(order, decision, job):
                return self.obey(decision)  # it started meanwhile
        return found

    def _job(self, job_id: str) -> SlurmJob | None:
        """Return the job of an id, which Slurm may know no more."""
        number = _NUMBER.search(job_id)
        if number is None:
            return None
        return self._looks.find(int(number[1]), partial(self._of, job_id))

    def _of(self, job_id: str, shown: Sequence[SlurmJob]) -> SlurmJob | None:
        for job in chain(shown, as_a_whole(shown)):
            if id_of(job, self._site) == job_id:
                return job
        return _waiting_task(job_id, shown, self._site)

    def _carry_out(self, order: Order, decision: PlacementDecided, job: SlurmJob | None) -> bool:
        """Hold a job; return False where it is not held since it started before."""
        match order:
            case Done() | Decline() | Refuse():
                self._region.publish(self._answer(order, decision))
            case Hold() if job is not None:
                return self._hold(job, order, decision.job_id)
            case _ if job is not None:
                if isinstance(order, Release | ReleaseParts) and decision.boot_s:
                    self._notes.note([job], boot_note(decision))
                self._change(job, order)
        return True

    def _answer(self, order: Done | Decline | Refuse, decision: PlacementDecided) -> Envelope:
        source, at_us = self._site.name, now_us()
        if isinstance(order, Done):
            return action_done(source, decision, order.freq_ghz, at_us)
        reason = printable(order.reason)
        if isinstance(order, Refuse):
            return action_refused(source, decision, reason, at_us)
        of = (decision.job_id, decision.attempt, decision.grant)
        return decline_event(source, *of, reason, at_us, order.refused, order.limit)

    def _change(self, job: SlurmJob, order: Order) -> None:
        with self._looks.changing(job):
            self._ask_for(job, order)

    def _ask_for(self, job: SlurmJob, order: Order) -> None:
        match order:
            case Release():
                self._slurm.release(job.name_in_slurm, _about(job, order))
            case ReleaseParts():
                self._release_parts(job, order)
            case GiveBack():
                self._give_back(job)
            case Explain(reason=reason):
                self._notes.note([job], noted(reason))
            case Cancel() | Suspend() | Resume() | Requeue():
                _COMMANDS[type(order)](self._slurm, job.name_in_slurm)

    def _release_parts(self, job: SlurmJob, order: ReleaseParts) -> None:
        """What is said of the first part Slurm says of all: so the word has what their users asked
        for, and the others come behind it. With the first Slurm lets all go."""
        pairs = [*zip(job.parts, order.parts, strict=True)]
        (first, release), *others = pairs
        sizes = [part.has_sizes if each.count and part is not first else "" for part, each in pairs]
        about_it = replace(release, word=job.answered(release.word, *sizes))
        named = [name for hosts in release.nodes for name in expand(hosts)]
        beside = self._shapes().but(first, named) if named else []
        excluded = ",".join(beside) or first.excluded
        self._slurm.prepare_first(first.name_in_slurm, about_it, excluded)
        for part, each in others:
            self._slurm.prepare_part(part.name_in_slurm, each, part.excluded)
        self._slurm.let_go(job.name_in_slurm)

    def _give_back(self, job: SlurmJob) -> None:
        for part in job.parts:
            self._slurm.restore(part.name_in_slurm, restored(part.fields))
        self._slurm.leave(job.name_in_slurm, GIVEN_BACK)
        if not job.is_held_by_user:
            self._slurm.let_go(job.name_in_slurm)

    def _hold(self, job: SlurmJob, order: Hold, job_id: str) -> bool:
        """Once it is held it starts no more: what is seen then is final."""
        with self._looks.changing(job):
            self._slurm.hold(job.name_in_slurm)
        now = self._job(job_id)
        if now is not None and now.has_nodes:
            return False
        with self._looks.changing(job):
            self._take_back(now or job, order.word)
        return True

    def _take_back(self, job: SlurmJob, word: GrantAnswer) -> None:
        """Give a held job what its user asked for again, who may change it from now on. Where Slurm
        refuses that, the word keeps it."""
        changes = () if job.parts else restored(job.fields)
        try:
            for part in job.parts:
                self._slurm.restore(part.name_in_slurm, restored(part.fields))
            about_it = word._replace(submit_s=job.submit_s)
            self._slurm.leave(job.name_in_slurm, about_it, changes)
        except SlurmRefusedError as error:
            log.warning("not restored", job=job.name_in_slurm, problem=str(error))
            self._slurm.leave(job.name_in_slurm, job.answered(word))


def _about(job: SlurmJob, release: Release) -> Release:
    """Return a release whose word says what it puts something else in the place of."""
    sizes = job.has_sizes if release.count else ""
    cpus = str(job.least_cpus) if release.least_cpus else ""
    return replace(release, word=job.answered(release.word, sizes, cpus=cpus))


def _waiting_task(job_id: str, shown: Iterable[SlurmJob], site: Site) -> SlurmJob | None:
    """Return a task that waits with others of its array, which Slurm shows as one."""
    named = as_task(job_id)
    if named is None:
        return None
    array_id, index = named
    for job in shown:
        if job.is_array and job.is_pending and id_of(job, site) == array_id:
            return job.task(index) if job.has_task(index) else None
    return None
