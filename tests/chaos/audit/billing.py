"""Tariffs and accounts: worked out again, in fractions and hour by hour, from what was declared."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Final

from coplace.v1.accounts_pb2 import (
    STANDING_FUNDED,
    STANDING_REFUSED,
    STANDING_WARNED,
    WHEN_EMPTY_REFUSE,
    WHEN_EMPTY_WARN,
    AccountStanding,
    AllocationDeclared,
    PeriodClosed,
    Standing,
)
from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.placement_pb2 import VERDICT_START
from coplace.v1.pricing_pb2 import (
    CHARGE_REASON_NODE_FAILED,
    CHARGE_REASON_REQUEUED,
    ChargeMade,
    RepriceAsked,
)
from coplace.v1.tariffs_pb2 import (
    PRICE_MODEL_FAIR,
    PRICE_MODEL_STATE_OF_PRACTICE,
    TariffDeclared,
)

from shared.catalogue.event import Event
from tests.chaos.audit.evidence import Evidence, events_of, is_hostile
from tests.chaos.clock import HOUR_US
from tests.chaos.journal import Journal

_PRICING: Final = "pricing"
_STANDINGS: Final = {WHEN_EMPTY_REFUSE: STANDING_REFUSED, WHEN_EMPTY_WARN: STANDING_WARNED}
FREE: Final = (CHARGE_REASON_NODE_FAILED, CHARGE_REASON_REQUEUED)


def each_tariff_holds_for_what_is_charged_by_it(found: Evidence) -> Iterator[str]:
    """It was declared, and for when the job started, unless somebody asked for it since."""
    declared = _tariffs(found.world.journal)
    asked = {
        (told.charge.job_id, told.charge.attempt, told.tariff, told.tariff_version)
        for told in _told(found.world.journal, RepriceAsked)
        if isinstance(told, RepriceAsked)
    }
    for charge in found.charges:
        named = charge.tariff, charge.tariff_version
        if not charge.tariff or (charge.job_id, charge.attempt, *named) in asked:
            continue
        run = charge.finished
        tariff, start_us = declared.get(named), run.started_at_us or run.ended_at_us
        if tariff is None:
            yield f"{_name(charge)} is by {named}, which nobody declared"
        elif not tariff.from_us <= start_us < (tariff.until_us or start_us + 1):
            yield f"{_name(charge)} is by {named}, which does not hold at {start_us}"


def each_price_follows_from_its_tariff(found: Evidence) -> Iterator[str]:
    """To the last digit, for each revision by what it says of co-runners."""
    declared = _tariffs(found.world.journal)
    for charge in found.charges:
        finished = found.world.journal.finishes.get((charge.job_id, charge.attempt))
        if not charge.tariff or finished is None or is_hostile(charge.job_id):
            continue
        tariff = declared[charge.tariff, charge.tariff_version]
        expected = round(_price_su(tariff, charge, finished) * 10**6)
        if Fraction(charge.price_su) * 10**6 != expected:
            yield f"{_name(charge)} costs {charge.price_su} SU, its tariff gives {expected} uSU"


def nothing_is_booked_in_a_closed_period(found: Evidence) -> Iterator[str]:
    """It is booked when the run ended, or where periods were closed by then."""
    closed = {told.until_us for told in _told(found.world.journal, PeriodClosed)}  # type: ignore[attr-defined]
    last_us: dict[tuple[str, int], int] = {}
    for charge in sorted(found.charges, key=lambda charge: charge.revision):
        ended_us, key = charge.finished.ended_at_us, (charge.job_id, charge.attempt)
        if charge.booked_at_us not in {ended_us, *closed} or charge.booked_at_us < ended_us:
            yield f"{_name(charge)} ended at {ended_us} and is booked at {charge.booked_at_us}"
        is_known = not found.world.journal.mended[_PRICING]
        if is_known and charge.booked_at_us < last_us.get(key, 0):
            yield f"{_name(charge)} is booked before the one that it replaces"
        last_us[key] = charge.booked_at_us


def no_job_of_an_empty_account_starts(found: Evidence) -> Iterator[str]:
    """From the round on in which placement reads that it is. Of a hostile id several submissions
    name several accounts."""
    refused: dict[str, tuple[int, bool]] = {}

    def learn(event: Event) -> None:
        if isinstance(event.payload, AccountStanding):
            told = event.payload
            if told.number > refused.get(told.account, (0, False))[0]:
                refused[told.account] = told.number, told.standing == STANDING_REFUSED

    for ended in found.ends_of_rounds(learn):
        for decided in found.by_round.get(ended.round, []):
            job = found.world.journal.submission(decided.job_id)
            if job is None or is_hostile(decided.job_id):
                continue
            if decided.verdict == VERDICT_START and refused.get(job.account, (0, False))[1]:
                yield f"{decided.job_id} starts in round {ended.round}, {job.account} is empty"


def each_account_stands_as_the_ledger_says(found: Evidence) -> Iterator[str]:
    """Where nothing runs any more, by the newest allocation; unless an operator repaired
    pricing."""
    if found.world.journal.mended[_PRICING]:
        return
    standings = {told.account: told for told in _standings(found)}
    charged = _charged(found)
    for account, allocation in _allocations(found).items():
        left = Fraction(allocation.allocated_su) - charged.get(account, Fraction(0))
        empty = _STANDINGS.get(allocation.when_empty, STANDING_FUNDED)
        expected = STANDING_FUNDED if left > 0 else empty
        told = standings.get(account, AccountStanding())
        if told.standing != expected:
            said, right = (Standing.Name(each) for each in (told.standing, expected))
            yield f"{account} has {float(left)} SU left and is published as {said}, not {right}"


def _price_su(tariff: TariffDeclared, charge: ChargeMade, run: JobFinished) -> Fraction:
    if charge.reason in FREE or not run.started_at_us:
        return Fraction(0)
    cores = Fraction(run.millicores, 1000) or run.cores or run.nodes * run.cores_per_node
    rates = (rate for rate in tariff.rates if rate.cluster in ("", run.cluster))
    hours = _hours(tariff, run.started_at_us, run.ended_at_us)
    in_full = cores * hours * Fraction(next(rates).su)
    share = _solo_share(charge, run)
    return (
        in_full
        * (share if tariff.model != PRICE_MODEL_STATE_OF_PRACTICE else 1)
        * _factor(tariff, share)
    )


def _hours(tariff: TariffDeclared, from_us: int, until_us: int) -> Fraction:
    """Of a run, each times what its hour of the day costs."""
    edges = range(from_us - from_us % HOUR_US + HOUR_US, until_us, HOUR_US)
    factors = tariff.hour_factors or ["1"] * 24
    return sum(
        (
            Fraction(end_us - begin_us, HOUR_US) * Fraction(factors[begin_us // HOUR_US % 24])
            for begin_us, end_us in pairwise([from_us, *edges, until_us])
        ),
        Fraction(0),
    )


def _solo_share(charge: ChargeMade, run: JobFinished) -> Fraction:
    run_us = run.ended_at_us - run.started_at_us
    saved_us = Fraction(0)
    for row in charge.evidence:
        beside_us = round(row.duration_s * 1e6)
        saved_us += beside_us - beside_us / Fraction(row.slowdown_ratio)
    return 1 - saved_us / run_us if run_us else Fraction(1)


def _factor(tariff: TariffDeclared, share: Fraction) -> Fraction:
    if tariff.model == PRICE_MODEL_STATE_OF_PRACTICE:
        return Fraction(1)
    if tariff.model == PRICE_MODEL_FAIR:
        return share
    points = [(Fraction(each.solo_share), Fraction(each.factor)) for each in tariff.points]
    for (low, below), (high, above) in pairwise(points):
        if low <= share <= high:
            return below + (above - below) * (share - low) / (high - low)
    raise AssertionError(f"a share of {share}")


def _tariffs(journal: Journal) -> dict[tuple[str, int], TariffDeclared]:
    told = _told(journal, TariffDeclared)
    return {(each.name, each.version): each for each in told if isinstance(each, TariffDeclared)}


def _told(journal: Journal, kind: type) -> list[object]:
    return [e.payload for e in journal.events.values() if isinstance(e.payload, kind)]


def _standings(found: Evidence) -> list[AccountStanding]:
    events = events_of(found.world.log, found.world.codec, "accounts.standings")
    return [e.payload for e in events if isinstance(e.payload, AccountStanding)]


def _allocations(found: Evidence) -> dict[str, AllocationDeclared]:
    """The newest of each account that pricing took."""
    newest: dict[str, tuple[tuple[int, str], AllocationDeclared]] = {}
    for event in events_of(found.world.log, found.world.codec, "billing"):
        told = event.payload
        if isinstance(told, AllocationDeclared) and (_PRICING, event.id) not in found.refused:
            stamp = told.declared_at_us, event.id
            if told.account not in newest or stamp > newest[told.account][0]:
                newest[told.account] = stamp, told
    return {account: told for account, (_, told) in newest.items()}


def _charged(found: Evidence) -> dict[str, Fraction]:
    last: dict[tuple[str, int], ChargeMade] = {}
    for charge in sorted(found.charges, key=lambda charge: charge.revision):
        last[charge.job_id, charge.attempt] = charge
    sums: dict[str, Fraction] = {}
    for charge in last.values():
        sums[charge.account] = sums.get(charge.account, Fraction(0)) + Fraction(charge.price_su)
        for row in charge.evidence:
            told = Fraction(row.surcharge_su or 0)
            sums[row.co_runner_account] = sums.get(row.co_runner_account, Fraction(0)) + told
    return sums


def _name(charge: ChargeMade) -> str:
    return f"revision {charge.revision} of {charge.job_id}/{charge.attempt}"
