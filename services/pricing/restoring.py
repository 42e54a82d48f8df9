"""A restored state of pricing, brought forward by the published charges; one that a wrong
clock put off, repaired."""

from collections.abc import Iterable, Mapping

from coplace.v1.accounts_pb2 import AccountStanding
from coplace.v1.pricing_pb2 import ChargeMade
from coplace.v1.pricing_state_pb2 import PricedAttempt, PricingState

from services.pricing.account_book import AccountBook
from services.pricing.charge import charged_micro_su
from services.pricing.processor import SOURCE, PriceRule
from services.pricing.state import Attempt, AttemptKey, Attempts
from shared.catalogue.event import Event


def mended(
    restored: Mapping[str, bytes], rule: PriceRule, now_us: int
) -> Mapping[str, bytes | None]:
    """Return the attempts of which something was put off into a future that a wrong clock made,
    with what is due as soon as it may be after `now_us`."""
    attempts = Attempts(restored)
    for attempt in attempts:
        facts = attempt.facts
        charge_us = min(facts.charge_due_us, now_us + rule.grace_us)
        forget_us = min(facts.forget_due_us, now_us + rule.remember_us)
        if (charge_us, forget_us) != (facts.charge_due_us, facts.forget_due_us):
            facts.charge_due_us, facts.forget_due_us = charge_us, forget_us
            attempts.save(attempt)
    return attempts.changes()


def recalled(
    restored: Mapping[str, bytes], told: Iterable[Event], _next_round: int = 0
) -> Mapping[str, bytes | None]:
    """Return what the published charges say beyond the state: revisions that were given away, on
    which what is charged again follows, since accounts and billing let the highest count; and what
    each account is charged by them, and what was published of it."""
    attempts, accounts = Attempts(restored), _accounts_of(restored)
    charges, standings = _told_last(told)
    for attempt in [attempts.get(key) for key in {*charges, *(each.key for each in attempts)}]:
        _recall(attempts, attempt, charges.get(attempt.key))
    charged: dict[str, int] = {}
    for charge in charges.values():
        for account, micro_su in charged_micro_su(charge):
            charged[account] = charged.get(account, 0) + micro_su
    accounts.settle(charged, standings)
    return {**attempts.changes(), **accounts.changes()}


def _recall(attempts: Attempts, attempt: Attempt, charge: ChargeMade | None) -> None:
    """Set an attempt to its published charge; one that is not there was lost."""
    facts = attempt.facts
    before = PricedAttempt()
    before.CopyFrom(facts)
    if charge is None:
        facts.charged_account, facts.charged_micro_su = "", 0
        del facts.surcharges[:]
    else:
        attempt.hold_to(charge)
        if charge.revision > facts.revision:
            facts.revision, facts.is_open = charge.revision, True
    if facts != before:
        attempts.save(attempt)


def _accounts_of(restored: Mapping[str, bytes]) -> AccountBook:
    accounts = AccountBook()
    for value in restored.values():
        state = PricingState.FromString(value)
        if state.HasField("account"):
            accounts.restore(state.account)
    return accounts


def _told_last(
    told: Iterable[Event],
) -> tuple[dict[AttemptKey, ChargeMade], dict[str, AccountStanding]]:
    """Return the last revision of each charge and the last state of each account."""
    charges: dict[AttemptKey, ChargeMade] = {}
    standings: dict[str, AccountStanding] = {}
    for event in told:
        match event.payload:
            case ChargeMade() as charge if event.source == SOURCE:
                known = charges.get((charge.job_id, charge.attempt))
                if known is None or charge.revision > known.revision:
                    charges[charge.job_id, charge.attempt] = charge
            case AccountStanding() as standing if event.source == SOURCE:
                before = standings.get(standing.account)
                if before is None or standing.number > before.number:
                    standings[standing.account] = standing
    return charges, standings
