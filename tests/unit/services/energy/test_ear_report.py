"""EAR's own reports, of every version, and what is learned of them."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from coplace_client.errors import RejectedError
from lab.papers.published_data import DATA
from services.energy.adapters.ear_kinds import Understood, separate_kinds
from services.energy.adapters.ear_report import (
    BROKEN,
    COPY,
    MIXED,
    NOTHING_MEASURED,
    POWER_LIMIT,
    TPI_SCALE,
    UNLIKE,
    pstate_ghz,
    read_report,
    read_reports,
    write_accounting,
)
from services.energy.adapters.signatures_csv import read_signatures, write_signatures
from tests.support.data import needs_data
from tests.support.ear_reports import Behaviour, rows, text
from tests.unit.services.energy.files import read

REPORT = (
    "JOBID;STEPID;JOBNAME;NODENAME;AVG_CPUFREQ_KHZ;DEF_FREQ_KHZ;TIME_SEC;CPI;TPI;MEM_GBS;"
    "DC_NODE_POWER_W\n"
    "7;4294967291;stencil;n1;2758546;2451000;327.0;0.0;0.0;0.0;300.0\n"
    "7;0;stencil;n1;3234000;2451000;100.0;0.4;0.2;20.0;340.0\n"
    "7;0;stencil;n2;3234000;2451000;110.0;0.6;0.4;30.0;360.0\n"
)
# Names, as versions have written them; each column has the same in all.
NAMES = {
    "JOBID": ("JOBID", "JOB_ID"),
    "JOBNAME": ("APPNAME", "APP_ID"),
    "NODENAME": ("NODENAME", "NODE_ID"),
    "AVG_CPUFREQ_KHZ": ("AVG.FREQ", "AVG.CPUFREQ"),
    "DEF_FREQ_KHZ": ("DEF.FREQ", "DEF.FREQ"),
    "TIME_SEC": ("TIME", "TIME"),
    "MEM_GBS": ("GBS", "GBS"),
    "DC_NODE_POWER_W": ("DC-NODE-POWER", "DC-NODE-POWER"),
}
# Two applications that no table of coefficients made.
MADE_UP = {
    "stencil": [
        Behaviour(ghz, 40 + 90 / ghz, 150 + 60 * ghz, 0.3 + 0.2 * ghz, 3.0)
        for ghz in (1.2, 1.6, 1.9, 2.3, 2.7)
    ],
    "dense": [
        Behaviour(ghz, 5 + 200 / ghz, 120 + 90 * ghz, 0.4, 0.02)
        for ghz in (1.2, 1.6, 1.9, 2.3, 2.7)
    ],
}


def understood(path: Path) -> Understood:
    return separate_kinds([run for report in read_reports([path]) for run in report.runs])


def written(folder: Path, content: str) -> Path:
    path = folder / "report.csv"
    path.write_text(content)
    return path


def made_up(folder: Path, seed: int = 1) -> Path:
    return written(folder, text(rows(MADE_UP, seed)))


def test_a_report_is_read_in_its_own_units_and_a_run_without_counters_is_never_projected(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, REPORT)
    blind, run, _ = runs = read_report(path).runs
    assert (run.freq_ghz, run.avg_freq_ghz, run.time_s, run.mem_gbps) == (3.2, 3.234, 100, 20)
    assert run.energy_j == 34_000
    [kind] = separate_kinds(runs).kinds
    [mean] = kind.signatures("amd", TPI_SCALE)
    assert (mean.time_s, mean.power_w, mean.cpi, mean.count) == (110, 350, 0.5, 1)
    assert mean.tpi_scale == TPI_SCALE
    with pytest.raises(RejectedError, match="cpi"):
        blind.signature("amd")
    write_accounting(tmp_path / "accounting.csv", runs)
    accounts = read(tmp_path / "accounting.csv")
    assert next((float(r["energy_j"]), r["is_projectable"]) for r in accounts) == (98_100, "0")
    write_signatures(tmp_path / "signatures.csv", [mean])
    [row] = read_signatures(tmp_path / "signatures.csv")
    assert (row.signature.cpi, row.signature.tpi_scale, row.module) == (0.5, TPI_SCALE, "amd")


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("300.0", "-300.0", "DC_NODE_POWER_W"),
        ("327.0", "nan", "TIME_SEC"),
        (";0.4;", ";-0.4;", "CPI"),
        ("3234000", "0", "AVG_CPUFREQ_KHZ"),
    ],
)
def test_a_row_that_cannot_be_is_skipped_and_named_and_the_others_are_read(
    old: str, new: str, field: str, tmp_path: Path
) -> None:
    bad = REPORT.replace(old, new, 1)
    report = read_report(written(tmp_path, bad))
    [reason] = report.skipped
    assert re.match(rf"{field}: .* in row \d \(line \d\) of .* \(the first of them\)$", reason)
    assert len(report.runs) == 2
    alone = [line for line in bad.splitlines() if line not in REPORT.splitlines()]
    with pytest.raises(RejectedError, match=r"row 1 \(line 2\) of") as caught:
        read_report(written(tmp_path, "\n".join([REPORT.splitlines()[0], *alone])))
    assert caught.value.field == field


@pytest.mark.parametrize("counted", ["nan", "-nan", "inf", ""])
def test_a_row_whose_cpi_is_no_number_counts_for_its_energy(counted: str, tmp_path: Path) -> None:
    report = read_report(written(tmp_path, REPORT.replace(";0.4;0.2;", f";{counted};-nan;")))
    assert [run.is_projectable for run in report.runs] == [False, False, True]
    assert report.runs[1].energy_j == 34_000


def test_a_row_of_another_width_is_skipped_and_counted(tmp_path: Path) -> None:
    cut = REPORT[: REPORT.rindex(";340.0")] + "\n" + REPORT.splitlines()[3] + ";x\n"
    report = read_report(written(tmp_path, cut))
    assert report.skipped == Counter({BROKEN: 2})
    assert [run.power_w for run in report.runs] == [300.0]
    with pytest.raises(RejectedError, match="columns: must be 11, as in the header, in row 1"):
        read_report(written(tmp_path, "\n".join([REPORT.splitlines()[0], "7;0;stencil"])))


def test_empty_columns_at_the_end_of_rows_or_the_header_count_for_nothing(tmp_path: Path) -> None:
    header, *below = REPORT.splitlines()
    expected = read_report(written(tmp_path, REPORT)).runs
    for titles, end in ((header, ";"), (f"{header};", ""), (f"{header};", ";")):
        path = written(tmp_path, "\n".join([titles, *(line + end for line in below)]))
        assert read_report(path).runs == expected


def test_reports_one_behind_the_other_are_read_each_by_its_own_header(tmp_path: Path) -> None:
    names = [NAMES[name][1] if name in NAMES else name for name in REPORT.split("\n")[0].split(";")]
    later = "8,0,stencil,n1,3234000,2451000,90.0,0.4,0.2,20.0,345.0"
    turned = [",".join(reversed(line)) for line in (names, later.split(","))]
    report = read_report(written(tmp_path, "\n".join([REPORT, *turned])))
    assert [(run.job_id, run.power_w) for run in report.runs][2:] == [("7", 360.0), ("8", 345.0)]
    assert report.form == (
        "signatures of applications (AVG_CPUFREQ_KHZ) and signatures of applications (AVG.CPUFREQ)"
    )
    with pytest.raises(RejectedError, match="a column TPI is missing"):
        read_report(written(tmp_path, "\n".join([REPORT, turned[0].replace("TPI", "TPC")])))


def test_a_name_that_is_no_utf_8_is_one_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    path.write_bytes(REPORT.replace("stencil", "Bär").encode("latin-1"))
    assert {run.app_id for run in read_report(path).runs} == {"B\ufffdr"}


def test_rows_that_are_there_twice_count_once(tmp_path: Path) -> None:
    path = written(tmp_path, REPORT + REPORT)
    assert read_report(path).runs == read_report(written(tmp_path, REPORT)).runs
    first, second = read_reports([written(tmp_path, REPORT)] * 2)
    assert (len(first.runs), len(second.runs), second.skipped) == (3, 0, Counter({COPY: 3}))


@pytest.mark.parametrize("above", ["\n", "# eacct -c report.csv\n", "sep=;\n", "\ufeff"])
def test_what_is_above_the_header_counts_for_nothing(above: str, tmp_path: Path) -> None:
    report = read_report(written(tmp_path, above + REPORT))
    assert report.runs == read_report(written(tmp_path, REPORT)).runs
    with pytest.raises(RejectedError, match="has a header and no rows"):
        read_report(written(tmp_path, above + REPORT.splitlines()[0]))


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("separator", [";", ",", "\t", "|"])
def test_columns_are_recognised_by_names_of_every_version_in_any_order(
    version: int, separator: str, tmp_path: Path
) -> None:
    lines = [line.split(";") for line in REPORT.splitlines()]
    names = [NAMES[name][version] if name in NAMES else name for name in lines[0]]
    turned = [[*reversed(line), "17"] for line in (names, *lines[1:])]
    turned[0][-1] = "L3_MISSES"
    path = written(tmp_path, "\n".join(separator.join(line) for line in turned))
    assert read_report(path).runs == read_report(written(tmp_path, REPORT)).runs


def test_a_file_that_is_no_report_of_ear_is_named(tmp_path: Path) -> None:
    with pytest.raises(RejectedError, match="is not a report of EAR: a column CPI is missing"):
        read_report(written(tmp_path, REPORT.replace("CPI", "IPC")))


def test_a_step_without_counters_has_what_the_node_manager_measured(tmp_path: Path) -> None:
    manager = "NODEMGR_DC_NODE_POWER_W;NODEMGR_TIME_SEC;NODEMGR_AVG_CPUFREQ_KHZ"
    header, _, run, _ = REPORT.splitlines()
    step = "8;0;bash;n1;0;0;0;0;0;0;0;310.5;300;2390000"
    nothing = "9;0;bash;n1;0;0;0;0;0;0;0;0;0;0"
    report = read_report(
        written(tmp_path, "\n".join([f"{header};{manager}", f"{run};0;0;0", step, nothing]))
    )
    bash = report.runs[1]
    assert (bash.time_s, bash.power_w, bash.energy_j, bash.freq_ghz) == (300, 310.5, 93_150, 2.4)
    assert not bash.is_projectable
    assert report.skipped == {NOTHING_MEASURED: 1}


@pytest.mark.parametrize(
    ("measured_ghz", "asked_ghz", "ghz"),
    [
        (2.387, 2.4, 2.4),
        (2.8, 2.401, 2.8),
        (2.394, 2.401, 2.4),
        (1.234, 2.401, 1.2),
        (2.449, 2.451, 2.45),
        (3.234, 2.451, 3.2),
        (1.9, 0.0, 1.9),
    ],
)
def test_the_clock_is_the_one_that_was_measured(
    measured_ghz: float, asked_ghz: float, ghz: float
) -> None:
    assert pstate_ghz(measured_ghz, asked_ghz) == ghz


def test_what_a_limit_of_power_held_and_what_is_unlike_the_others_teaches_nothing(
    tmp_path: Path,
) -> None:
    found = understood(made_up(tmp_path))
    assert Counter(run.mark for run in found.runs if run.mark) == {POWER_LIMIT: 4, UNLIKE: 1}
    learned = [run for kind in found.kinds for step in kind.steps for run in step.runs]
    assert not any(run.mark for run in learned)
    assert {run.power_w for run in found.runs if run.mark == POWER_LIMIT} == {300.0}


def test_whole_watts_are_no_limit_unless_they_are_the_most_and_the_most_frequent(
    tmp_path: Path,
) -> None:
    def marks(watts: Sequence[int]) -> int:
        head, _, run, _ = REPORT.splitlines()
        runs = (
            run.replace("7;0;", f"{n};0;").replace("340.0", str(w)) for n, w in enumerate(watts)
        )
        found = read_reports([written(tmp_path, "\n".join([head, *runs]))])
        return sum(run.mark == POWER_LIMIT for run in found[0].runs)

    assert marks([338, 339, 340, 341, 342, 340, 340, 341, 338]) == 0
    assert marks([338, 345, 345, 345, 342, 340, 345, 341, 338]) == 4


def test_steps_of_one_name_are_separate_kinds_and_the_one_with_most_energy_has_it(
    tmp_path: Path,
) -> None:
    kinds = {kind.app_id: kind for kind in understood(made_up(tmp_path)).kinds}
    assert sorted(kinds) == ["dense", "dense/2", "stencil", "stencil/2"]
    assert {step.mean.step_id for step in kinds["stencil"].steps} == {"1"}
    assert {step.mean.step_id for step in kinds["stencil/2"].steps} == {"0"}


def test_clocks_of_policies_and_turbo_are_clocks_of_their_own(tmp_path: Path) -> None:
    for kind in understood(made_up(tmp_path)).kinds:
        assert [at.freq_ghz for at in kind.clocks()] == [1.2, 1.6, 1.9, 2.3, 2.7]
        assert [at.runs for at in kind.clocks()] == [3] * 5


def test_inputs_of_one_name_are_not_mixed_into_one_time(tmp_path: Path) -> None:
    head = REPORT.splitlines()[0]
    times = [
        (1, 3234000, 100, 0.4),
        (2, 3234000, 900, 0.4),
        (3, 2400000, 120, 0.36),
        (4, 3234000, 100, 0.4),
        (5, 2400000, 121, 0.36),
    ]
    lines = [
        f"{n};0;stencil;n1;{khz};{khz};{time_s};{cpi};0.2;20.0;{300 + n}.37"
        for n, khz, time_s, cpi in times
    ]
    [kind] = understood(written(tmp_path, "\n".join([head, *lines]))).kinds
    low, high = kind.clocks()
    # The long input took most energy, but ran at the high clock alone.
    assert (low.time_s, high.time_s) == (120.5, 100)


@needs_data
def test_the_reports_that_ear_ships_have_one_with_counters_and_two_without() -> None:
    path = DATA / "ear" / "dgemm_1n_app_signature_j25335297_s1.csv"
    assert [run.is_projectable for run in read_report(path).runs] == [False, True, False]
    [kind] = understood(path).kinds
    [at] = kind.clocks()
    assert (kind.app_id, at.freq_ghz, at.power_w) == ("dgemm_4096", 3.2, 340.891113)
    loops = read_report(DATA / "ear" / "69478_loops.csv").runs
    assert (len(loops), loops[0].time_s, loops[0].mem_gbps) == (18, 1.021218, 0.348849)


@needs_data
def test_phases_of_loops_are_separated_and_a_run_that_mixes_them_is_left_out() -> None:
    reports = read_reports([DATA / "ear" / f"69478_{name}.csv" for name in ("apps", "loops")])
    found = separate_kinds([run for report in reports for run in report.runs])
    watts = {kind.app_id: [round(at.power_w) for at in kind.clocks()] for kind in found.kinds}
    assert watts == {"tfi": [2273], "tfi/2": [966]}
    assert [run.mark for run in found.runs if not run.is_loop] == [MIXED]


@needs_data
def test_tpi_in_reports_is_bytes_per_instruction() -> None:
    [run] = read_report(DATA / "ear" / "69478_apps.csv").runs
    instructions = 1_583_489_915_198
    assert math.isclose(run.mem_gbps * 1e9 * run.time_s / instructions, run.tpi, rel_tol=1e-4)
