"""`coplace energy` on files, small ones and the published ones."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from cli.main import app
from tests.support.data import DATA, ROOT, needs_data
from tests.unit.services.energy.files import apps, pairs, read, write

EAMC = DATA / "eamc"
KERNELS = [(0.4, 0.3, 430.0), (0.9, 7.0, 390.0), (1.9, 15.0, 370.0), (4.2, 70.0, 380.0)]


def coplace_energy(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["energy", *map(str, arguments)])


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
    table = write(tmp_path / "m_coefficients.csv", pairs({"A": 0.5, "C": 10.0}))
    out = tmp_path / "out.csv"
    signatures = write(tmp_path / "apps.csv", apps())
    done = coplace_energy(
        "project", "--coefficients", table, "--signatures", signatures, "--csv", out
    )
    assert done.exit_code == 0, done.output
    low, high = read(out)
    assert list(low) == ["app_id", "module", "to_ghz", "time_s", "power_w", "energy_j"]
    assert [float(low[c]) for c in ("to_ghz", "time_s", "power_w", "energy_j")] == [
        1.0,
        20.0,
        160.0,
        3200.0,
    ]
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
    ("command", "coefficient", "signature", "told"),
    [
        ("project", {}, {"cpi": 0}, "error: cpi: must be from 0.01 to 1,000, got 0.0"),
        ("project", {}, {"dc_node_power_w": -5}, "error: dc_node_power_w:"),
        ("choose", {}, {"tpi": "nan"}, "error: tpi:"),
        ("choose", {"B": "nan"}, {}, "error: B: must be a finite number, got nan in row 3"),
        ("project", {}, {"freq_ghz": 9.9}, "error: freq_ghz: 9.9 is no P-state of m"),
        ("project", {}, {"tpi_scale": "x"}, "error: tpi_scale: x is not eamc-2020"),
    ],
)
def test_bad_input_ends_with_one_line_and_no_file(
    command: str,
    coefficient: Mapping[str, object],
    signature: Mapping[str, object],
    told: str,
    tmp_path: Path,
) -> None:
    table = write(tmp_path / "m_coefficients.csv", pairs(coefficient))
    signatures = write(tmp_path / "apps.csv", apps(signature))
    out = tmp_path / "out.csv"
    done = coplace_energy(
        command, "--coefficients", table, "--signatures", signatures, "--csv", out
    )
    assert done.exit_code == 1
    assert told in done.output
    assert len(done.output.splitlines()) == 1
    assert not out.exists()


@pytest.mark.parametrize("option", ["--t-weight", "--min-energy-threshold"])
@pytest.mark.parametrize("value", ["-1", "nan"])
def test_weights_and_thresholds_are_numbers_of_at_least_0(
    option: str, value: str, tmp_path: Path
) -> None:
    table = write(tmp_path / "m_coefficients.csv", pairs())
    signatures = write(tmp_path / "apps.csv", apps())
    arguments = ("--coefficients", table, "--signatures", signatures)
    done = coplace_energy("choose", *arguments, option, value)
    assert done.exit_code == 1
    assert f"error: {option.strip('-').replace('-', '_')}: must be" in done.output


def test_policies_start_from_the_default_that_is_set(tmp_path: Path) -> None:
    table = write(tmp_path / "m_coefficients.csv", pairs())
    signatures = write(tmp_path / "apps.csv", apps())
    arguments = ("--coefficients", table, "--signatures", signatures)
    out = tmp_path / "new" / "c.csv"
    coplace_energy("choose", *arguments, "--csv", out, "--min-energy-threshold", "1.1")
    from_nominal = {row["choice"]: row["freq_ghz"] for row in read(out)}
    coplace_energy("choose", *arguments, "--csv", out, "--default-ghz", "1.0")
    from_lowest = {row["choice"]: row["freq_ghz"] for row in read(out)}
    assert from_nominal["min-time-to-solution"] == "2.0"
    # Half the time for twice the clock: a gain of 50 % for 100 % is below 0.7.
    assert from_lowest["min-time-to-solution"] == "1.0"
    assert from_nominal["min-energy-to-solution"] == "2.0"
    assert from_lowest["min-energy-to-solution"] == "2.0"


def test_a_default_that_nothing_projects_to_gives_way_to_the_signatures_own(tmp_path: Path) -> None:
    table = write(tmp_path / "m_coefficients.csv", pairs({"available": 0}))
    signatures = write(tmp_path / "apps.csv", apps())
    out = tmp_path / "c.csv"
    done = coplace_energy(
        *("choose", "--coefficients", table, "--signatures", signatures, "--csv", out),
        *("--default-ghz", "1.0"),
    )
    assert done.exit_code == 0, done.output
    assert {row["freq_ghz"] for row in read(out)} == {"2.0"}
    assert len(read(out)) == 6


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "none.csv"
    done = coplace_energy(
        "project", "--coefficients", missing, "--signatures", missing, "--csv", tmp_path / "o"
    )
    assert done.exit_code == 1
    assert "none.csv" in done.output


def test_what_is_learned_projects_its_own_kernels(tmp_path: Path) -> None:
    source = kernels(tmp_path)
    done = coplace_energy("learn", "--signatures", source, "--out", tmp_path / "out", "--plot")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out" / "lab_fit.png").read_bytes().startswith(b"\x89PNG")
    errors = read(tmp_path / "out" / "lab_errors.csv")
    assert len(errors) == 6
    assert all(float(row["power"]) < 1e-9 and float(row["time"]) < 1e-9 for row in errors)
    table = tmp_path / "out" / "lab_coefficients.csv"
    out = tmp_path / "p.csv"
    done = coplace_energy("project", "--coefficients", table, "--signatures", source, "--csv", out)
    assert done.exit_code == 0, done.output
    measured = {(row["app_id"], row["freq_ghz"]): row for row in read(source)}
    for row in read(out):
        seen = measured[row["app_id"], row["to_ghz"]]
        assert float(row["time_s"]) == pytest.approx(float(seen["time_s"]))
        assert float(row["power_w"]) == pytest.approx(float(seen["dc_node_power_w"]))


def test_a_module_whose_name_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    rows = [{**row, "module": "../lab"} for row in read(kernels(tmp_path))]
    source = write(tmp_path / "k.csv", rows)
    done = coplace_energy("learn", "--signatures", source, "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert "leads out of it" in done.stderr
    assert not list(tmp_path.glob("lab*"))


def test_learning_tells_its_errors_with_each_kernel_left_out(tmp_path: Path) -> None:
    source = kernels(tmp_path, count=12, noise=0.02)
    coplace_energy("learn", "--signatures", source, "--out", tmp_path)
    for row in read(tmp_path / "lab_errors.csv"):
        assert 0 < float(row["power"]) < float(row["power_left_out"]) < 0.2
        assert row["kernels"] == "12"


def test_what_can_be_learned_is_and_the_rest_has_a_note(tmp_path: Path) -> None:
    rows = [r for r in read(kernels(tmp_path)) if (r["app_id"], r["freq_ghz"]) != ("k0", "3.0")]
    source, out = write(tmp_path / "k.csv", rows), tmp_path / "out"
    done = coplace_energy("learn", "--signatures", source, "--out", out, "--plot")
    assert done.exit_code == 0, done.output
    assert "no coefficients for 1.0>3.0 GHz, 2.0>3.0 GHz, 3.0>1.0 GHz, 3.0>2.0 GHz" in done.output
    available = {
        (row["from_ghz"], row["to_ghz"])
        for row in read(out / "lab_coefficients.csv")
        if row["available"] == "1"
    }
    assert available == {
        *(("1.0", "2.0"), ("2.0", "1.0")),
        *((ghz, ghz) for ghz in ("1.0", "2.0", "3.0")),
    }
    assert (out / "lab_fit.png").exists()


def test_too_few_kernels_are_refused(tmp_path: Path) -> None:
    source = kernels(tmp_path, count=3)
    done = coplace_energy("learn", "--signatures", source, "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert "3 kernels ran at both P-states, at least 4 are needed" in done.output
    assert not (tmp_path / "out").exists()


def test_kernels_that_are_all_alike_are_refused(tmp_path: Path) -> None:
    rows = read(kernels(tmp_path, count=1))
    alike = [{**row, "app_id": f"k{copy}"} for copy in range(5) for row in rows]
    done = coplace_energy(
        "learn", "--signatures", write(tmp_path / "k.csv", alike), "--out", tmp_path / "out"
    )
    assert done.exit_code == 1
    assert "singular" in done.output


def test_kernels_of_two_scales_are_not_mixed(tmp_path: Path) -> None:
    rows = read(kernels(tmp_path))
    rows[4]["tpi_scale"] = "other"
    done = coplace_energy("learn", "--signatures", write(tmp_path / "k.csv", rows), "--out", "o")
    assert done.exit_code == 1
    assert "other and lab are mixed" in done.output


@needs_data
def test_reports_of_ear_become_signatures_and_accounts(tmp_path: Path) -> None:
    report = DATA / "ear" / "dgemm_1n_app_signature_j25335297_s1.csv"
    done = coplace_energy("import", report, "--module", "amd", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert len(read(tmp_path / "accounting.csv")) == 3
    assert [row["app_id"] for row in read(tmp_path / "signatures.csv")] == ["dgemm_4096"]


@needs_data
def test_published_files_project_as_the_equations_say_one_by_one(tmp_path: Path) -> None:
    for module, rows_of_each in (("normal", 15), ("normal2", 15)):
        out = tmp_path / f"{module}.csv"
        done = coplace_energy("project", *published(module), "--csv", out)
        assert done.exit_code == 0, done.output
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
    done = coplace_energy("choose", *published("normal", "normal2"), "--csv", out)
    assert done.exit_code == 0, done.output
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
def test_stream_hardly_slows_down_at_the_lowest_clock_and_ep_does(tmp_path: Path) -> None:
    out = tmp_path / "p.csv"
    coplace_energy("project", *published("normal"), "--csv", out)
    times = {(row["app_id"], row["to_ghz"]): float(row["time_s"]) for row in read(out)}
    for app_id, slowdown in (("8", 1.01), ("2", 2.13)):
        assert times[app_id, "1.2"] / times[app_id, "2.7"] == pytest.approx(slowdown, abs=0.005)


@needs_data
def test_the_table_in_the_documents_is_what_the_command_prints() -> None:
    printed = coplace_energy("choose", *published("normal", "normal2")).output
    lines = [line.strip() for line in printed.splitlines() if line.strip().startswith("|")]
    document = (ROOT / "docs" / "energy.md").read_text()
    assert len(lines) == 18
    assert "\n".join(lines) in document


def test_intervals_come_from_the_errors_that_learning_left_beside_the_table(tmp_path: Path) -> None:
    learned = coplace_energy(
        *("learn", "--signatures", kernels(tmp_path, count=12, noise=0.02), "--out", tmp_path)
    )
    assert learned.exit_code == 0, learned.output
    signatures = write(tmp_path / "apps.csv", apps({"module": "lab", "tpi_scale": "lab"}))
    out, table = tmp_path / "out.csv", tmp_path / "lab_coefficients.csv"
    arguments = ("--coefficients", table, "--signatures", signatures, "--csv", out)
    done = coplace_energy("project", *arguments, "--interval", 0.8)
    assert done.exit_code == 0, done.output
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
    table = write(tmp_path / "m_coefficients.csv", pairs())
    signatures = write(tmp_path / "apps.csv", apps())
    out = tmp_path / "out.csv"
    done = coplace_energy(
        *("project", "--coefficients", table, "--signatures", signatures, "--csv", out),
        *("--interval", 0.8),
    )
    assert done.exit_code == 0, done.output
    assert "m_errors.csv its projections have no interval" in done.output
    assert [row["energy_j_high"] for row in read(out)] == ["", ""]
