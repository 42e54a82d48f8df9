"""What the how-to of the archive prints for analysts runs, and adds up."""

import os
import subprocess
import sys
from pathlib import Path

from coplace.v1.pricing_pb2 import ChargeMade

from shared.archive.index import Cut
from shared.archive.record import ArchivedRecord
from shared.archive.storage import LocalFolder
from shared.archive.writing import PartitionArchive
from tests.support.snippets import HOW_TO, write_programs

_TOPIC = "prices.charges"


def _charge(offset: int, job: str, revision: int, account: str, price_su: str) -> ArchivedRecord:
    payload = ChargeMade(
        job_id=job, attempt=1, revision=revision, account=account, price_su=price_su
    )
    headers = (("ce_id", job.encode()), ("ce_type", b"coplace.v1.ChargeMade"))
    value = payload.SerializeToString()
    return ArchivedRecord(_TOPIC, 0, offset, 0, job.encode(), value, headers)


def test_the_example_adds_up_what_each_account_was_charged(tmp_path: Path) -> None:
    """In full files and in the tail, the last revision alone."""
    archive = PartitionArchive.resume(LocalFolder(tmp_path / "a"), _TOPIC, 0, "00", 0, Cut(4))
    archive.add(
        [
            _charge(0, "a", 1, "physics", "1.000001"),
            _charge(1, "b", 1, "physics", "2.000000"),
            _charge(2, "c", 1, "chemistry", "0.500000"),
            _charge(5, "b", 2, "physics", "0.000001"),
        ]
    )
    archive.write(with_tail=True)
    write_programs(HOW_TO / "archive.md", tmp_path)
    done = subprocess.run(
        [sys.executable, tmp_path / "spending.py", tmp_path / "a"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["chemistry 0.500000", "physics 1.000002"]
