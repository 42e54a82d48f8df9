"""`coplace energy` on files, small ones and the published ones."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from lab.papers.published_data import DATA, ROOT
from tests.support.data import needs_data
from tests.support.ear_reports import published as published_applications
from tests.support.ear_reports import rows, text
from tests.unit.cli.command_line import coplace, refusal, rows_of, said
from tests.unit.services.energy.files import apps, pairs, read, write
from tests.unit.services.energy.test_ear_report import MADE_UP

EAMC = DATA / "eamc"
KERNELS = [(0.4, 0.3, 430.0), (0.9, 7.0, 390.0), (1.9, 15.0, 370.0), (4.2, 70.0, 380.0)]
Changes = Mapping[str, object]


def coplace_energy(*arguments: object) -> Result:
    return coplace("energy", *arguments)


def files(
    folder: Path, coefficient: Changes | None = None, signature: Changes | None = None
) -> list[object]:
    """A small table of coefficients and one signature, as options."""
    table = write(folder / "m_coefficients.csv", pairs(coefficient))
    return [
        "--coefficients",
        table,
        "--signatures",
        write(folder / "apps.csv", apps(signature or {})),
    ]


def published(*modules: str) -> list[object]:
    tables = [EAMC / f"{module}_coefficients.csv" for module in modules]
    options = [each for table in tables for each in ("--coefficients", table)]
    return [*options, "--signatures", EAMC / "apps.csv"]


def kernels(folder: Path, *, count: int = 4, noise: float = 0.0) -> Path:
    """Kernels at three P-states that obey the equations."""
    rng = np.random.default_rng(1)
    rows = [
        {
            "freq_ghz": ghz,
            "app_id": f"k{number}",
            "module": "lab",
            "time_s": 20 * (cpi - 0.01 * tpi * (3 - ghz)) / cpi * 3 / ghz,
            "dc_node_power_w": (watts * ghz / 3 + tpi) * (1 + noise * rng.standard_normal()),
            "cpi": cpi - 0.01 * tpi * (3 - ghz),
            "tpi": tpi,
            "tpi_scale": "lab",
        }
        for number, (cpi, tpi, watts) in enumerate((KERNELS * 3)[:count])
        for ghz in (1.0, 2.0, 3.0)
    ]
    return write(folder / "kernels.csv", rows)


def test_projections_are_written_one_row_a_pstate(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    said("energy", "project", *files(tmp_path, {"A": 0.5, "C": 10.0}), "--csv", out)
    low, high = read(out)
    assert list(low) == ["app_id", "module", "to_ghz", "time_s", "power_w", "energy_j"]
    figures = [float(low[name]) for name in ("to_ghz", "time_s", "power_w", "energy_j")]
    assert figures == [1.0, 20.0, 160.0, 3200.0]
    assert (high["to_ghz"], high["energy_j"]) == ("2.0", "3000.0")


def test_a_pair_that_was_never_measured_has_no_row_but_a_reason(tmp_path: Path) -> None:
    rows = pairs({"available": 0}, (1.0, 2.0, 3.0))
    table = write(tmp_path / "m_coefficients.csv", rows)
    arguments = ("--coefficients", table, "--signatures", write(tmp_path / "apps.csv", apps()))
    out = tmp_path / "out.csv"
    done = coplace_energy("project", *arguments, "--csv", out)
    assert [row["to_ghz"] for row in read(out)] == ["2.0", "3.0"]
    assert "1.0 GHz is left out for 1 of 1 applications, measured at 3.0 GHz" in done.output
    assert "never measured" in done.output
    coplace_energy("project", *arguments, "--csv", out, "--via-intermediate")
    assert [(row["to_ghz"], row["via_ghz"]) for row in read(out)] == [
        ("1.0", "2.0"),
        ("2.0", ""),
        ("3.0", ""),
    ]


@pytest.mark.parametrize(
    ("words", "coefficient", "signature", "told"),
    [
        ("project", {}, {"cpi": 0}, "cpi: must be from 0.01 to 1,000, got 0.0"),
        ("project", {}, {"dc_node_power_w": -5}, "dc_node_power_w:"),
        ("choose", {}, {"tpi": "nan"}, "tpi:"),
        ("choose", {"B": "nan"}, {}, "B: must be a finite number, got nan in row 3"),
        ("project", {}, {"freq_ghz": 9.9}, "freq_ghz: 9.9 is not a P-state of m"),
        ("project", {}, {"tpi_scale": "x"}, "tpi_scale: x is not eamc-2020"),
        ("choose --t-weight -1", {}, {}, "t_weight: must be"),
        ("choose --t-weight nan", {}, {}, "t_weight: must be"),
        ("choose --min-energy-threshold -1", {}, {}, "min_energy_threshold: must be"),
        ("choose --min-energy-threshold nan", {}, {}, "min_energy_threshold: must be"),
        ("project --signatures none.csv", {}, {}, "none.csv"),
    ],
)
def test_bad_input_ends_with_one_line_and_no_file(
    words: str, coefficient: Changes, signature: Changes, told: str, tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    command, *options = words.split()
    given = [*files(tmp_path, coefficient, signature), *options, "--csv", out]
    assert refusal("energy", command, *given).startswith(f"error: {told}")
    assert not out.exists()


def test_policies_start_from_the_default_that_is_set(tmp_path: Path) -> None:
    out = tmp_path / "new" / "c.csv"

    def chosen(*options: object) -> dict[str, str]:
        said("energy", "choose", *files(tmp_path), "--csv", out, *options)
        return {row["choice"]: row["freq_ghz"] for row in read(out)}

    from_nominal = chosen("--min-energy-threshold", "1.1")
    from_lowest = chosen("--default-ghz", "1.0")
    assert from_nominal["min-time-to-solution"] == "2.0"
    # Half the time for twice the clock: a gain of 50 % for 100 % is below 0.7.
    assert from_lowest["min-time-to-solution"] == "1.0"
    assert from_nominal["min-energy-to-solution"] == "2.0"
    assert from_lowest["min-energy-to-solution"] == "2.0"


def test_a_default_that_nothing_projects_to_gives_way_to_the_signatures_own(tmp_path: Path) -> None:
    out = tmp_path / "c.csv"
    given = files(tmp_path, {"available": 0})
    said("energy", "choose", *given, "--csv", out, "--default-ghz", "1.0")
    assert [row["freq_ghz"] for row in read(out)] == ["2.0"] * 6


def test_what_is_learned_projects_its_own_kernels(tmp_path: Path) -> None:
    source, table = kernels(tmp_path), tmp_path / "out" / "lab_coefficients.csv"
    said("energy", "learn", "--signatures", source, "--out", tmp_path / "out", "--plot")
    assert (tmp_path / "out" / "lab_fit.png").read_bytes().startswith(b"\x89PNG")
    errors = read(tmp_path / "out" / "lab_errors.csv")
    assert len(errors) == 6
    assert all(float(row["power"]) < 1e-9 and float(row["time"]) < 1e-9 for row in errors)
    out = tmp_path / "p.csv"
    said("energy", "project", "--coefficients", table, "--signatures", source, "--csv", out)
    measured = {(row["app_id"], row["freq_ghz"]): row for row in read(source)}
    for row in read(out):
        seen = measured[row["app_id"], row["to_ghz"]]
        assert float(row["time_s"]) == pytest.approx(float(seen["time_s"]))
        assert float(row["power_w"]) == pytest.approx(float(seen["dc_node_power_w"]))


def test_what_can_be_learned_is_and_the_rest_has_a_note(tmp_path: Path) -> None:
    rows = [r for r in read(kernels(tmp_path)) if (r["app_id"], r["freq_ghz"]) != ("k0", "3.0")]
    source, out = write(tmp_path / "k.csv", rows), tmp_path / "out"
    done = coplace_energy("learn", "--signatures", source, "--out", out)
    assert done.exit_code == 0, done.output
    assert "no coefficients for 1.0>3.0 GHz, 2.0>3.0 GHz, 3.0>1.0 GHz, 3.0>2.0 GHz" in done.output
    table = read(out / "lab_coefficients.csv")
    available = {(row["from_ghz"], row["to_ghz"]) for row in table if row["available"] == "1"}
    same = ((ghz, ghz) for ghz in ("1.0", "2.0", "3.0"))
    assert available == {("1.0", "2.0"), ("2.0", "1.0"), *same}


Rows = list[dict[str, str]]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        pytest.param(
            lambda rows: rows[:9],
            "3 kernels ran at both P-states, at least 4 are needed",
            id="too few",
        ),
        pytest.param(
            lambda rows: [{**row, "app_id": f"k{n}"} for n in range(5) for row in rows[:3]],
            "singular",
            id="all alike",
        ),
        pytest.param(
            lambda rows: [*rows[:4], {**rows[4], "tpi_scale": "other"}, *rows[5:]],
            "other and lab are mixed",
            id="two scales",
        ),
        pytest.param(
            lambda rows: [{**row, "module": "../lab"} for row in rows],
            "leads out of it",
            id="a name that leads out of the folder",
        ),
    ],
)
def test_what_cannot_be_learned_from_is_refused(
    changed: Callable[[Rows], Rows], told: str, tmp_path: Path
) -> None:
    source = write(tmp_path / "k.csv", changed(read(kernels(tmp_path))))
    done = coplace_energy("learn", "--signatures", source, "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert told in done.stderr
    assert not list(tmp_path.glob("lab*"))
    assert not list(tmp_path.glob("out/*"))


@needs_data
def test_reports_of_ear_become_signatures_and_accounts(tmp_path: Path) -> None:
    report = DATA / "ear" / "dgemm_1n_app_signature_j25335297_s1.csv"
    said("energy", "import", report, "--module", "amd", "--out", tmp_path)
    assert len(read(tmp_path / "accounting.csv")) == 3
    assert [row["app_id"] for row in read(tmp_path / "signatures.csv")] == ["dgemm_4096"]


@needs_data
def test_published_files_project_as_the_equations_say_one_by_one(tmp_path: Path) -> None:
    for module, rows_of_each in (("normal", 15), ("normal2", 15)):
        out = tmp_path / f"{module}.csv"
        said("energy", "project", *published(module), "--csv", out)
        rows = read(out)
        assert len(rows) == 8 * rows_of_each
        signatures = {r["app_id"]: r for r in read(EAMC / "apps.csv") if r["module"] == module}
        table = read(EAMC / f"{module}_coefficients.csv")
        nominal = max(float(row["from_ghz"]) for row in table)
        known = {
            float(row["to_ghz"]): row
            for row in table
            if float(row["from_ghz"]) == nominal and row["available"] == "1"
        }
        assert {float(row["to_ghz"]) for row in rows} == set(known)
        for row in rows:
            _assert_row(row, signatures[row["app_id"]], known[float(row["to_ghz"])], nominal)


def _assert_row(
    row: Mapping[str, str], app: Mapping[str, str], pair: Mapping[str, str], nominal_ghz: float
) -> None:
    a, b, c, d, e, f = (float(pair[letter]) for letter in "ABCDEF")
    power_w, cpi, tpi = (float(app[name]) for name in ("dc_node_power_w", "cpi", "tpi"))
    slowdown = (d * cpi + e * tpi + f) / cpi * nominal_ghz / float(pair["to_ghz"])
    time_s = float(app["time_s"]) * slowdown
    projected_w = a * power_w + b * tpi + c
    assert float(row["time_s"]) == pytest.approx(time_s, rel=1e-12)
    assert float(row["power_w"]) == pytest.approx(projected_w, rel=1e-12)
    assert float(row["energy_j"]) == pytest.approx(time_s * projected_w, rel=1e-12)


@needs_data
def test_stream_runs_at_the_lowest_clock_and_prefers_the_node_that_others_do_not(
    tmp_path: Path,
) -> None:
    out = tmp_path / "choices.csv"
    said("energy", "choose", *published("normal", "normal2"), "--csv", out)
    rows = read(out)
    stream = [
        row for row in rows if row["app_id"] == "8" and row["choice"] in ("min-energy", "eamc")
    ]
    assert {row["freq_ghz"] for row in stream} == {"1.2"}
    for choice, t_weight in (("min-energy", ""), ("eamc", "1.0"), ("eamc", "1.5")):
        best = {
            row["app_id"]: row["module"]
            for row in rows
            if (row["choice"], row["t_weight"], row["is_preferred"]) == (choice, t_weight, "1")
        }
        assert best == {str(app): "normal" for app in range(1, 8)} | {"8": "normal2"}


@needs_data
def test_the_table_in_the_documents_is_what_the_command_prints() -> None:
    printed = coplace_energy("choose", *published("normal", "normal2")).output
    lines = [line.strip() for line in printed.splitlines() if line.strip().startswith("|")]
    document = (ROOT / "docs" / "energy.md").read_text()
    assert len(lines) == 18
    assert "\n".join(lines) in document


def test_intervals_come_from_the_errors_that_learning_left_beside_the_table(tmp_path: Path) -> None:
    source = kernels(tmp_path, count=12, noise=0.02)
    said("energy", "learn", "--signatures", source, "--out", tmp_path)
    for row in read(tmp_path / "lab_errors.csv"):
        assert 0 < float(row["power"]) < float(row["power_left_out"]) < 0.2
        assert row["kernels"] == "12"
    signatures = write(tmp_path / "apps.csv", apps({"module": "lab", "tpi_scale": "lab"}))
    out, table = tmp_path / "out.csv", tmp_path / "lab_coefficients.csv"
    given = ("--coefficients", table, "--signatures", signatures, "--csv", out)
    said("energy", "project", *given, "--interval", 0.8)
    low, _, top = read(out)
    assert list(low)[6:] == [
        *("time_s_low", "time_s_high", "power_w_low", "power_w_high"),
        *("energy_j_low", "energy_j_high"),
    ]
    for name in ("power_w", "energy_j"):
        assert float(low[f"{name}_low"]) < float(low[name]) < float(low[f"{name}_high"])
    # The P-state that it was measured at needs no model.
    assert top["power_w_low"] == top["power_w"] == top["power_w_high"]


def test_without_errors_beside_the_table_there_are_no_intervals_and_a_note(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    done = coplace_energy("project", *files(tmp_path), "--csv", out, "--interval", 0.8)
    assert done.exit_code == 0, done.output
    assert "m_errors.csv its projections have no interval" in done.output
    assert [row["energy_j_high"] for row in read(out)] == ["", ""]


def test_a_check_of_reports_says_what_it_understood_and_writes_nothing(tmp_path: Path) -> None:
    report = tmp_path / "report.csv"
    report.write_text(text(rows(MADE_UP, 1)))
    printed = said("energy", "import", "--check", report)
    assert f"{report}: signatures of applications (AVG.CPUFREQ), separated by ';'" in printed
    assert "skipped: 30 rows: no counters and no power" in printed
    assert "marked: 4 rows: power limit" in printed
    assert "| stencil/2" in printed
    assert list(tmp_path.iterdir()) == [report]


def test_an_import_that_is_no_check_asks_where_to(tmp_path: Path) -> None:
    report = tmp_path / "report.csv"
    report.write_text(text(rows(MADE_UP, 1)))
    assert coplace_energy("import", report).exit_code == 1
    assert "module: give --module" in coplace_energy("import", report).stderr
    said("energy", "import", report, "--module", "m", "--out", tmp_path / "out")
    signatures = read(tmp_path / "out" / "signatures.csv")
    assert [row["freq_ghz"] for row in signatures if row["app_id"] == "stencil"] == [
        "1.2",
        "1.6",
        "1.9",
        "2.3",
        "2.7",
    ]
    accounts = read(tmp_path / "out" / "accounting.csv")
    assert {row["mark"] for row in accounts} == {"", "power limit", "unlike the others"}


def test_own_history_beats_coefficients_that_others_teach(tmp_path: Path) -> None:
    report = tmp_path / "report.csv"
    report.write_text(text(rows(MADE_UP, 1)))
    shown = said("energy", "evaluate", "--reports", report, "--output", "json")
    found = {row["application"]: row for row in rows_of(shown)}

    def percent(app: str, column: str) -> float:
        return float(str(found[app][column]).removesuffix(" %"))

    assert (found["stencil"]["clocks"], found["stencil"]["left out"]) == (5, 5)
    assert percent("stencil", "s history") < 1.5 < percent("stencil", "s coefficients")
    assert percent("stencil", "W history") < 1.5 < percent("stencil", "W coefficients")
    assert percent("all", "s both") < 3


@needs_data
def test_coefficients_of_a_file_are_compared_where_tpi_has_their_unit(tmp_path: Path) -> None:
    report = tmp_path / "report.csv"
    report.write_text(text(rows(published_applications(), 11)))
    table = EAMC / "normal_coefficients.csv"
    given = ("energy", "evaluate", "--reports", report, "--coefficients", table)
    assert refusal(*given).startswith("error: tpi_scale: TPI of")
    shown = said(*given, "--tpi-scale", "eamc-2020", "--output", "json")
    [app4] = [row for row in rows_of(shown) if row["application"] == "app4"]
    # The report was made with these coefficients, whose power is no line over the clock.
    assert float(app4["W both"][:-2]) < float(app4["W history"][:-2])


def test_reports_at_two_clocks_cannot_be_evaluated(tmp_path: Path) -> None:
    report = tmp_path / "report.csv"
    two = {app: [clocks[0], clocks[-1]] * 2 for app, clocks in MADE_UP.items()}
    report.write_text(text(rows(two, 1)))
    assert "no application ran at 3 clocks" in refusal("energy", "evaluate", "--reports", report)
