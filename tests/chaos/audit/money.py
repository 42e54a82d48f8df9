"""What finished runs cost: computed again from what resource managers and agents reported."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, TypeGuard

from coplace.v1.jobs_pb2 import JobStarted
from coplace.v1.pricing_pb2 import ChargeMade, InterferenceEvidence
from coplace.v1.telemetry_pb2 import ShuttersMeasured

from coplace_client.errors import RejectedError
from services.pricing.accounts.model import entry_of, spent_micro_su
from services.pricing.settings import PricingSettings
from shared.models.shutters import Shutter, interference
from shared.pricing.charge import AttemptEnd, ChargeRevision, audit, charge_message, usage_of
from shared.pricing.model import CoRun, evidence
from tests.chaos.audit.evidence import Evidence, is_hostile
from tests.chaos.journal import End, Run

Key = tuple[str, int]
# By how much clocks of agents and of resource managers may differ.
_CLOCKS_US: Final = 10_000_000


def each_finished_run_has_one_final_charge(found: Evidence) -> Iterator[str]:
    """Its revisions count from 1 without gap or copy, and nothing else is charged. What an operator
    took out of the topic was there, though where pricing's changelog is lost too nobody knows of
    it: it may be charged again."""
    revisions, finished = _revisions(found), found.world.journal.finishes
    for key in finished:
        if key not in revisions and not is_hostile(key[0]):
            yield f"{key} finished and was never charged"
    for key, numbers in revisions.items():
        if key not in finished and not is_hostile(key[0]):
            yield f"{key} was charged and never finished"
        if sorted(numbers) != list(range(1, len(numbers) + 1)):
            yield f"{key} has the revisions {numbers}"


def each_price_follows_from_what_was_measured(found: Evidence) -> Iterator[str]:
    """The last revision is, to the last digit, what finish and shutters give."""
    shutters = _shutters(found)
    rate = PricingSettings().rate_su_per_core_s
    for key, charge in _final(found).items():
        finished = found.world.journal.finishes.get(key)
        if finished is None or is_hostile(key[0]) or _is_lost(found, charge):
            continue
        co_runs = _without_unknown(found, shutters[key], charge)
        rows = evidence(co_runs, usage_of(finished))
        end, made = AttemptEnd(finished), ChargeRevision(charge.revision, charge.charged_at_us)
        expected = charge_message(end, made, rate, rows)
        if list(expected.evidence) != _measured(charge):
            yield f"{key} is charged by other evidence than was measured"
        is_as_expected = charge.tariff or expected.price_su == charge.price_su
        if not is_as_expected or expected.account != charge.account:
            yield f"{key} costs {charge.price_su} SU, its facts give {expected.price_su}"


def each_charge_proves_its_price(found: Evidence) -> Iterator[str]:
    """Anybody can compute it again from the charge alone."""
    for charge in found.charges:
        try:
            audit(charge)
        except RejectedError as error:
            yield f"the charge of {charge.job_id} does not prove its price: {error}"


def balances_are_the_ledger(found: Evidence) -> Iterator[str]:
    """Redis and the charges agree to the last digit."""
    expected = spent_micro_su(map(entry_of, found.charges))
    balances = found.world.accounts.spent_micro_su()
    for account in sorted(expected.keys() | balances.keys()):
        if expected.get(account, 0) != balances.get(account, 0):
            yield (
                f"{account} spent {balances.get(account, 0)} by Redis and "
                f"{expected.get(account, 0)} by its charges (0.000001 SU)"
            )


def _revisions(found: Evidence) -> dict[Key, list[int]]:
    """Of each run, those published and those that were."""
    journal = found.world.journal
    revisions: dict[Key, list[int]] = defaultdict(list)
    for charge in found.charges:
        revisions[charge.job_id, charge.attempt].append(charge.revision)
    for job_id, attempt, revision in journal.lost_charges:
        there = revisions[job_id, attempt]
        if revision not in there or not journal.pricing_forgot:
            there.append(revision)
    return revisions


def _measured(charge: ChargeMade) -> list[InterferenceEvidence]:
    """Its evidence without what follows from a tariff."""
    told = ChargeMade(evidence=charge.evidence)
    for row in told.evidence:
        row.ClearField("co_runner_account")
        row.ClearField("surcharge_su")
    return list(told.evidence)


def _is_lost(found: Evidence, charge: ChargeMade) -> bool:
    """Whether there was a later revision, which an operator took out."""
    lost = found.world.journal.lost_charges
    return (charge.job_id, charge.attempt, charge.revision + 1) in lost


def _final(found: Evidence) -> dict[Key, ChargeMade]:
    final: dict[Key, ChargeMade] = {}
    for charge in sorted(found.charges, key=lambda charge: charge.revision):
        final[charge.job_id, charge.attempt] = charge
    return final


def _without_unknown(found: Evidence, co_runs: Sequence[CoRun], charge: ChargeMade) -> list[CoRun]:
    """Those that count. Of a run that lost its power nobody says until when it was there, so that
    a charge need not count it."""
    lost = {run.job_id for run in found.world.journal.runs if run.end is End.POWER}
    unknown = lost - {row.co_runner_job_id for row in charge.evidence}
    return [each for each in co_runs if each.co_runner_job_id not in unknown]


def _shutters(found: Evidence) -> dict[Key, list[CoRun]]:
    """What agents measured of pairs that were together."""
    co_runs: dict[Key, list[CoRun]] = defaultdict(list)
    events = found.world.journal.events.values()
    located = {(e.payload.job_id, e.payload.attempt) for e in events if _is_start(e.payload)}
    for event in events:
        if isinstance(event.payload, ShuttersMeasured):
            told = event.payload
            time_us = _time_together(found.world.journal.runs, told, located)
            if time_us is None:
                continue
            measured = interference(
                [Shutter(s.ipc_before, s.ipc_during, s.ipc_after) for s in told.shutters]
            )
            co_run = CoRun(told.co_runner_job_id, *time_us, measured)
            co_runs[told.job_id, told.attempt].append(co_run)
    return co_runs


def _is_start(payload: object) -> TypeGuard[JobStarted]:
    return isinstance(payload, JobStarted)


def _time_together(
    runs: Sequence[Run], told: ShuttersMeasured, located: set[Key]
) -> tuple[int, int] | None:
    """The part of that time in which both were on a node, as far as clocks agree, by what their
    resource managers did; of a run whose start nobody reported its nodes are not known."""
    times_us = told.began_at_us, told.ended_at_us
    mine = [run for run in runs if run.key == (told.job_id, told.attempt)]
    others = [run for run in runs if run.job_id == told.co_runner_job_id]
    found = [
        _common(one, other, *times_us)
        for one in mine
        for other in others
        if one.cluster == other.cluster
        and one.overlaps(other)
        and _lasted(one, *times_us)
        and _lasted(other, *times_us)
        and (not {one.key, other.key} <= located or not set(one.nodes).isdisjoint(other.nodes))
    ]
    return max(
        (each for each in found if each[0] <= each[1]), key=lambda t: t[1] - t[0], default=None
    )


def _common(one: Run, other: Run, began_us: int, ended_us: int) -> tuple[int, int]:
    ends_us = [run.ended_us for run in (one, other) if run.ended_us is not None]
    return max(began_us, one.began_us, other.began_us), min([ended_us, *ends_us])


def _lasted(run: Run, began_us: int, ended_us: int) -> bool:
    until_us = ended_us if run.ended_us is None else run.ended_us
    return run.began_us <= began_us + _CLOCKS_US and ended_us <= until_us + _CLOCKS_US
