"""A restored state of pricing, brought forward by the published charges; one that a wrong
clock put off, repaired."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from coplace.v1.accounts_pb2 import AccountStanding
from coplace.v1.pricing_pb2 import ChargeMade

from services.pricing.account_book import AccountBook
from services.pricing.processor import SOURCE, PriceRule
from services.pricing.state import Attempt, AttemptKey, Attempts
from shared.catalogue.event import Event
from shared.pricing.charge import charged_micro_su
from shared.streams.state.state import State


def repair_state(
    restored: Mapping[str, bytes], rule: PriceRule, now_us: int
) -> Mapping[str, bytes | None]:
    """Return the attempts of which something was put off into a future that a wrong clock made,
    with what is due as soon as it may be after `now_us`."""
    state = State(restored)
    attempts = Attempts(state)
    for attempt in attempts:
        charge_us = min(attempt.charge_due_us, now_us + rule.grace_us)
        forget_us = min(attempt.forget_due_us, now_us + rule.remember_us)
        if (charge_us, forget_us) != (attempt.charge_due_us, attempt.forget_due_us):
            attempt.charge_due_us, attempt.forget_due_us = charge_us, forget_us
            attempts.save(attempt)
    return state.changes()


def recall_outputs(
    restored: Mapping[str, bytes], told: Iterable[Event], _next_round: int = 0
) -> Mapping[str, bytes | None]:
    """Return what the published charges say beyond the state: revisions that were given away, on
    which what is charged again follows, since accounts and billing let the highest count; and what
    each account is charged by them, and its last published state."""
    state = State(restored)
    attempts, accounts = Attempts(state), AccountBook(state)
    charges, standings = _told_last(told)
    for attempt in [attempts.get(key) for key in {*charges, *(each.key for each in attempts)}]:
        _recall(attempts, attempt, charges.get(attempt.key))
    charged: dict[str, int] = {}
    for charge in charges.values():
        for account, micro_su in charged_micro_su(charge):
            charged[account] = charged.get(account, 0) + micro_su
    accounts.settle(charged, standings)
    return state.changes()


def _recall(attempts: Attempts, attempt: Attempt, charge: ChargeMade | None) -> None:
    """Hold an attempt to its published charge; one that is not there was lost."""
    before = replace(attempt)
    if charge is None:
        attempt.charged = ()
    else:
        attempt.hold_to(charge)
        if charge.revision > attempt.revision:
            attempt.revision, attempt.is_open = charge.revision, True
    if attempt != before:
        attempts.save(attempt)


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
