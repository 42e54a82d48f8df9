"""The table says what was measured beside what others do, and a picture goes with it."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import orjson
from rich.console import Console

from lab.benchmarks.system import report
from lab.benchmarks.system.run import Measured
from tests.unit.lab.benchmarks.system.test_step import SEEN

MEASURED = Measured(
    queued=10_000,
    embedded_jobs_per_s=2000.0,
    waiting=[SEEN, replace(SEEN, rate_per_s=750.0, p99_ms=5000.0)],
    flowing=[replace(SEEN, rate_per_s=100.0)],
    samples_per_s=70_000.0,
    rss_bytes={"kafka": 500 << 20},
    cores=2,
    load_1min_before=0.5,
    took_s=200.0,
)


def printed(measured: Measured) -> str:
    console = Console(record=True, width=120, file=StringIO())
    console.print(report.table(measured))
    return console.export_text()


def test_the_highest_sustained_rate_is_beside_what_others_do() -> None:
    text = printed(MEASURED)
    [sustained] = [line for line in text.splitlines() if "every service a process" in line]
    assert "500 /s" in sustained
    assert "Slurm" in text
    assert "Kueue" in text
    assert "500 MiB" in text


def test_a_system_that_sustains_nothing_says_so() -> None:
    text = printed(replace(MEASURED, waiting=[replace(SEEN, late=1)]))
    assert "no rate was sustained" in text
    assert "not sustained" in text


def test_files_hold_what_was_measured(tmp_path: Path) -> None:
    report.write(MEASURED, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(report.FILES)
    written = orjson.loads((tmp_path / "bench.json").read_bytes())
    assert written["waiting"][0]["p99_ms"] == SEEN.p99_ms
