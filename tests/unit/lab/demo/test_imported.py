"""The clocks that jobs of the demo get from imported signatures."""

from pathlib import Path

import pytest
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.placement_pb2 import (
    PREDICTION_BASIS_FIRST_RUN,
    PREDICTION_BASIS_SIGNATURE,
    VERDICT_START,
    Candidate,
    PlacementDecided,
)
from coplace.v1.telemetry_pb2 import SignatureMeasured

from coplace_client.signature import Signature
from lab.demo.history import History
from lab.demo.imported import ClockFromImport, clocks_from_import, table
from tests.unit.cli.command_line import coplace
from tests.unit.lab.emulator.test_imported import REPORTS

IMPORTED = {
    (app_id, "gold-6254"): [Signature(app_id, "gold-6254", 3.1, 80.0, 365.0, 3.7, 1.4, 137.0, "x")]
    for app_id in ("STREAM", "DGEMM")
}


def started(job_id: str, at_us: int, freq_ghz: float, *, known: bool = True) -> PlacementDecided:
    basis = PREDICTION_BASIS_SIGNATURE if known else PREDICTION_BASIS_FIRST_RUN
    return PlacementDecided(
        job_id=job_id,
        attempt=1,
        verdict=VERDICT_START,
        cluster="p2",
        freq_ghz=freq_ghz,
        decided_at_us=at_us,
        candidates=[Candidate(cluster="p2", basis=basis)],
    )


def ended(job_id: str, at_us: int) -> JobFinished:
    return JobFinished(job_id=job_id, attempt=1, app_id="STREAM", cluster="p2", ended_at_us=at_us)


def history(*decisions: PlacementDecided) -> History:
    """Job a ends at 100 us, b at 200, both measured; c at 900, and of it nothing is."""
    return History(
        clusters=[ClusterDeclared(cluster="p2", node_model="gold-6254")],
        finished=[ended("a", 100), ended("b", 200), ended("c", 900)],
        signatures=[SignatureMeasured(job_id=job_id) for job_id in "ab"],
        submission_powers=[],
        decisions=[*decisions],
        charges=[],
        caps=[],
        done=[],
        broken=[],
    )


def test_the_first_job_gets_its_clock_from_the_import_until_one_was_measured() -> None:
    starts = started("a", 20, 1.2), started("b", 10, 1.3), started("c", 101, 1.4)
    stream, dgemm = clocks_from_import(history(*starts), IMPORTED)
    assert stream == ClockFromImport("STREAM", "gold-6254", [3.1], 2, "b", 1.3)
    assert dgemm == ClockFromImport("DGEMM", "gold-6254", [3.1], 0)
    rows = table(iter([stream, dgemm]))
    said_of = [*rows.columns[-1].cells]
    assert said_of == ["b: 1.3 GHz from the imported signature", "none ran there"]


def test_a_first_run_is_by_no_import() -> None:
    starts = [started(job_id, 10, 3.1, known=False) for job_id in "abc"]
    stream, _ = clocks_from_import(history(*starts), IMPORTED)
    assert stream.jobs == 0


@pytest.mark.rest
def test_the_demo_shows_the_clocks_of_jobs_that_only_reports_knew(tmp_path: Path) -> None:
    """STREAM costs least at low clocks, DGEMM is fastest at high ones; both were reported at the
    nominal one."""
    done = coplace("demo", "--jobs", 24, "--reports", REPORTS, "--out", tmp_path, COLUMNS="160")
    assert done.exit_code == 0, done.output
    told = [line for line in done.stdout.splitlines() if "GHz from the imported" in line]
    stream = next(line for line in told if "STREAM" in line and "gold-6254" in line)
    assert float(stream.split(": ")[1].split(" GHz")[0]) < 3.1
    assert {"bt-mz.C", "DGEMM", "STREAM"} == {line.split()[1] for line in told}
