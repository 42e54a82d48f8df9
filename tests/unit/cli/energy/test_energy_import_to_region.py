"""From EAR's reports to the P-state of a job: imported, pushed, and placed by a whole region."""

from pathlib import Path

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.placement_pb2 import (
    PREDICTION_BASIS_SIGNATURE,
    VERDICT_START,
    PlacementDecided,
)

from cli.energy.push import EnergyModels, Files
from coplace_testing import CLUSTERS, Region
from lab.papers.published_data import DATA
from services.energy.adapters.coefficients_csv import read_coefficients_file
from tests.support.data import needs_data
from tests.support.ear_reports import Applications, published, rows, text
from tests.unit.cli.command_line import said
from tests.unit.coplace_testing.jobs import job

NODE_MODEL = "platinum-8168"
TABLE = DATA / "eamc" / "normal_coefficients.csv"


def imported(applications: Applications, folder: Path) -> Path:
    report = folder / "report.csv"
    report.write_text(text(rows(applications, 21)))
    out = folder / "out"
    module = ("--module", NODE_MODEL, "--out", out, "--tpi-scale", "eamc-2020")
    said("energy", "import", report, *module)
    return out / "signatures.csv"


def region_of(*files: Path, **policy: str) -> Region:
    """One cluster of the published node, and what `coplace energy push` publishes of files."""
    pstates_ghz = read_coefficients_file(TABLE).pstates_ghz
    cluster = ClusterDeclared()
    cluster.CopyFrom(CLUSTERS[0])
    cluster.node_model = NODE_MODEL
    del cluster.pstates_ghz[:]
    cluster.pstates_ghz.extend(pstates_ghz)
    region = Region([cluster], {"policy": "min-energy", "start_timeout_s": "0", **policy})
    known = EnergyModels({}, {}, {NODE_MODEL: frozenset(pstates_ghz)})
    region.send(*Files.read(files, NODE_MODEL, known).envelopes("ear", "import", region.now_us))
    region.advance(10)
    return region


def placed(region: Region, app_id: str, number: int = 1) -> PlacementDecided:
    """The start of a job, the only one that arrives in its round."""
    region.send(job(region, number, app_id=app_id))
    region.advance(20)
    return next(d for d in reversed(region.decisions()) if d.verdict == VERDICT_START)


def at_one_clock(ghz: float) -> Applications:
    """The published applications as if they had only ever run there."""
    return {app: [at for at in clocks if at.ghz == ghz] * 5 for app, clocks in published().items()}


@needs_data
def test_a_job_whose_application_has_only_an_imported_signature_gets_its_p_state_from_it(
    tmp_path: Path,
) -> None:
    """Measured at the nominal clock; STREAM costs least at the lowest, EP in the middle."""
    region = region_of(TABLE, imported(at_one_clock(2.7), tmp_path))
    stream, ep = placed(region, "app8", 1), placed(region, "app2", 2)
    assert {d.candidates[0].basis for d in (stream, ep)} == {PREDICTION_BASIS_SIGNATURE}
    assert stream.freq_ghz == 1.2
    assert 1.8 <= ep.freq_ghz <= 2.4
    unknown = placed(region, "nobody ran it", 3)
    assert unknown.freq_ghz == 2.7
    assert region.dead_letters() == []


@needs_data
def test_without_coefficients_reports_at_several_clocks_are_enough(tmp_path: Path) -> None:
    region = region_of(imported(published(), tmp_path))
    stream = placed(region, "app8")
    assert stream.freq_ghz == 1.2
    assert stream.candidates[0].HasField("time_sd")


@needs_data
def test_a_second_clock_is_explored_within_the_budget_and_the_decision_says_so(
    tmp_path: Path,
) -> None:
    signatures = imported(at_one_clock(2.7), tmp_path)
    usual = placed(region_of(signatures), "app2")
    assert usual.freq_ghz == 2.7
    assert not usual.candidates[0].explores_from_ghz
    region = region_of(signatures, explore_share="0.02")
    found = [placed(region, "app2", number) for number in range(16)]
    explored = [d for d in found if d.candidates[0].explores_from_ghz]
    assert {(d.freq_ghz, d.candidates[0].explores_from_ghz) for d in explored} == {(2.5, 2.7)}
    # It may cost 8 % more there: a quarter of the jobs.
    assert 1 <= len(explored) <= 8
    again = region_of(signatures, explore_share="0.02")
    assert [placed(again, "app2", number).freq_ghz for number in range(16)] == [
        d.freq_ghz for d in found
    ]


@needs_data
def test_an_application_that_ran_at_two_clocks_explores_none(tmp_path: Path) -> None:
    region = region_of(imported(published(), tmp_path), explore_share="0.5")
    found = [placed(region, "app2", number) for number in range(6)]
    assert not any(d.candidates[0].explores_from_ghz for d in found)
