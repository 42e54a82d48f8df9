"""Charges each finished attempt of a job when its shutters are in, and keeps what accounts have
left. No clock, no I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from coplace.v1.accounts_pb2 import AccountStanding, AllocationDeclared, PeriodClosed
from coplace.v1.control_pb2 import (
    ClusterDeclared,
)
from coplace.v1.jobs_pb2 import (
    JobFinished,
    JobRequeued,
    JobSeized,
    JobStarted,
    JobSubmitted,
)
from coplace.v1.prediction_pb2 import RunPowerPredicted
from coplace.v1.pricing_pb2 import RepriceAsked
from coplace.v1.tariffs_pb2 import TariffDeclared
from coplace.v1.telemetry_pb2 import ShuttersMeasured

from coplace_client.checks import require_count, require_text
from coplace_client.errors import RejectedError
from services.pricing.account_book import AccountBook
from services.pricing.explanation import co_run_of
from services.pricing.reservation import NodeCores, reserved_micro_su
from services.pricing.runs import (
    KeptRequeue,
    KeptRun,
    attempt_ended,
    has_nodes_alone,
    requeue_of,
    run_of_finish,
    run_of_start,
)
from services.pricing.state import Agenda, Attempt, AttemptKey, Attempts, CoRunInterval
from shared.arrays.known_arrays import KnownArrays
from shared.catalogue.event import Event, Publish
from shared.catalogue.payloads.domain_types import suspensions
from shared.catalogue.schemas import names_of
from shared.domain.job import JobFact, JobState, next_state
from shared.domain.tariff import PriceTariff
from shared.pricing.charge import (
    AttemptEnd,
    ChargeRevision,
    audit,
    charge_message,
    end_of,
    evidence_of,
    usage_of,
)
from shared.pricing.model import Evidence, evidence
from shared.pricing.tariff_book import TariffBook
from shared.streams.stages.quarantine import Fault
from shared.streams.stages.stage import (
    AlreadyAppliedError,
    EarlyError,
    OvertakenError,
    Round,
)
from shared.streams.state.state import State

CONSUMES: Final = names_of(
    JobSubmitted,
    JobStarted,
    JobFinished,
    JobRequeued,
    JobSeized,
    ShuttersMeasured,
    RunPowerPredicted,
    ClusterDeclared,
    TariffDeclared,
    AllocationDeclared,
    PeriodClosed,
    RepriceAsked,
)
CHARGES: Final = "prices.charges"
STANDINGS: Final = "accounts.standings"
SOURCE: Final = "pricing"
# What may be the first that is said of a task of an array.
_OF_RUNS: Final = (JobStarted, JobFinished, JobRequeued, JobSeized, RunPowerPredicted)
# How long a charge waits that failed and was left out.
PUT_OFF_US: Final = 24 * 3_600_000_000
# Who said that an attempt was requeued before anybody said where it ran: the last ones.
_MOST_REQUEUES: Final = 4


@dataclass(frozen=True, slots=True)
class PriceRule:
    """What is charged where no tariff holds, and when. `grace_us` 0 charges in the round that
    brings the finish."""

    rate_su_per_core_s: Decimal
    grace_us: int
    remember_us: int


class PricingProcessor:
    """Folds the facts and shutters of jobs into charges by the tariffs in force, and the charges
    and reservations of accounts into their states."""

    def __init__(self, rule: PriceRule, restored: Mapping[str, bytes]) -> None:
        self._rule = rule
        self._state = State(restored)
        self._arrays = KnownArrays(self._state)
        self._attempts = Attempts(self._state)
        self._tariffs = TariffBook(self._state)
        self._accounts = AccountBook(self._state)
        self._cores = NodeCores(self._state)
        self._state.require_all_read()
        # Since this process has the unit: charges with other energy than was reported, or none.
        self.absurd_energies = 0
        self._open: set[AttemptKey] = set()
        self._to_charge = Agenda()
        self._to_forget = Agenda()
        for attempt in self._attempts:
            self._accounts.reserve(attempt.account, attempt.reserved_micro_su)
            self._schedule(attempt)

    def handle(self, event: Event) -> Iterable[Publish]:
        """Apply one fact. Raises RejectedError for bad input, AlreadyAppliedError for a copy."""
        if isinstance(event.payload, _OF_RUNS):
            self._begin_task(event.payload.job_id)
        match event.payload:
            case JobSubmitted() as fact:
                self._submit(fact)
            case JobStarted() as fact:
                self._start(fact)
            case JobFinished() as fact:
                self._finish(fact, event.traceparent)
            case JobRequeued() | JobSeized() as fact:
                self._follow(fact.job_id, attempt_ended(fact), requeue_of(fact))
            case RepriceAsked() as asked:
                return [self._reprice(asked)]
            case _:
                self._learn(event)
        return ()

    def _learn(self, event: Event) -> None:
        match event.payload:
            case ShuttersMeasured() as measured:
                self._measure(measured, event.id)
            case RunPowerPredicted() as predicted:
                self._predict(predicted)
            case TariffDeclared() as tariff:
                self._tariffs.declare(tariff)
            case AllocationDeclared() as allocation:
                self._accounts.allocate(allocation, event.id)
            case PeriodClosed() as closed:
                self._tariffs.close(closed)
            case ClusterDeclared() as cluster:
                self._cores.declare(cluster, event.time_us)
            case other:
                raise RejectedError("ce_type", f"{other.DESCRIPTOR.full_name} has no price")

    def end_round(self, ended: Round) -> Iterable[Publish]:
        """Charge what is due, in the order of job ids, forget what nobody asks for, and publish
        which accounts have another state now."""
        for key in sorted(self._open):
            self._settle(self._attempts.get(key), ended)
        self._open.clear()
        due = {
            key
            for due_us, key in self._to_charge.take(ended.ended_at_us)
            if self._attempts.get(key).charge_due_us == due_us
        }
        charges = [self._charge(self._attempts.get(key), ended) for key in sorted(due)]
        for _, (job_id, _) in self._to_forget.take(ended.ended_at_us):
            self._forget(job_id, ended.ended_at_us)
        self._tariffs.set_back(ended.ended_at_us)
        standings = self._accounts.changed(ended.ended_at_us)
        return [*charges, *map(_told, standings)]

    def suspects(self) -> Sequence[str]:
        """Return the attempts that wait to be charged."""
        waiting = sorted(each.key for each in self._attempts if each.charge_due_us)
        return [_subject(key) for key in waiting]

    def hold_back(self, subject: str, _fault: Fault, ended: Round) -> None:
        """Put off a charge that fails: a version that can make it will, whatever else comes."""
        job_id, _, number = subject.rpartition("/")
        attempt = self._attempts.get((job_id, int(number)))
        if attempt.charge_due_us:
            attempt.charge_due_us = ended.ended_at_us + PUT_OFF_US
            self._save(attempt)

    def changes(self) -> Mapping[str, bytes | None]:
        """State that changed since the last call."""
        return self._state.changes()

    def _begin_task(self, job_id: str) -> None:
        """Begin the first attempt of a task of an array, whose submission is that of the array."""
        array_id = self._arrays.array_of(job_id)
        if array_id is None or self._attempts.submission_of(job_id) is not None:
            return
        submitted = self._attempts.submission_of(array_id)
        if submitted is not None and self._attempts.get(_key(job_id, 1)).state is JobState.UNKNOWN:
            own = JobSubmitted(job_id=job_id, attempt=1)
            own.MergeFrom(submitted)
            self._submit(own)

    def _end_array(self, job_id: str) -> None:
        """Forget an array with the last of its tasks: they are charged, it is not."""
        array_id = self._arrays.end(job_id)
        if array_id is not None and array_id != job_id:
            for attempt in self._attempts.of_job(array_id):
                self._attempts.forget(attempt)

    def _submit(self, submitted: JobSubmitted) -> None:
        self._arrays.submit(submitted)
        key = _key(submitted.job_id, submitted.attempt)
        if _is_changed(submitted, self._attempts.get(key)):
            self._attempts.get(key).submitted = _needed_of(submitted)
            self._save(self._attempts.get(key))
            return
        attempt = self._advance(key, JobFact.SUBMITTED)
        attempt.submitted = _needed_of(submitted)
        self._save(attempt)
        for each in self._attempts.of_job(submitted.job_id):
            if each.ran is not None:
                self._set_run(each, each.ran)
        for beside in self._attempts.name_account(submitted.job_id):
            if beside.is_charged and _surcharges(self._terms_of(beside)):
                self._reopen(beside)

    def _advance(self, key: AttemptKey, fact: JobFact) -> Attempt:
        attempt = self._attempts.get(key)
        state = next_state(attempt.state, fact)
        if state is attempt.state:
            raise AlreadyAppliedError
        attempt.state = state
        attempt.forget_due_us = 0
        self._save(attempt)
        return attempt

    def _start(self, started: JobStarted) -> None:
        """Note where it runs, and reserve of an account that has an allocation what the run costs
        at most."""
        attempt = self._attempts.get(_key(started.job_id, started.attempt))
        self._ran(attempt, run_of_start(started))
        submitted = attempt.submitted
        if submitted is None or attempt.state is not JobState.SUBMITTED or attempt.is_settled:
            return
        if attempt.reserved_micro_su or not self._accounts.has_allocation(submitted.account):
            return
        terms = self._terms(attempt, started.started_at_us)
        self._reserve(attempt, reserved_micro_su(submitted, started, self._cores, terms))
        self._save(attempt)

    def _reserve(self, attempt: Attempt, micro_su: int) -> None:
        self._accounts.reserve(attempt.account, micro_su - attempt.reserved_micro_su)
        attempt.reserved_micro_su = micro_su

    def _terms(self, attempt: Attempt, time_us: int) -> Decimal | PriceTariff:
        """By what it is charged: as it was charged before or asked since, else what is in force
        when it starts."""
        rate = self._rule.rate_su_per_core_s
        if attempt.revision and not attempt.tariff:
            return rate
        named = self._tariffs.named(attempt.tariff, attempt.tariff_version)
        return named or self._tariffs.at(time_us) or rate

    def _terms_of(self, attempt: Attempt) -> Decimal | PriceTariff:
        """Of one that has finished."""
        return self._terms(attempt, _began_us(attempt.finished) if attempt.finished else 0)

    def _finish(self, finished: JobFinished, traceparent: str) -> None:
        """A finish carries all that a price needs but that somebody submitted the job; whether its
        attempt was announced does not matter."""
        for field in ("user", "account", "cluster"):
            require_text(field, getattr(finished, field))
        usage_of(finished)
        key = _key(finished.job_id, finished.attempt)
        self._require_submitted(finished.job_id)
        known = self._attempts.get(key)
        run = run_of_finish(finished, known.ran)
        is_better = run.counts_before(known.ran) or _knows_of_pause(finished, known.finished)
        if known.state is JobState.FINISHED and is_better:
            attempt = known
        else:
            self._require_holder(known, run)
            if known.state is JobState.UNKNOWN:
                self._advance(key, JobFact.SUBMITTED)
            attempt = self._advance(key, JobFact.FINISHED)
        attempt.finished = finished
        attempt.traceparent = traceparent
        self._set_run(attempt, run)
        self._reopen(attempt)
        self._end_array(finished.job_id)

    def _require_holder(self, attempt: Attempt, run: KeptRun) -> None:
        """Raise RejectedError for the end of a run by whom it is not held."""
        held = attempt.ran
        if held and held.started_at_us and held.cluster != run.cluster and run.grant <= held.grant:
            problem = f"{run.cluster[:80]!r} does not hold the run, {held.cluster!r} does"
            raise RejectedError("cluster", problem)

    def _ran(self, attempt: Attempt, run: KeptRun) -> None:
        """Note where an attempt runs; what is known of it already stays."""
        is_first = attempt.ran is None or run.grant > attempt.ran.grant
        if attempt.state is not JobState.FINISHED and is_first:
            self._set_run(attempt, run)
            if attempt.state is JobState.UNKNOWN:
                self._reopen(attempt)
        elif attempt.ran is not None and attempt.ran.cluster == run.cluster:
            named = attempt.ran._replace(nodes=attempt.ran.nodes or run.nodes)
            if named != attempt.ran:
                self._set_run(attempt, named)

    def _set_run(self, attempt: Attempt, run: KeptRun) -> bool:
        """Note where an attempt ran, and return whether that changes what is believed of its end:
        those that somebody says were beside it may be charged otherwise."""
        beside = [each for each in self._attempts.beside(attempt.job_id) if each.is_charged]
        before = [self._attempts.together(each) for each in (attempt, *beside)]
        submitted = self._attempts.submission_of(attempt.job_id)
        is_alone = has_nodes_alone(submitted, run.grant, self._cores.of(run.cluster))
        was_charged, attempt.ran = attempt.is_charged, run._replace(is_alone=is_alone)
        self._attempts.save(attempt)
        is_news = attempt.believe()
        for each, found in zip((attempt, *beside), before, strict=True):
            if each.is_charged and self._attempts.together(each) != found:
                self._reopen(each)
        if was_charged and is_news and self._is_free(attempt):
            self._reopen(attempt)
        self._save(attempt)
        return is_news

    def _follow(self, job_id: str, ended: int, requeue: KeptRequeue) -> None:
        """An attempt follows the one that ended, which may never say how."""
        key = _key(job_id, ended + 1)
        self._require_submitted(job_id)
        before = self._attempts.get((job_id, ended))
        is_left = before.state is JobState.SUBMITTED and not before.is_settled
        is_news = self._ended_otherwise(before, requeue)
        if self._attempts.get(key).state is JobState.UNKNOWN:
            self._announce(key)
        elif not (is_left or is_news):
            raise AlreadyAppliedError
        if is_left or is_news:
            self._reserve(before, 0)
            self._reopen(before)

    def _announce(self, key: AttemptKey) -> None:
        """Restore what was submitted as it was."""
        attempt = self._advance(key, JobFact.SUBMITTED)
        for earlier in self._attempts.of_job(key[0]):
            attempt.submitted = earlier.submitted or attempt.submitted
        self._save(attempt)

    def _ended_otherwise(self, before: Attempt, requeue: KeptRequeue) -> bool:
        """Note that an attempt was requeued, or that its nodes failed, as its holder or an operator
        says; return whether what it was charged changes by that."""
        others = (each for each in before.requeues if each != requeue)
        before.requeues = (*others, requeue)[-_MOST_REQUEUES:]
        is_news = before.ran is not None and self._set_run(before, before.ran)
        if before.attempt:
            self._save(before)
            if before.state is JobState.UNKNOWN:
                self._reopen(before)
        return is_news and before.state is JobState.FINISHED and self._is_free(before)

    def _is_free(self, attempt: Attempt) -> bool:
        """Return whether the operator pays for an attempt that ended so."""
        terms = self._terms(attempt, attempt.finished.started_at_us if attempt.finished else 0)
        return isinstance(terms, PriceTariff) and (
            (attempt.requeued and terms.operator_pays_requeues)
            or (attempt.node_failed and terms.operator_pays_failures)
        )

    def _require_submitted(self, job_id: str) -> None:
        if not self._attempts.knows(job_id):
            raise EarlyError("job_id", f"{job_id[:80]!r} was never submitted: submit it first")

    def _measure(self, measured: ShuttersMeasured, event_id: str) -> None:
        attempt = self._attempts.get(_key(measured.job_id, measured.attempt))
        if event_id in attempt.intervals:
            raise AlreadyAppliedError
        before = self._attempts.together(attempt)
        self._attempts.add_interval(attempt, _interval(measured, event_id))
        is_believed = self._attempts.together(attempt) != before
        if attempt.state is JobState.UNKNOWN or (
            attempt.state is JobState.FINISHED and is_believed
        ):
            self._reopen(attempt)

    def _predict(self, predicted: RunPowerPredicted) -> None:
        """Note what was predicted of a run whose energy is not believed: it is charged so."""
        self._require_submitted(predicted.job_id)
        attempt = self._attempts.get(_key(predicted.job_id, predicted.attempt))
        if not self._attempts.predict(attempt, predicted.node_power_w):
            raise AlreadyAppliedError
        if attempt.state is not JobState.SUBMITTED:
            self._reopen(attempt)

    def _reopen(self, attempt: Attempt) -> None:
        attempt.is_open = True
        self._save(attempt)

    def _save(self, attempt: Attempt) -> None:
        self._attempts.save(attempt)
        self._schedule(attempt)

    def _schedule(self, attempt: Attempt) -> None:
        if attempt.is_open:
            self._open.add(attempt.key)
        else:
            self._open.discard(attempt.key)
        self._to_charge.add(attempt.charge_due_us, attempt.key)
        self._to_forget.add(attempt.forget_due_us, attempt.key)

    def _settle(self, attempt: Attempt, ended: Round) -> None:
        """A finished attempt is charged after the grace, which nothing that comes meanwhile makes
        longer; one that may never finish is forgotten."""
        attempt.is_open = False
        if attempt.state is JobState.FINISHED:
            due_us = ended.ended_at_us + self._rule.grace_us
            attempt.charge_due_us = min(attempt.charge_due_us or due_us, due_us)
        else:
            attempt.forget_due_us = ended.ended_at_us + self._rule.remember_us
        self._save(attempt)

    def _forget(self, job_id: str, now_us: int) -> None:
        """Of a job everything is forgotten at once: a copy of the end of an early attempt is known
        for as long as a later one may end."""
        attempts = self._attempts.of_job(job_id)
        if all(0 < attempt.forget_due_us <= now_us for attempt in attempts):
            self._arrays.forget(job_id)
            for attempt in attempts:
                self._attempts.forget(attempt)

    def _charge(self, attempt: Attempt, ended: Round) -> Publish:
        attempt.charge_due_us = 0
        attempt.forget_due_us = ended.ended_at_us + self._rule.remember_us
        assert attempt.finished is not None
        end = AttemptEnd(attempt.finished, attempt.node_failed, attempt.requeued)
        with_accounts = _surcharges(self._terms_of(attempt))
        found = self._attempts.together(attempt)
        rows = evidence(attempt.co_runs(found, with_accounts=with_accounts), end.usage)
        return self._made(attempt, end, rows, ended.ended_at_us)

    def _made(
        self, attempt: Attempt, end: AttemptEnd, rows: Iterable[Evidence], now_us: int
    ) -> Publish:
        """The next revision of an attempt's charge, which settles what was reserved for it."""
        terms = self._terms(attempt, _began_us(end.finished))
        most_w = self._cores.most_node_w(end.finished.cluster)
        predicted_j = end.predicted_j or self._attempts.predicted_j(end, most_w)
        end = replace(end, most_node_w=most_w, predicted_j=predicted_j)
        made = ChargeRevision(attempt.revision + 1, now_us, self._tariffs.closed_until_us)
        charge = charge_message(end, made, terms, tuple(rows))
        self.absurd_energies += bool(charge.energy_reason)
        self._reserve(attempt, 0)
        self._post(attempt, -1)
        attempt.hold_to(charge)
        self._post(attempt, 1)
        attempt.revision = charge.revision
        self._save(attempt)
        subject = f"{attempt.job_id}/{attempt.attempt}/{attempt.revision}"
        event_id = f"{SOURCE}/{charge.DESCRIPTOR.full_name}/{subject}"
        event = Event(event_id, SOURCE, now_us, attempt.job_id, charge, attempt.traceparent)
        return Publish(CHARGES, event)

    def _post(self, attempt: Attempt, sign: int) -> None:
        """The charge in force, on all its accounts; reversed where the sign is negative."""
        for each in attempt.charged:
            self._accounts.charge(each.account, sign * each.micro_su)

    def _reprice(self, asked: RepriceAsked) -> Publish:
        """Charge again by another tariff what was charged, whether it is remembered or not: the
        next revision reverses the last. Raises AlreadyAppliedError where that is done."""
        told = asked.charge
        audit(told)
        if self._tariffs.named(asked.tariff, asked.tariff_version) is None:
            problem = f"{asked.tariff[:80]!r}, version {asked.tariff_version}, was not declared"
            raise RejectedError("tariff", problem)
        attempt = self._attempts.get(_key(told.job_id, told.attempt))
        if attempt.revision > told.revision:
            if (attempt.tariff, attempt.tariff_version) == (asked.tariff, asked.tariff_version):
                raise AlreadyAppliedError
            newest = f"revision {told.revision} of the charge is not the newest"
            raise OvertakenError(f"{newest}, that is {attempt.revision}: ask again with it")
        is_news = attempt.revision < told.revision
        if is_news:
            attempt.revision = told.revision
            attempt.hold_to(told)
        if is_news or attempt.finished is None:  # a state may know its revision alone
            attempt.finished = end_of(told).finished
            attempt.node_failed, attempt.requeued = told.node_failed, told.requeued
        attempt.ran = attempt.ran or run_of_finish(attempt.finished, None)
        if attempt.state is JobState.UNKNOWN:
            attempt.state, attempt.is_open = JobState.FINISHED, False
            attempt.forget_due_us = asked.asked_at_us + self._rule.remember_us
        attempt.tariff, attempt.tariff_version = asked.tariff, asked.tariff_version
        rows = evidence_of(told)
        if _surcharges(self._terms(attempt, 0)):
            known = attempt.accounts()
            rows = [replace(row, co_runner_account=_account(row, known)) for row in rows]
        return self._made(attempt, end_of(told), rows, asked.asked_at_us)


def _began_us(finished: JobFinished) -> int:
    """When it started, or ended where it never did."""
    return finished.started_at_us or finished.ended_at_us


def _knows_of_pause(finished: JobFinished, known: JobFinished | None) -> bool:
    """Return whether a finish says of the same run that it was suspended, which the known one does
    not: resource managers have ways that don't report it."""
    return (
        known is not None
        and bool(suspensions(finished))
        and not suspensions(known)
        and known.cluster == finished.cluster
        and (known.started_at_us, known.ended_at_us)
        == (finished.started_at_us, finished.ended_at_us)
    )


def _needed_of(submitted: JobSubmitted) -> JobSubmitted:
    """What a reservation is worked out of, and who else may be on its nodes."""
    return JobSubmitted(
        account=submitted.account,
        nodes=submitted.nodes,
        walltime_s=submitted.walltime_s,
        memory_gib=submitted.memory_gib,
        cores_per_unit=submitted.cores_per_unit,
        millicores_per_unit=submitted.millicores_per_unit,
        memory_gib_per_unit=submitted.memory_gib_per_unit,
        resources_per_unit=submitted.resources_per_unit,
        shareable=submitted.shareable,
        parts=submitted.parts,
        changed_at_us=submitted.changed_at_us,
    )


def _is_changed(submitted: JobSubmitted, attempt: Attempt) -> bool:
    """Return whether an attempt that waits is to be something else than was submitted."""
    before = attempt.submitted
    is_newer = before is not None and submitted.changed_at_us > before.changed_at_us
    return is_newer and attempt.state is JobState.SUBMITTED


def _account(row: Evidence, known: Mapping[str, str]) -> str:
    return row.co_runner_account or known.get(row.co_runner_job_id, "")


def _surcharges(terms: Decimal | PriceTariff) -> bool:
    return isinstance(terms, PriceTariff) and terms.surcharge is not None


def _told(standing: AccountStanding) -> Publish:
    event_id = f"{SOURCE}/{standing.DESCRIPTOR.full_name}/{standing.account}/{standing.number}"
    event = Event(event_id, SOURCE, standing.changed_at_us, standing.account, standing)
    return Publish(STANDINGS, event)


def _subject(key: AttemptKey) -> str:
    job_id, attempt = key
    return f"{job_id}/{attempt}"


def _key(job_id: str, attempt: int) -> AttemptKey:
    require_text("job_id", job_id)
    require_count("attempt", attempt)
    return job_id, attempt


def _interval(measured: ShuttersMeasured, event_id: str) -> CoRunInterval:
    """The measurement reduced to what a price needs. Raises RejectedError."""
    found = co_run_of(measured)
    return CoRunInterval(
        job_id=measured.job_id,
        attempt=measured.attempt,
        event_id=event_id,
        co_runner_job_id=found.co_runner_job_id,
        began_at_us=found.began_at_us,
        ended_at_us=found.ended_at_us,
        slowdown_ratio=found.interference.slowdown_ratio,
        shutters_used=found.interference.shutters_used,
        shutters_dropped=found.interference.shutters_dropped,
        co_runners=measured.co_runners or 1,
    )
