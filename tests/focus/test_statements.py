"""Statements against the validator of the FinOps Foundation, by the rules of FOCUS 1.2."""

import re
import subprocess
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest
from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.pricing_pb2 import ChargeMade, InterferenceEvidence

from cli.billing import Format, text_of
from services.pricing.accounts.statement import ChargeEntry, postings, statement_of

pytestmark = pytest.mark.rest

VALIDATOR: Final = Path(__file__).parents[2] / ".venv/focus"
HOUR_US: Final = 3_600_000_000
T0_US: Final = 1_767_225_600_000_000
# What Coplace supports of FOCUS: rules of the rest are of clouds alone.
SUPPORTED: Final = (
    *("ACCOUNT_NAMING", "USAGE_MEASUREMENT", "UNIT_PRICING", "SUB_ACCOUNT", "REGION"),
    *("BILLING_BASED_ON_PROVISIONED_RESOURCES", "RESOURCE_TYPE_ASSIGNMENT", "NEGOTIATED_PRICING"),
    *("PRICING_BILLING_CURRENCY_DIFFERENCES", "VIRTUAL_CURRENCY", "PUBLIC_PRICE_LIST"),
    *("MULTIPLE_SUB_ACCOUNT_TYPES", "MULTIPLE_BILLING_ACCOUNT_TYPES"),
    "MULTIPLE_PRICING_CATEGORIES",
)
# The validator asks of InvoiceId that it be null and that it be not (C-004, C-005: either is
# right), and of the pricing currency that it be a national one, where the specification's
# CurrencyFormat has virtual ones.
MISTAKEN: Final = {"InvoiceId-C-004-C", "PricingCurrency-C-000-C", "PricingCurrency-C-003-M"}


def charge(number: int, revision: int, **others: Any) -> ChargeMade:
    made = ChargeMade(job_id=f"j{number}", attempt=1, revision=revision, **others)
    made.price_su, made.state_of_practice_su = f"{2 - revision * 0.25:.6f}", "2.000000"
    made.account, made.cluster, made.cores, made.runtime_s = "physics", "alpha", 4, 3600
    made.finished.CopyFrom(JobFinished(started_at_us=T0_US, ended_at_us=T0_US + HOUR_US))
    return made


def charges() -> Iterable[ChargeMade]:
    """Of each kind that a statement has: revised in an open and in a closed period, surcharged, by
    a whole price of a unit and by one with decimals."""
    slowed = InterferenceEvidence(
        co_runner_job_id="other",
        duration_s=700,
        slowdown_ratio=1.5,
        co_runner_account="physics",
        surcharge_su="0.100000",
    )
    kinds = product((1, 2), (0, 24), ("2", "0.025"), ([], [slowed]))
    for number, (revisions, late_h, su_cost, evidence) in enumerate(kinds):
        for revision in range(1, revisions + 1):
            yield charge(
                number,
                revision,
                booked_at_us=T0_US + HOUR_US * (1 + late_h * (revision - 1)),
                tariff="2026",
                tariff_version=1,
                currency="EUR",
                su_cost=su_cost,
                evidence=evidence,
            )


def failures(csv: Path, *options: str) -> set[str]:
    """The rules that a file fails, of those that hold for it."""
    # It finds its table of currencies beside itself alone.
    [beside] = VALIDATOR.glob("lib/python3*/site-packages")
    words = ("--validate-version=1.2", "--block-download", "--output-type=console", *options)
    done = subprocess.run(
        [VALIDATOR / "bin/focus-validator", f"--data-file={csv}", *words],
        cwd=beside,
        capture_output=True,
        text=True,
        check=True,
    )
    [(total, passed)] = set(re.findall(r"Total: (\d+) \| Pass: (\d+)", done.stdout))
    assert int(total) > 500
    assert int(passed) > 100
    return set(re.findall(r"❌ (\S+): FAIL", done.stdout))


@pytest.fixture(scope="module")
def statement(tmp_path_factory: pytest.TempPathFactory) -> Path:
    posted = postings(map(ChargeEntry.from_charge, charges()))
    found = statement_of("physics", posted, T0_US, 2 * T0_US, [T0_US + 25 * HOUR_US])
    file = tmp_path_factory.mktemp("focus") / "statement.csv"
    file.write_text(text_of(found, Format.CSV))
    return file


@pytest.mark.parametrize("supported", [(), SUPPORTED], ids=["usual rules", "rules of all we have"])
def test_a_statement_keeps_the_rules_of_focus(statement: Path, supported: tuple[str, ...]) -> None:
    criteria = ",".join(f"{each}_SUPPORTED" for each in supported)
    options = [f"--applicability-criteria={criteria}"] if criteria else []
    assert failures(statement, *options) <= MISTAKEN


def test_the_validator_sees_what_was_wrong_once(statement: Path, tmp_path: Path) -> None:
    wrong = statement.read_text().replace(",EUR,", ",SU,").replace("BillingAccountName", "x_Name")
    (tmp_path / "wrong.csv").write_text(wrong)
    found = failures(tmp_path / "wrong.csv")
    assert {"BillingCurrency-C-003-M", "CostAndUsage-D-005-M"} <= found
