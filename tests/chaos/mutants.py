"""Planted bugs: each replaces right code by a realistic mistake, which the auditor must find. To
add one, write a context manager and list it in MUTANTS."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from decimal import Decimal
from itertools import count
from typing import Any, Final
from unittest.mock import patch
from zlib import crc32

from coplace.v1.placement_pb2 import VERDICT_QUEUED, PlacementDecided

from coplace_client.clock import GuardedClock
from services.energy.processor.learner import Learner
from services.placement.sequencer import Sequencer
from services.pricing.accounts.adapters import RedisAccounts
from services.pricing.processor import PricingProcessor
from services.pricing.state import Attempts
from shared.domain.job import TRANSITIONS, JobFact, JobState
from shared.domain.tariff import FAIR, PriceTariff, RateFunction, Surcharge
from shared.placement.budgets import cap_budgets
from shared.placement.budgets.cap_budgets import CapBudgets
from shared.placement.budgets.meters import Meters
from shared.placement.decide.choices import Choice
from shared.placement.decide.pending_reasons import PendingReasons
from shared.placement.decide.published_decisions import PublishedDecisions
from shared.placement.decide.withdrawals import Withdrawals
from shared.placement.evaluate.layer import EvaluateLayer
from shared.placement.explain.layer import ExplainLayer
from shared.placement.explain.notices import Notices
from shared.placement.explain.pass_decisions import PassDecisions
from shared.placement.measures.layer import MeasureLayer
from shared.placement.processor.layers import Layers
from shared.placement.state.job_facts import JobFacts
from shared.placement.state.job_record import PlacedRun
from shared.placement.state.job_table import JobTable
from shared.placement.state.model_store import ModelStore
from shared.placement.state.model_updates import ModelUpdates
from shared.placement.state.occupancy import Occupancy
from shared.pricing import charge, surcharging
from shared.pricing.model import Evidence as PricedEvidence
from shared.streams.in_memory import embedded
from shared.streams.in_memory import log as memory
from shared.streams.in_memory.log import InMemoryLog
from shared.streams.in_memory.transactions import MemoryTransactions
from shared.streams.stages import early, unit
from shared.streams.stages.early import EarlyFacts
from shared.streams.stages.failures import Beginnings
from shared.streams.stages.guarded_unit import GuardedUnit
from shared.streams.stages.quarantine import Blame, identify
from shared.streams.stages.unit import Unit

Mutant = Callable[[], AbstractContextManager[Any]]


def _sometimes(every: int) -> Callable[[], bool]:
    """True at each `every`th call."""
    calls = count(1)
    return lambda: next(calls) % every == 0


@contextmanager
def unwritten(tables: Collection[str], is_due: Callable[[], bool]) -> Iterator[None]:
    """What changed in tables of placement is not written, whenever it is due."""
    right = Layers.changes

    def changes(layers: Layers) -> dict[str, bytes | None]:
        found, lost = right(layers), tables if is_due() else ()
        return {key: value for key, value in found.items() if key.split("|")[0] not in lost}

    with patch.object(Layers, "changes", changes):
        yield


@contextmanager
def state_is_lost_beside_its_position() -> Iterator[None]:
    """One commit in twenty writes no changelog: positions move without the state."""
    right, is_due = InMemoryLog.send, _sometimes(20)

    def send(log: InMemoryLog, producer: Any, records: Iterable[Any]) -> None:
        kept = list(records)
        if kept and kept[0].partition.topic.startswith("changelog.") and is_due():
            kept = []
        right(log, producer, kept)

    with patch.object(InMemoryLog, "send", send):
        yield


@contextmanager
def position_is_lost_beside_its_state() -> Iterator[None]:
    """One commit in twenty moves no position: what was done is read again."""
    right, is_due = InMemoryLog.send_positions, _sometimes(20)

    def send(log: InMemoryLog, producer: Any, group: str, moved: Any, commits: Any = None) -> None:
        right(log, producer, group, {} if is_due() else moved, commits)

    with patch.object(InMemoryLog, "send_positions", send):
        yield


@contextmanager
def nobody_is_fenced() -> Iterator[None]:
    """A zombie goes on with its transaction beside the owner that took over."""

    def opened(log: InMemoryLog, producer: Any) -> Any:
        return log._transactions.setdefault(producer.transactional_id, memory._Transaction())

    with ExitStack() as stack:
        stack.enter_context(
            patch.object(InMemoryLog, "_require_owner", lambda _log, _producer: None)
        )
        stack.enter_context(patch.object(InMemoryLog, "_open_transaction", opened))
        yield


@contextmanager
def tombstones_are_ignored() -> Iterator[None]:
    """A restart remembers what was forgotten."""

    def restore(log: InMemoryLog, changelog: Any) -> dict[str, bytes]:
        records = log.read(changelog, 0, 1 << 62)
        return {r.key.decode(): r.value for r in records if r.value is not None}

    with patch.object(embedded, "restore", restore):
        yield


@contextmanager
def balances_move_apart_from_positions() -> Iterator[None]:
    """One batch in five moves Redis's position and not its balances."""
    right, is_due = RedisAccounts.apply, _sometimes(5)

    async def apply(
        model: Any, place: Any, read_from: int, then: int, entries: Any, applied: Any
    ) -> None:
        await right(model, place, read_from, then, [] if is_due() else entries, applied)

    with patch.object(RedisAccounts, "apply", apply):
        yield


@contextmanager
def the_sequencer_drops_the_last_of_a_full_round() -> Iterator[None]:
    """Of ten events or more one is lost."""
    right = Sequencer.end_round

    def end_round(sequencer: Sequencer, ended: Any) -> list[Any]:
        found = list(right(sequencer, ended))
        return found[:-1] if len(found) >= 10 else found

    with patch.object(Sequencer, "end_round", end_round):
        yield


@contextmanager
def refusals_leave_no_dead_letter() -> Iterator[None]:
    """What is refused is lost."""
    right = Unit._append

    def append(unit: Unit, publish: Any) -> None:
        if not publish.topic.startswith("dlq."):
            right(unit, publish)

    with patch.object(Unit, "_append", append):
        yield


@contextmanager
def a_copy_of_a_submission_queues_up_again() -> Iterator[None]:
    """Jobs that ended are not remembered."""
    right = JobFacts.submit

    def submit(facts: JobFacts, event: Any, message: Any) -> None:
        known = facts._table.get(message.job_id)
        if known is not None and known.ended:
            facts._table._rows.drop(message.job_id)
        right(facts, event, message)

    with patch.object(JobFacts, "submit", submit):
        yield


def jobs_are_lost_by_a_restart() -> AbstractContextManager[Any]:
    """One change of placement's job table in ten is not written."""
    return unwritten({"job", "candidates"}, _sometimes(10))


@contextmanager
def a_node_is_given_twice() -> Iterator[None]:
    """The lowest nodes are given, whoever has them."""

    def best_free(_occupancy: Occupancy, nodes: int) -> tuple[int, ...]:
        return tuple(range(nodes))

    with patch.object(Occupancy, "best_free", best_free):
        yield


@contextmanager
def decisions_end_by_an_error() -> Iterator[None]:
    """Explaining why a job waits raises, for some."""
    right = PassDecisions.of_waiting

    def of_waiting(outcomes: PassDecisions, job: Any, situation: Any) -> Any:
        if crc32(job.job.job_id.encode()) % 10 == 0:
            raise ValueError("was free to start")
        return right(outcomes, job, situation)

    with patch.object(PassDecisions, "of_waiting", of_waiting):
        yield


@contextmanager
def waiting_is_not_explained() -> Iterator[None]:
    """The decision that a job waits has no reason."""
    right = PassDecisions.of_waiting

    def of_waiting(outcomes: PassDecisions, job: Any, situation: Any) -> Any:
        published = right(outcomes, job, situation)
        decided = published.event.payload
        if isinstance(decided, PlacementDecided) and decided.verdict == VERDICT_QUEUED:
            decided.reason = ""
        return published

    with patch.object(PassDecisions, "of_waiting", of_waiting):
        yield


def lost_clusters_get_jobs() -> AbstractContextManager[Any]:
    """Nobody minds that a cluster is out of reach."""
    return patch.object(PendingReasons, "of_entry", lambda _pending_reasons, _job, _candidate: None)


@contextmanager
def rejected_jobs_wait_on() -> Iterator[None]:
    """A job that is rejected is published so, and stays in the queue for a cluster that comes
    later."""
    right = Notices.of

    def of(notices: Notices, job: Any, now_s: float) -> Any:
        found = right(notices, job, now_s)
        if job.life.state is JobState.REJECTED:
            job.life.state, job.evaluated.admitted = JobState.SUBMITTED, False
            job.job = replace(job.job, nodes=1, architectures=(), cores_per_unit=1)
        return found

    with patch.object(Notices, "of", of):
        yield


def drained_nodes_get_jobs() -> AbstractContextManager[Any]:
    """Nobody takes drained nodes from what jobs may have."""
    return patch.object(Occupancy, "close", lambda occupancy, _unavailable: _open(occupancy, {}))


_open = Occupancy.close


def undeclared_clusters_get_jobs() -> AbstractContextManager[Any]:
    """A cluster that was undeclared stays in the region."""
    return patch.object(ModelStore, "_undeclare", lambda *_: None)


def nobody_is_weighed_again() -> AbstractContextManager[Any]:
    """Jobs that wait know the clusters of the day when they came."""
    return patch.object(ModelUpdates, "are_for", lambda *_: False)


def jobs_are_rejected_while_clusters_are_lost() -> AbstractContextManager[Any]:
    """What a lost cluster might yet hold is rejected."""
    right = EvaluateLayer.admit

    def admit(layer: EvaluateLayer, *, may_reject: bool) -> None:
        lost, layer._models._lost = layer._models._lost, {}
        right(layer, may_reject=may_reject)
        layer._models._lost = lost

    return patch.object(EvaluateLayer, "admit", admit)


@contextmanager
def a_restart_charges_again() -> Iterator[None]:
    """Pricing forgets which revision it made last."""
    right = Attempts.__init__

    def restore(attempts: Attempts, state: Any) -> None:
        right(attempts, state)
        for attempt in attempts:
            if attempt.state is JobState.FINISHED and attempt.revision:
                attempt.revision = 0
                attempt.is_open = True

    with patch.object(Attempts, "__init__", restore):
        yield


@contextmanager
def late_shutters_are_dropped() -> Iterator[None]:
    """What comes after the charge makes no new revision."""
    right = PricingProcessor._reopen

    def reopen(processor: PricingProcessor, attempt: Any) -> None:
        if not attempt.revision:
            right(processor, attempt)

    with patch.object(PricingProcessor, "_reopen", reopen):
        yield


def a_finish_needs_its_start() -> AbstractContextManager[Any]:
    """A finish whose start did not come yet is taken for a copy."""
    without = dict(TRANSITIONS)
    del without[JobState.SUBMITTED, JobFact.FINISHED]
    return patch.dict(TRANSITIONS, without, clear=True)


@contextmanager
def a_round_is_forgotten() -> Iterator[None]:
    """One round in ten of placement decides nothing and drops what it was to announce."""
    right, is_due = ExplainLayer.of_waiting, _sometimes(10)

    def of_waiting(layer: ExplainLayer, written: Any) -> Any:
        found = list(right(layer, written))
        return [] if is_due() else found

    with patch.object(ExplainLayer, "of_waiting", of_waiting):
        yield


@contextmanager
def silence_ends_a_grant() -> Iterator[None]:
    """What is withdrawn is free at once: the job starts elsewhere before its holder declined."""
    right = Withdrawals._withdraw

    def withdraw(
        withdrawals: Withdrawals, job: Any, placed: Any, intruders: Any, now_s: float
    ) -> Iterator[Any]:
        yield from right(withdrawals, job, placed, intruders, now_s)
        if job.grants.withdrawn and job.requests.cancelled is None:
            withdrawals._job_table.allocations.release(job)
            job.life.state, job.grants.withdrawn = JobState.SUBMITTED, None
            withdrawals._job_table.revisit(job)

    with patch.object(Withdrawals, "_withdraw", withdraw):
        yield


def what_comes_early_is_refused() -> AbstractContextManager[Any]:
    """A fact that comes before the submission of its job becomes a dead letter."""
    return patch.object(EarlyFacts, "keep", lambda *_: False)


def early_facts_are_lost_by_a_restart() -> AbstractContextManager[Any]:
    """What is kept for later is kept in memory alone."""
    return patch.object(EarlyFacts, "changes", lambda _facts: {})


@contextmanager
def what_was_under_way_when_all_stood_still_is_not_awaited() -> Iterator[None]:
    """What has been early for a day is refused, though nothing could come in that day."""
    right = EarlyFacts.end_round

    def end_round(facts: EarlyFacts, now_us: int, *, is_last: bool) -> Any:
        for fact in facts._rows.values():
            if fact.arrived_us:
                fact.overdue_us = fact.arrived_us + early.KEPT_US - early.AWAITED_US
        return right(facts, now_us, is_last=is_last)

    with patch.object(EarlyFacts, "end_round", end_round):
        yield


@contextmanager
def every_barrier_is_believed() -> Iterator[None]:
    """Whoever writes a barrier ends a round, of any number and time."""
    with ExitStack() as stack:
        for check in ("check_writer", "check_number", "check_time"):
            stack.enter_context(patch.object(unit, check, lambda *_, **__: None))
        yield


@contextmanager
def caps_of_power_are_not_looked_at() -> Iterator[None]:
    """Every other pass is made without budgets of power."""
    right, is_due = CapBudgets.budgets, _sometimes(2)

    def budgets(caps: CapBudgets, *told: Any) -> Any:
        clusters = caps._models.clusters
        return {name: [] for name in clusters} if is_due() else right(caps, *told)

    with patch.object(CapBudgets, "budgets", budgets):
        yield


def no_share_of_a_cap_is_kept_free() -> AbstractContextManager[Any]:
    """All of a cap is given out."""
    return patch.object(cap_budgets, "lowered", lambda cap, _share: cap)


def nobody_is_asked_when_a_cap_falls() -> AbstractContextManager[Any]:
    """A cap that falls below what runs keeps others from starting, and that is all."""
    return patch.object(MeasureLayer, "_excesses", lambda _measures: iter(()))


def who_is_suspended_stays_so() -> AbstractContextManager[Any]:
    """Nobody looks whether watts were released."""
    return patch.object(MeasureLayer, "_run_on", lambda *_: iter(()))


@contextmanager
def a_restart_forgets_operators_words() -> Iterator[None]:
    """Who restores placement does not know that a run is to be suspended."""
    right = JobTable._adopt

    def adopt(job_table: JobTable, job: Any) -> None:
        job.requests.suspend = None
        right(job_table, job)

    with patch.object(JobTable, "_adopt", adopt):
        yield


@contextmanager
def rounds_creep_behind_a_clock_that_jumped() -> Iterator[None]:
    """Whatever the wall clock says is followed, and a round ends 1 us after one that ended later:
    nobody compares a state with the clock."""
    right = Unit.close_round

    def followed(clock: GuardedClock) -> int:
        wall_us, _ = clock._read()
        return wall_us

    def close_round(unit: Unit, now_us: int) -> Any:
        return right(unit, max(now_us, unit.closed_us + 1))

    with ExitStack() as stack:
        stack.enter_context(patch.object(GuardedClock, "now_us", followed))
        stack.enter_context(patch.object(Unit, "close_round", close_round))
        stack.enter_context(patch.object(embedded, "ahead_of_clock", lambda *_: []))
        yield


@contextmanager
def backfill_ignores_the_reservation() -> Iterator[None]:
    """What is started before its turn may run into what was promised to another."""
    right, place, limits_s = Choice.entry, JobTable.place, dict[tuple[str, int], float]()

    def entry(choice: Choice, job: Any, arrival: int, kind: int, *, in_parts: bool) -> Any:
        found = right(choice, job, arrival, kind, in_parts=in_parts)
        limits_s[choice.cluster, arrival] = found.limit_s
        return found._replace(limit_s=1e-6)

    def placed(job_table: JobTable, job: Any, start: Any, *how: Any) -> Any:
        limit_s = limits_s[start.cluster, start.entry.arrival]
        entry = start.entry._replace(limit_s=limit_s)
        return place(job_table, job, replace(start, entry=entry), *how)

    with ExitStack() as stack:
        stack.enter_context(patch.object(Choice, "entry", entry))
        stack.enter_context(patch.object(JobTable, "place", placed))
        yield


@contextmanager
def jobs_are_forgotten_by_their_own_times() -> Iterator[None]:
    """How long an ended job is remembered counts from when it ended, whenever that was
    published."""
    finish, forget = JobFacts.finish, JobTable.forget
    ended_s: dict[str, float] = {}

    def finished(facts: JobFacts, event: Any, message: Any, names: Any) -> None:
        ended_s[message.job_id] = message.ended_at_us / 1e6
        finish(facts, event, message, names)

    def forgotten(job_table: JobTable, now_s: float) -> None:
        ending = {job.job.job_id for job in job_table.found(job_table._ending) if job.ended}
        forget(job_table, now_s)
        for job_id in sorted(ending):
            job = job_table.get(job_id)
            if job is not None and ended_s.get(job_id, now_s) < now_s - job_table._remember_s:
                del job_table._jobs[job_id], job_table.by_arrival[job.arrival]
                job_table.revisit(job)

    with ExitStack() as stack:
        stack.enter_context(patch.object(JobFacts, "finish", finished))
        stack.enter_context(patch.object(JobTable, "forget", forgotten))
        yield


@contextmanager
def isolation_takes_neighbours_along() -> Iterator[None]:
    """With a record that a stage fails over go those that came with it."""
    right = GuardedUnit._blame

    def blame(unit: GuardedUnit, before: Blame, failed: Any) -> Blame:
        found = right(unit, before, failed)
        if failed.in_hand.record is None:
            return found
        return found.with_records([identify(record) for record in unit._work.records], failed.fault)

    with patch.object(GuardedUnit, "_blame", blame):
        yield


def who_is_killed_is_killed_again() -> AbstractContextManager[Any]:
    """What kills a process without an exception is handled by the next one as by the first."""
    return patch.object(Beginnings, "may_be_fatal", lambda _begun, _at: False)


@contextmanager
def outputs_go_beside_the_transaction() -> Iterator[None]:
    """What a stage says is said, also when the transaction ends otherwise."""
    right = MemoryTransactions.commit

    def commit(transactions: MemoryTransactions, found: Any) -> None:
        transactions._log.append(found.outputs)
        if found.outputs:
            transactions._step.reached("outputs sent")
        found.outputs = []
        right(transactions, found)

    with patch.object(MemoryTransactions, "commit", commit):
        yield


def the_undecided_is_read() -> AbstractContextManager[Any]:
    """Readers are handed what an open transaction wrote, which may be aborted yet."""
    return patch.object(memory._Partition, "stable_end", property(lambda partition: partition.end))


def declared_policies_are_forgotten_by_a_restart() -> AbstractContextManager[Any]:
    """Whoever starts anew decides as it was started."""
    return unwritten({"policy", "policy-earlier"}, _sometimes(1))


def nobody_is_put_back() -> AbstractContextManager[Any]:
    """Resource managers are not asked to requeue what runs."""
    return patch.object(MeasureLayer, "_requeue_for_operators", lambda *_: ())


@contextmanager
def declared_coefficients_are_forgotten_by_a_restart() -> Iterator[None]:
    """The learner writes no declaration to its changelog."""
    right = Learner.changes

    def changes(learner: Learner) -> dict[str, bytes | None]:
        return {key: value for key, value in right(learner).items() if "declared|" not in key}

    with patch.object(Learner, "changes", changes):
        yield


def tariffs_hold_for_ever() -> AbstractContextManager[Any]:
    """The tariff declared last counts, whenever it holds."""
    return patch.object(PriceTariff, "applies_at", lambda _tariff, _us: True)


def empty_accounts_get_nodes() -> AbstractContextManager[Any]:
    """Placement does not look at the state of accounts."""
    return patch.object(PendingReasons, "_empty", lambda *_: None)


def degradation_counts_once() -> AbstractContextManager[Any]:
    """A rate function says what the whole run costs, not the time that it takes alone."""
    return patch.object(
        RateFunction, "at", lambda function, share: Decimal(1) if function == FAIR else share
    )


def surcharges_go_by_time_beside() -> AbstractContextManager[Any]:
    """Who was there pays, not who slowed the run down. In episodes few runs have two neighbours: it
    must show in the run of `test_surcharged_neighbours.py`."""
    right = surcharging.surcharges_micro_su

    def wrong(rows: Sequence[PricedEvidence], discount_micro_su: int, surcharge: Surcharge) -> Any:
        same = [replace(row, slowdown_ratio=2.0) for row in rows]
        return right(same, discount_micro_su, surcharge)

    return patch.object(charge, "surcharges_micro_su", wrong)


def what_was_told_is_decided_again() -> AbstractContextManager[Any]:
    """A restored state decides in rounds whose decisions it has published. In episodes those are
    seldom decided otherwise: the run of `test_told_rounds.py` must show it."""
    return patch.object(PublishedDecisions, "covers", lambda *_: False)


def requests_that_were_overtaken_are_waited_for() -> AbstractContextManager[Any]:
    """Nothing is asked again of a run that refused what came behind a request. In episodes two
    requests seldom lie there at once: it must show in the run of `test_overtaken_requests.py`."""
    last = property(lambda run: run.actions[-1] if run.actions else None)
    return patch.object(PlacedRun, "pending", last)


def silent_meters_count_as_predicted() -> AbstractContextManager[Any]:
    """That a meter is silent is published, and changes nothing. Caps are seldom that tight in
    episodes: it must show in the run of `test_silent_meters.py`."""
    return patch.object(Meters, "counted", lambda *_: (0, 0))


MUTANTS: Final[tuple[Mutant, ...]] = (
    state_is_lost_beside_its_position,
    position_is_lost_beside_its_state,
    nobody_is_fenced,
    tombstones_are_ignored,
    balances_move_apart_from_positions,
    the_sequencer_drops_the_last_of_a_full_round,
    refusals_leave_no_dead_letter,
    a_copy_of_a_submission_queues_up_again,
    jobs_are_lost_by_a_restart,
    a_node_is_given_twice,
    decisions_end_by_an_error,
    waiting_is_not_explained,
    lost_clusters_get_jobs,
    rejected_jobs_wait_on,
    drained_nodes_get_jobs,
    undeclared_clusters_get_jobs,
    nobody_is_weighed_again,
    jobs_are_rejected_while_clusters_are_lost,
    a_restart_charges_again,
    late_shutters_are_dropped,
    a_finish_needs_its_start,
    a_round_is_forgotten,
    silence_ends_a_grant,
    what_comes_early_is_refused,
    early_facts_are_lost_by_a_restart,
    every_barrier_is_believed,
    caps_of_power_are_not_looked_at,
    no_share_of_a_cap_is_kept_free,
    nobody_is_asked_when_a_cap_falls,
    who_is_suspended_stays_so,
    a_restart_forgets_operators_words,
    rounds_creep_behind_a_clock_that_jumped,
    backfill_ignores_the_reservation,
    jobs_are_forgotten_by_their_own_times,
    isolation_takes_neighbours_along,
    who_is_killed_is_killed_again,
    outputs_go_beside_the_transaction,
    the_undecided_is_read,
    declared_policies_are_forgotten_by_a_restart,
    nobody_is_put_back,
    declared_coefficients_are_forgotten_by_a_restart,
    tariffs_hold_for_ever,
    empty_accounts_get_nodes,
    degradation_counts_once,
    what_was_under_way_when_all_stood_still_is_not_awaited,
)
