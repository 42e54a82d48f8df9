"""What operators declare of tariffs, allocations and periods, and what they have charged again.

These come in some seeds alone (`episode.py`), so that the others play as they did before.
"""

from collections.abc import Callable, Mapping
from typing import Final

from coplace.v1.accounts_pb2 import (
    WHEN_EMPTY_REFUSE,
    WHEN_EMPTY_RUN,
    WHEN_EMPTY_WARN,
    AllocationDeclared,
    PeriodClosed,
)
from coplace.v1.pricing_pb2 import ChargeMade, RepriceAsked
from coplace.v1.tariffs_pb2 import (
    PAYER_ACCOUNT,
    PAYER_OPERATOR,
    PRICE_MODEL_FAIR,
    PRICE_MODEL_RATE_FUNCTION,
    PRICE_MODEL_STATE_OF_PRACTICE,
    RatePoint,
    TariffDeclared,
    TariffRate,
)

from tests.chaos.audit.evidence import charges_of
from tests.chaos.clock import DAY_US, HOUR_US
from tests.chaos.events import ACCOUNTS, publish
from tests.chaos.world import World

_NAMES: Final = ("summer", "winter")
_POINTS: Final = [("0", "0.25"), ("0.7", "0.5"), ("0.9", "0.975"), ("1", "1")]
# What of a discount its aggressors pay, and the most of an hour: by turns, with no draw of its own.
_SURCHARGES: Final = (("", ""), ("1", ""), ("0.35", "0.02"))


def declare_tariff(world: World) -> None:
    """The next version of one, for a time that may be over, go on, or lie ahead."""
    rng, now_us = world.rng, world.clock.now_us
    from_us = now_us + rng.choice([-DAY_US, -HOUR_US, 0, HOUR_US])
    model = rng.choice([PRICE_MODEL_STATE_OF_PRACTICE, PRICE_MODEL_FAIR, PRICE_MODEL_RATE_FUNCTION])
    points = [RatePoint(solo_share=share, factor=factor) for share, factor in _POINTS]
    hours = [rng.choice(["0", "0.5", "1", "2.25"]) for _ in range(24)]
    rates = [
        TariffRate(resource="core", su="3.000001", cluster=rng.choice(["alpha", "beta"])),
        TariffRate(resource="core", su=rng.choice(["0", "0.1", "1"])),
    ]
    surcharge_share, surcharge_most_su = _SURCHARGES[world.events % len(_SURCHARGES)]
    declared = TariffDeclared(
        name=rng.choice(_NAMES),
        version=world.events,
        from_us=from_us,
        until_us=rng.choice([0, from_us + HOUR_US, from_us + 2 * DAY_US]),
        model=model,
        points=points if model == PRICE_MODEL_RATE_FUNCTION else [],
        rates=rates,
        hour_factors=rng.choice([[], hours]),
        node_failure=rng.choice([PAYER_ACCOUNT, PAYER_OPERATOR]),
        requeue=rng.choice([PAYER_ACCOUNT, PAYER_OPERATOR]),
        declared_at_us=now_us,
        surcharge_share=surcharge_share,
        surcharge_most_su=surcharge_most_su,
    )
    publish(world, f"{declared.name}/{declared.version}", 1, tariff_declared=declared)


def allocate(world: World) -> None:
    """Of what an account may spend, mostly less than its next jobs cost."""
    rng, now_us = world.rng, world.clock.now_us
    account = rng.choice(ACCOUNTS)
    if world.declared_us.get(f"allocation/{account}") == now_us:
        return  # nobody could say which of the two is the later
    world.declared_us[f"allocation/{account}"] = now_us
    declared = AllocationDeclared(
        account=account,
        allocated_su=rng.choice(["0", "0.5", "20", "500", "1000000"]),
        when_empty=rng.choice(
            [WHEN_EMPTY_REFUSE, WHEN_EMPTY_REFUSE, WHEN_EMPTY_WARN, WHEN_EMPTY_RUN]
        ),
        declared_at_us=now_us,
    )
    publish(world, account, now_us, allocation_declared=declared)


def close_period(world: World) -> None:
    """What ended an hour ago or more is accounted for."""
    now_us = world.clock.now_us
    closed = PeriodClosed(until_us=now_us - HOUR_US, closed_at_us=now_us)
    publish(world, "period", now_us, period_closed=closed)


def reprice(world: World) -> None:
    """A charge is to be made again by another tariff; it may be an old revision."""
    rng, now_us = world.rng, world.clock.now_us
    charges: list[ChargeMade] = list(charges_of(world.log, world.codec))[-20:]
    declared = [
        event.payload
        for event in world.journal.events.values()
        if isinstance(event.payload, TariffDeclared)
    ]
    if charges and declared:
        tariff = rng.choice(declared)
        asked = RepriceAsked(
            charge=rng.choice(charges),
            tariff=tariff.name,
            tariff_version=tariff.version,
            asked_at_us=now_us,
        )
        publish(world, asked.charge.job_id, f"{now_us}-{world.events}", reprice_asked=asked)


def fund_all(world: World) -> None:
    """Nothing of an account keeps a job any more; one with nothing left is reported."""
    now_us = world.clock.now_us
    allocated = {
        event.payload.account
        for event in world.journal.events.values()
        if isinstance(event.payload, AllocationDeclared)
    }
    for account in sorted(allocated):
        funded = AllocationDeclared(
            account=account,
            allocated_su=world.rng.choice(["20", "500", "5000"]),
            when_empty=WHEN_EMPTY_WARN,
            declared_at_us=now_us,
        )
        publish(world, account, f"{now_us}-calm", allocation_declared=funded)


BILLING: Final[Mapping[Callable[[World], None], float]] = {
    declare_tariff: 3,
    allocate: 3,
    close_period: 1,
    reprice: 3,
}
