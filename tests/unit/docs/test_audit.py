"""The audit that billing copies agrees with the service that made the charges."""

import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.pricing_pb2 import ChargeMade

from shared.pricing.charge import AttemptEnd, ChargeRevision, charge_message
from shared.pricing.model import Evidence
from tests.support.snippets import HOW_TO, write_programs

_STARTED_US = 1_767_225_600_000_000


def _charge(job_id: str, runtime_us: int, *evidence: Evidence) -> ChargeMade:
    ended_us = _STARTED_US + runtime_us
    finished = JobFinished(job_id=job_id, attempt=1, account="physics", nodes=3, cores_per_node=18)
    finished.started_at_us, finished.ended_at_us = _STARTED_US, ended_us
    revision = ChargeRevision(1, ended_us)
    return charge_message(AttemptEnd(finished), revision, Decimal("0.000277"), evidence)


def _audit(folder: Path, charges: Sequence[ChargeMade]) -> subprocess.CompletedProcess[str]:
    write_programs(HOW_TO / "bill-from-prices.md", folder)
    ledger = sqlite3.connect(folder / "ledger.sqlite")
    with ledger:
        ledger.execute("CREATE TABLE charge (message BLOB)")
        messages = [(charge.SerializeToString(),) for charge in charges]
        ledger.executemany("INSERT INTO charge VALUES (?)", messages)
    ledger.close()
    command = [sys.executable, "audit.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_what_pricing_charges_is_proved_to_the_last_digit(tmp_path: Path) -> None:
    alone = _charge("north/alpha/1/1767225600", 3_600_123_457)
    cancelled = JobFinished(job_id="north/alpha/2/1767225600", nodes=1, cores_per_node=1)
    never_ran = charge_message(
        AttemptEnd(cancelled), ChargeRevision(1, _STARTED_US), Decimal("0.000277"), ()
    )
    shared = _charge(
        "north/alpha/3/1767225600",
        7_200_000_001,
        Evidence("north/alpha/4/1767225600", 1_234_567_891, 1.0 / 0.7, 17, 2),
        Evidence("north/alpha/5/1767225600", 333_333_333, 1.123456789012345, 3, 1),
    )
    result = _audit(tmp_path, [alone, never_ran, shared])
    assert result.stdout == "3 charges, 0 without proof\n", result.stderr
    assert result.returncode == 0


def test_a_price_that_its_evidence_does_not_give_is_named(tmp_path: Path) -> None:
    charge = _charge("north/alpha/1/1767225600", 3_600_000_000)
    charge.price_su = str(Decimal(charge.price_su) + Decimal("0.000001"))
    result = _audit(tmp_path, [charge])
    assert "north/alpha/1/1767225600: charged" in result.stdout
    assert result.returncode == 1
