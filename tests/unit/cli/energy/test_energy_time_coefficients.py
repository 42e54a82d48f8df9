"""`coplace energy time-coefficients`, on small files and on the published ones."""

from pathlib import Path

import pytest
from typer.testing import Result

from lab.papers.published_data import DATA
from tests.support.data import needs_data
from tests.unit.cli.command_line import coplace
from tests.unit.services.energy.files import apps, pairs, read, write

EAMC = DATA / "eamc"
NODES = ["--node", "a=4:100", "--node", "b=2:200"]


def time_coefficients(*arguments: object) -> Result:
    return coplace("energy", "time-coefficients", *arguments)


def files(folder: Path, *rows: dict[str, object]) -> list[object]:
    """Two modules of two P-states: at the lower one CPI is the same, so that time doubles."""
    tables = [write(folder / f"{module}_coefficients.csv", pairs()) for module in ("a", "b")]
    signatures = write(folder / "apps.csv", apps(*rows))
    options = [each for table in tables for each in ("--coefficients", table)]
    return [*options, "--signatures", signatures]


def ran(app_id: str, module: str, time_s: float) -> dict[str, object]:
    return {"app_id": app_id, "module": module, "time_s": time_s}


def test_each_application_is_measured_or_estimated(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    both = [ran(name, module, t) for name in ("x", "y") for module, t in (("a", 10), ("b", 30))]

    done = time_coefficients(*files(tmp_path, *both, ran("new", "a", 7)), *NODES, "--csv", out)

    assert done.exit_code == 0, done.output
    rows = {row["app_id"]: row for row in read(out)}
    assert float(rows["x"]["time_coefficient"]) == pytest.approx(3.0)
    assert (rows["x"]["is_measured"], rows["new"]["is_measured"]) == ("1", "0")
    assert float(rows["new"]["time_coefficient"]) == pytest.approx(3.0)
    assert float(rows["new"]["plain"]) == pytest.approx(2.0)
    assert rows["new"]["estimate_error"] == ""
    assert "root mean square of 2: 0.0%" in done.output


def test_one_common_application_does_not_show_how_sure_an_estimate_is(tmp_path: Path) -> None:
    done = time_coefficients(*files(tmp_path, ran("x", "a", 10), ran("x", "b", 10)), *NODES)

    assert done.exit_code == 0, done.output
    assert "too few applications ran on both" in done.output


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (["--node", "a=4"], "give --node b=CORES"),
        (["--node", "a=4", "--node", "b=many"], "must be MODULE=CORES"),
        (["--node", "a=4", "--node", "b=0"], "node: must be at least 1"),
    ],
)
def test_hardware_that_is_not_said_ends_the_command_with_one_line(
    tmp_path: Path, nodes: list[str], said: str
) -> None:
    done = time_coefficients(*files(tmp_path, ran("x", "a", 10), ran("x", "b", 10)), *nodes)

    assert done.exit_code == 1
    assert said in done.output


@needs_data
def test_of_the_published_applications_the_estimate_is_nearer_than_cores_times_ghz() -> None:
    tables = [EAMC / f"{module}_coefficients.csv" for module in ("normal", "normal2")]
    options = [each for table in tables for each in ("--coefficients", table)]
    nodes = ["--node", "normal=48:256", "--node", "normal2=36:281.6"]

    done = time_coefficients(*options, "--signatures", EAMC / "apps.csv", *nodes)

    assert "root mean square of 8: 9.9%; of cores x GHz alone: 16.4%" in done.output
