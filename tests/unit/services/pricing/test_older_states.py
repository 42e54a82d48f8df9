"""A state that pricing wrote before there were tariffs and accounts (the parent of 593b22f, whose
code made these bytes) is taken up: nothing is charged twice, nothing is lost."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

import pytest
from coplace.v1.accounts_pb2 import AllocationDeclared
from coplace.v1.pricing_pb2 import ChargeMade
from coplace.v1.pricing_state_pb2 import PricingState

from services.pricing.processor import SOURCE, PriceRule
from services.pricing.restoring import recalled
from shared.catalogue.event import Event
from shared.streams.stages.stage import AlreadyAppliedError
from tests.support.messaging import START_US as T0_US
from tests.unit.services.changelog import fold
from tests.unit.services.pricing.support import HOUR_US, Driver, finished, shutters, tariff

RULE: Final = PriceRule(Decimal("0.0001"), grace_us=60_000_000, remember_us=10 * HOUR_US)
# One attempt was charged, one waits for its grace to end, one runs; shutters of the first and last.
RECORDED: Final = {
    "attempt\ncharged\n1": (
        "0a5d0a076368617267656410011a0866696e6973686564223b0a0763686172676564100122016332036164613a"
        "07706879736963734004481858808081b184e9910360808081b184e991036880c8cfe591e9910330014080a6af"
        "9098ea9103"
    ),
    "interval\ncharged\n1\nmcharged": (
        "12350a076368617267656410011a086d6368617267656422016228808081b184e991033080c8cfe591e9910339"
        "000000000000f43f4001"
    ),
    "attempt\ndue\n1": (
        "0a530a0364756510011a0866696e697368656422370a03647565100122016332036164613a0770687973696373"
        "4004481858808081b184e9910360808081b184e991036880c8cfe591e9910338809eecb69fe99103"
    ),
    "attempt\nruns\n1": "0a130a0472756e7310011a097375626d6974746564",
    "interval\nruns\n1\nmruns": (
        "122f0a0472756e7310011a056d72756e7322016228808081b184e991033080c8cfe591e9910339000000000000"
        "f43f4001"
    ),
}
LATE_SHUTTERS: Final = shutters(2.0, "other", job_id="charged")
# What was published of it.
CHARGED: Final = ChargeMade(
    job_id="charged", attempt=1, revision=1, account="physics", price_su="22.118400"
)


def old_state() -> dict[str, bytes]:
    return {key: bytes.fromhex(value) for key, value in RECORDED.items()}


def taken_up() -> Driver:
    """As a unit begins: published charges beyond the state are taken in first."""
    driver = Driver(RULE, old_state())
    told = [Event("c", SOURCE, T0_US, "charged", CHARGED)]
    fold(driver.state, recalled(driver.state, told))
    driver.restart()
    return driver


def end(driver: Driver, after_us: int) -> Mapping[str, ChargeMade]:
    return {charge.job_id: charge for charge in driver.end_round(9, T0_US + after_us)}


def test_what_was_due_is_charged_once_and_what_runs_keeps_its_shutters() -> None:
    driver = taken_up()
    driver.take(finished(job_id="runs"))
    assert end(driver, 2 * HOUR_US) == {}
    charges = end(driver, 3 * HOUR_US)
    assert [(c.job_id, c.revision, c.price_su) for c in charges.values()] == [
        ("due", 1, "34.560000"),
        ("runs", 1, "22.118400"),
    ]
    assert end(driver, 4 * HOUR_US) == {}


def test_a_copy_of_what_was_charged_is_known_as_one() -> None:
    with pytest.raises(AlreadyAppliedError):
        taken_up().take(finished(job_id="charged"))


def test_late_shutters_revise_by_the_rate_that_was_charged_by_whatever_was_declared_since() -> None:
    driver = taken_up()
    driver.take(tariff(core="7"))
    driver.take(LATE_SHUTTERS)
    end(driver, 2 * HOUR_US)
    charge = end(driver, 3 * HOUR_US)["charged"]
    assert (charge.revision, charge.tariff, charge.price_su) == (2, "", "8.640000")
    assert [row.co_runner_job_id for row in charge.evidence] == ["other"]


def test_accounts_count_what_the_charges_charged_before_there_were_accounts() -> None:
    driver = taken_up()
    driver.take(AllocationDeclared(account="physics", allocated_su="100", declared_at_us=1))
    end(driver, HOUR_US)
    [told] = driver.standings
    assert told.charged_su == "22.118400"
    driver.take(LATE_SHUTTERS)
    end(driver, 2 * HOUR_US)
    end(driver, 3 * HOUR_US)
    saved = PricingState.FromString(driver.state["account\nphysics"]).account
    # That of the attempt which was due, 34.56, and 8.64 in place of 22.1184.
    assert saved.charged_su == "43.200000"
