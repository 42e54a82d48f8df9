"""A state that pricing wrote before there were tariffs and accounts (the parent of 593b22f, whose
code made these bytes) is taken up: nothing is charged twice, nothing is lost."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

import pytest
from coplace.v1.accounts_pb2 import AccountStanding, AllocationDeclared
from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.pricing_pb2 import ChargeMade
from coplace.v1.pricing_state_pb2 import PricingState
from coplace.v1.tariffs_pb2 import PRICE_MODEL_FAIR, TariffDeclared, TariffRate
from coplace.v1.telemetry_pb2 import Shutter, ShuttersMeasured
from google.protobuf.message import Message

from services.pricing.charge import audit
from services.pricing.processor import SOURCE, PriceRule, PricingProcessor
from services.pricing.restoring import recalled
from shared.catalogue.event import Event
from shared.streams.stages.stage import AlreadyAppliedError, Round

T0_US: Final = 1_767_225_600_000_000
HOUR_US: Final = 3_600_000_000
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
# What the ledger has of it.
CHARGED: Final = ChargeMade(
    job_id="charged", attempt=1, revision=1, account="physics", price_su="22.118400"
)


def old_state() -> dict[str, bytes]:
    return {key: bytes.fromhex(value) for key, value in RECORDED.items()}


def taken_up() -> PricingProcessor:
    """As a unit begins: what the ledger tells beyond the state is taken in first."""
    told = [Event("c", SOURCE, T0_US, "charged", CHARGED)]
    changes = recalled(old_state(), told)
    state = {**old_state(), **{k: v for k, v in changes.items() if v is not None}}
    return PricingProcessor(RULE, state)


def take(processor: PricingProcessor, payload: Message) -> None:
    event = Event(f"e{payload}", "test", T0_US, getattr(payload, "job_id", ""), payload)
    assert list(processor.handle(event)) == []


def end(processor: PricingProcessor, after_us: int) -> Mapping[str, ChargeMade]:
    ended = processor.end_round(Round(9, T0_US + after_us))
    made = [p.event.payload for p in ended if isinstance(p.event.payload, ChargeMade)]
    for charge in made:
        audit(charge)
    return {charge.job_id: charge for charge in made}


def finished(job: str) -> JobFinished:
    return JobFinished(
        job_id=job,
        attempt=1,
        user="ada",
        account="physics",
        cluster="c",
        nodes=4,
        cores_per_node=24,
        submitted_at_us=T0_US,
        started_at_us=T0_US,
        ended_at_us=T0_US + HOUR_US,
    )


def late_shutters() -> ShuttersMeasured:
    return ShuttersMeasured(
        job_id="charged",
        attempt=1,
        co_runner_job_id="other",
        began_at_us=T0_US,
        ended_at_us=T0_US + HOUR_US,
        shutters=[Shutter(ipc_before=1.0, ipc_during=2.0, ipc_after=1.0)],
    )


def test_the_bytes_are_those_of_a_form_without_accounts() -> None:
    facts = [PricingState.FromString(value) for value in old_state().values()]
    assert [each.WhichOneof("state") for each in facts] == [
        "attempt",
        "interval",
        "attempt",
        "attempt",
        "interval",
    ]
    assert not any(each.attempt.charged_account for each in facts)


def test_what_was_due_is_charged_once_and_what_runs_keeps_its_shutters() -> None:
    processor = taken_up()
    take(processor, finished("runs"))
    assert end(processor, 2 * HOUR_US) == {}
    charges = end(processor, 3 * HOUR_US)
    assert [(c.job_id, c.revision, c.price_su) for c in charges.values()] == [
        ("due", 1, "34.560000"),
        ("runs", 1, "22.118400"),
    ]
    assert end(processor, 4 * HOUR_US) == {}


def test_a_copy_of_what_was_charged_is_known_as_one() -> None:
    with pytest.raises(AlreadyAppliedError):
        take(taken_up(), finished("charged"))


def test_late_shutters_revise_by_the_rate_that_was_charged_by_whatever_was_declared_since() -> None:
    processor = taken_up()
    rates = [TariffRate(resource="core", su="7")]
    declared = TariffDeclared(
        name="t", version=1, from_us=T0_US, model=PRICE_MODEL_FAIR, rates=rates
    )
    take(processor, declared)
    take(processor, late_shutters())
    end(processor, 2 * HOUR_US)
    charge = end(processor, 3 * HOUR_US)["charged"]
    assert (charge.revision, charge.tariff, charge.price_su) == (2, "", "8.640000")
    assert [row.co_runner_job_id for row in charge.evidence] == ["other"]


def test_accounts_count_what_the_ledger_charged_before_there_were_accounts() -> None:
    processor = taken_up()
    take(processor, AllocationDeclared(account="physics", allocated_su="100", declared_at_us=1))
    [told] = [
        publish.event.payload
        for publish in processor.end_round(Round(9, T0_US + HOUR_US))
        if isinstance(publish.event.payload, AccountStanding)
    ]
    assert told.charged_su == "22.118400"
    take(processor, late_shutters())
    end(processor, 2 * HOUR_US)
    end(processor, 3 * HOUR_US)
    [saved] = [
        PricingState.FromString(value).account
        for key, value in processor.changes().items()
        if value is not None and key == "account\nphysics"
    ]
    # That of the attempt which was due, 34.56, and 8.64 in place of 22.1184.
    assert saved.charged_su == "43.200000"
