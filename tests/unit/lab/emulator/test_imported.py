"""EAR's reports in place of first runs on the emulated nodes."""

from pathlib import Path

import pytest
from coplace.v1.telemetry_pb2 import SignatureMeasured

from coplace_client.errors import UnusableError
from lab.emulator import ear_reports
from lab.emulator.app import emulator
from lab.emulator.imported import read_imported
from lab.emulator.settings import SimulationSettings
from lab.workloads.clusters import clusters
from lab.workloads.table1 import APPS

REPORTS = Path(__file__).parents[4] / "lab/demo/reports"


def measured_at_first(settings: SimulationSettings) -> dict[tuple[str, str], SignatureMeasured]:
    """What is known of each application before the first job."""
    events = emulator(settings).next_round().events
    found = [e.event.payload for e in events if isinstance(e.event.payload, SignatureMeasured)]
    return {(each.app_id, each.node_model): each for each in found if not each.kernel}


def test_the_reports_that_are_there_are_what_the_command_writes(tmp_path: Path) -> None:
    ear_reports.write(tmp_path, 1)
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_text() for path in REPORTS.iterdir()}


def test_what_is_imported_takes_the_place_of_a_first_run() -> None:
    settings = SimulationSettings(jobs=1, reports=REPORTS)
    before, after = measured_at_first(SimulationSettings(jobs=1)), measured_at_first(settings)
    assert before.keys() == after.keys()
    changed = {app_id for (app_id, _), each in after.items() if each != before[app_id, _]}
    assert changed == {*ear_reports.APPLICATIONS}
    for key, imported in read_imported(REPORTS, clusters()).items():
        [one] = imported
        seen = after[key]
        assert (seen.freq_ghz, seen.time_s, seen.power_w) == (one.freq_ghz, one.time_s, one.power_w)
        # EAR counts bytes, the demo's coefficients are for transactions.
        assert seen.tpi == pytest.approx(before[key].tpi, rel=0.05)
        assert seen.tpi_scale == before[key].tpi_scale


def test_reports_that_nobody_here_can_use_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(UnusableError, match=r"no report is there: reports are gold-6254\.csv"):
        read_imported(tmp_path, clusters())
    text = (REPORTS / "gold-6254.csv").read_text()
    for app_id in ear_reports.APPLICATIONS:
        text = text.replace(app_id, f"my-{app_id}")
    (tmp_path / "gold-6254.csv").write_text(text)
    with pytest.raises(UnusableError, match=f"these are {', '.join(APPS)}"):
        read_imported(tmp_path, clusters())
    (tmp_path / "epyc.csv").write_text(text)
    with pytest.raises(UnusableError, match=r"epyc\.csv is of no node model here"):
        read_imported(tmp_path, clusters())
