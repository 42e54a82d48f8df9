"""`coplace accounts`: allocations, periods and statements."""

import csv
import json
from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pytest
from coplace.v1.accounts_pb2 import WHEN_EMPTY_WARN
from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.pricing_pb2 import ChargeMade, InterferenceEvidence

from cli import billing
from cli.kafka_topics import KafkaTopics
from shared.catalogue.event import Event
from tests.unit.cli.command_line import published_by, rows_of, said

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
    return said("accounts", "statement", "physics", *options)


def as_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def test_an_allocation_and_the_end_of_a_period_are_declared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = published_by(billing, monkeypatch)
    told = said("accounts", "allocate", "physics", "12.5", "--when-empty=warn")
    assert "physics may spend 12.5 SU" in told
    assert sent[0].allocation_declared.allocated_su == "12.5"
    assert sent[0].allocation_declared.when_empty == WHEN_EMPTY_WARN
    assert "2026-02-01T00:00:00Z" in said("accounts", "close", "2026-02-01")
    assert sent[1].period_closed.until_us == T0_US + 31 * 24 * HOUR_US


def test_a_statement_reverses_what_was_replaced(ledger: list[ChargeMade]) -> None:
    ledger += [charge(1, "2.000000"), charge(2, "1.280000"), charge(2, "1.280000")]
    rows = as_csv(statement())
    assert [(row["BilledCost"], row["ChargeCategory"]) for row in rows] == [
        ("2.000000", "Usage"),
        ("-2.000000", "Adjustment"),
        ("1.280000", "Adjustment"),
    ]
    assert [row["ConsumedQuantity"] for row in rows] == ["4.000000", "-4.000000", "4.000000"]
    assert {row["SkuId"] for row in rows} == {"t/1"}


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
