"""`coplace accounts`: allocations, periods and statements."""

import csv
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import pytest
from coplace.v1.accounts_pb2 import (
    STANDING_FUNDED,
    STANDING_WARNED,
    WHEN_EMPTY_WARN,
    AccountStanding,
    PeriodClosed,
)
from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.pricing_pb2 import ChargeMade, InterferenceEvidence
from google.protobuf.message import Message

from cli import billing
from cli.kafka_topics import KafkaTopics
from services.pricing.accounts.focus import billing_period
from shared.catalogue.event import Event
from tests.unit.cli.command_line import coplace, published_by, refusal, rows_of, said

HOUR_US = 3_600_000_000
T0_US = 1_767_225_600_000_000


def charge(revision: int, price_su: str, account: str = "physics", **others: Any) -> ChargeMade:
    finished = JobFinished(started_at_us=T0_US, ended_at_us=T0_US + HOUR_US)
    others = {"booked_at_us": T0_US + HOUR_US, "account": account, "cluster": "alpha", **others}
    made = ChargeMade(job_id="<job>", attempt=1, revision=revision, price_su=price_su, **others)
    made.state_of_practice_su, made.cores, made.runtime_s = "2.000000", 4, 3600
    made.tariff, made.tariff_version = "t", 1
    made.finished.CopyFrom(finished)
    return made


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> list[ChargeMade]:
    """The charges that the topic holds; nobody asks an installation."""
    found: list[ChargeMade] = []

    def topic(_topics: KafkaTopics, _name: str) -> Iterable[Event]:
        return [Event(str(n), "pricing", T0_US, c.job_id, c) for n, c in enumerate(found)]

    monkeypatch.setattr(KafkaTopics, "topic", topic)
    monkeypatch.setattr(KafkaTopics, "__init__", lambda *_: None)
    return found


def statement(*options: str) -> str:
    """As CSV, where no option says otherwise: of two the later counts."""
    return said("accounts", "statement", "physics", "--format=csv", *options)


def as_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def test_an_allocation_and_the_end_of_a_period_are_declared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = published_by(billing, monkeypatch)
    bio = AccountStanding(account="bio", number=9, standing=STANDING_FUNDED)
    standings = [
        AccountStanding(
            account="physics",
            number=number,
            standing=STANDING_WARNED,
            allocated_su=f"{number}.500000",
            charged_su="20.000000",
            reserved_su="0.000000",
        )
        for number in (11, 12, 2)
    ]
    closed = [PeriodClosed(until_us=T0_US + days * 24 * HOUR_US) for days in (40, 31)]
    topics: dict[str, Sequence[Message]] = {
        "accounts.standings": [*standings, bio],
        "billing": closed,
    }

    def topic(_topics: KafkaTopics, name: str) -> Iterable[Event]:
        return [Event("e", "pricing", T0_US, "k", each) for each in topics[name]]

    monkeypatch.setattr(KafkaTopics, "topic", topic)
    monkeypatch.setattr(KafkaTopics, "__init__", lambda *_: None)
    told = said("accounts", "allocate", "physics", "12.5", "--when-empty=warn")
    assert "physics may spend 12.5 SU" in told
    assert told.splitlines()[-1] == (
        "pricing now has: 12.500000 SU allocated to physics, 20.000000 SU charged, "
        "0.000000 SU reserved for runs: warned"
    )
    assert sent[0].allocation_declared.allocated_su == "12.5"
    assert sent[0].allocation_declared.when_empty == WHEN_EMPTY_WARN
    told = said("accounts", "close", "2026-02-01")
    assert "2026-02-01T00:00:00Z" in told
    assert told.splitlines()[-1] == "pricing now has: periods closed until 2026-02-10T00:00:00Z"
    assert sent[1].period_closed.until_us == T0_US + 31 * 24 * HOUR_US


def test_a_statement_reverses_what_was_replaced(ledger: list[ChargeMade]) -> None:
    ledger += [charge(1, "2.000000"), charge(2, "1.280000"), charge(2, "1.280000")]
    rows = as_csv(statement())
    assert [row["BilledCost"] for row in rows] == ["2.000000", "-2.000000", "1.280000"]
    assert [row["ConsumedQuantity"] for row in rows] == ["4.000000", "-4.000000", "4.000000"]
    assert {(row["SkuId"], row["SkuPriceId"]) for row in rows} == {("batch-jobs/t", "t/1")}


def test_a_statement_counts_parts_of_cores(ledger: list[ChargeMade]) -> None:
    ledger.append(charge(1, "0.250000", millicores=3_250))
    [row] = as_csv(statement())
    assert row["ConsumedQuantity"] == "3.250000"


def test_a_revision_corrects_nothing_that_was_billed_until_its_period_is_closed(
    ledger: list[ChargeMade],
) -> None:
    """A correction within the billing period is of no class, by FOCUS (`ChargeClass`)."""
    ledger += [charge(1, "2.000000"), charge(2, "1.500000")]
    ledger.append(charge(3, "1.280000", booked_at_us=T0_US + 24 * HOUR_US))
    rows = as_csv(statement())
    assert {row["ChargeCategory"] for row in rows} == {"Usage"}
    assert [(row["PricingQuantity"], row["ChargeClass"]) for row in rows] == [
        ("2.000000", ""),
        ("-2.000000", ""),
        ("2.000000", ""),
        ("-2.000000", "Correction"),
        ("2.000000", "Correction"),
    ]


def test_costs_are_in_the_currency_of_the_tariff_and_prices_in_service_units(
    ledger: list[ChargeMade],
) -> None:
    ledger.append(charge(1, "1.280000", currency="EUR", su_cost="0.025"))
    [row] = as_csv(statement())
    costs = ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost", "ListUnitPrice")
    assert [row[name] for name in costs] == [
        *("0.032000000", "0.032000000", "0.050000000", "0.050000000", "0.025")
    ]
    assert (row["BillingCurrency"], row["PricingCurrency"]) == ("EUR", "SU")
    assert row["PricingCurrencyEffectiveCost"] == "1.280000"
    assert (row["RegionName"], row["SubAccountName"]) == ("alpha", "physics")


def test_without_a_currency_costs_are_in_service_units_and_a_note_says_so(
    ledger: list[ChargeMade],
) -> None:
    ledger += [charge(1, "1.280000", currency="EUR", su_cost="2"), charge(2, "1.000000")]
    done = coplace("accounts", "statement", "physics", "--format=csv")
    assert [row["BillingCurrency"] for row in as_csv(done.stdout)] == ["EUR", "EUR", ""]
    assert [row["BilledCost"] for row in as_csv(done.stdout)] == [
        "2.560000",
        "-2.560000",
        "1.000000",
    ]
    assert "1 rows are in service units" in done.stderr


def test_a_billing_period_is_a_month_cut_where_periods_were_closed() -> None:
    day_us = 24 * HOUR_US
    month = T0_US, T0_US + 31 * day_us
    assert billing_period(T0_US, ()) == billing_period(month[1] - 1, ()) == month
    closed_us = (T0_US - 7 * day_us, T0_US + 10 * day_us)
    assert billing_period(T0_US, closed_us) == (T0_US, closed_us[1])
    assert billing_period(closed_us[1], closed_us) == (closed_us[1], month[1])


def test_both_statement_commands_are_one_and_know_the_accounts(ledger: list[ChargeMade]) -> None:
    ledger += [charge(1, "2.000000"), charge(2, "1.280000")]
    told = said("statement", "physics")
    assert told == said("accounts", "statement", "physics")
    cells = [[cell.strip() for cell in line.split("|")] for line in told.splitlines()[3:]]
    assert [(each[1], each[4]) for each in cells if len(each) > 4] == [
        *(("<job>", "2.000000"), ("<job>, reversed", "-2.000000")),
        *(("<job>", "1.280000"), ("in all", "1.280000")),
    ]
    for words in (("statement",), ("accounts", "statement")):
        assert "no account that was charged 'physisc': known are physics" in refusal(
            *words, "physisc"
        )


def test_with_a_slash_at_its_end_an_account_is_all_below_it(ledger: list[ChargeMade]) -> None:
    """As of a namespace of Kubernetes, whose queues are accounts."""
    ledger += [charge(1, "2.000000", "physics/main"), charge(1, "9.000000", "physics")]
    other = charge(1, "0.500000", "physics/night")
    other.job_id = "<other>"
    ledger.append(other)
    for asked, price in (("physics/", "2.500000"), ("physics/night", "0.500000")):
        last = said("statement", asked).splitlines()[-2]
        assert [cell.strip() for cell in last.split("|")][1:5:3] == ["in all", price]
    assert "known are physics, physics/, physics/main" in refusal("statement", "phys/")


def test_what_is_late_is_in_the_statement_of_the_next_period(ledger: list[ChargeMade]) -> None:
    ledger.append(charge(1, "2.000000"))
    before = statement("--to=2026-01-02", "--format=json")
    ledger.append(charge(2, "1.280000", booked_at_us=T0_US + 24 * HOUR_US))
    assert statement("--to=2026-01-02", "--format=json") == before
    *rows, balance = rows_of(statement("--from=2026-01-02", "--format=json"))
    assert [row["BilledCost"] for row in rows] == ["-2.000000", "1.280000"]
    assert (balance["opening_su"], balance["closing_su"]) == ("2.000000", "1.280000")


def test_a_statement_says_who_slowed_a_run_down_and_the_parts_sum_to_its_discount(
    ledger: list[ChargeMade],
) -> None:
    def beside(name: str, seconds: int) -> InterferenceEvidence:
        return InterferenceEvidence(co_runner_job_id=name, duration_s=seconds, slowdown_ratio=1.5)

    names = ("<a>", "b", "c")
    rows = [beside(name, 700) for name in names]
    ledger += [charge(1, "1.999999", evidence=rows[:1]), charge(2, "1.280000", evidence=rows)]
    for each in ledger:
        each.finished.energy_j = 1e6
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for row in as_csv(statement()):
        parts = json.loads(row["x_SlowedDownBy"])
        of_row = sum((Decimal(part["discount_su"]) for part in parts), Decimal(0))
        assert of_row == Decimal(row["ListCost"]) - Decimal(row["BilledCost"])
        assert abs(sum(Decimal(part["share"]) for part in parts)) == 1
        for part in parts:
            sums[part["job"]] += Decimal(part["energy_j"])
    energies = map(Decimal, ("64814.815", "64814.815", "64814.814"))
    assert sums == dict(zip(names, energies, strict=True))
    *listed, _ = rows_of(statement("--format=json"))
    assert [part["job"] for part in listed[-1]["x_SlowedDownBy"]] == [*names]
    shown = statement("--format=html")
    assert "&lt;job&gt;" in shown
    assert "<job>" not in shown
    assert "&lt;a&gt;: 33.3334 %, 0.240000 SU, 64814.815 J; b: 33.3333 %" in shown


def test_both_sides_of_the_charges_sum_to_nothing(ledger: list[ChargeMade]) -> None:
    ledger += [charge(1, "2.000000"), charge(2, "1.280000", account="bio")]
    rows = as_csv(said("accounts", "balance", "--output=csv"))
    assert {row["account"]: row["balance SU"] for row in rows} == {
        "account bio": "1.280000",
        "account physics": "0.000000",
        "operator": "-1.280000",
    }
