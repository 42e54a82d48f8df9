"""The record of a demo, replayed and played again."""

import csv
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from cli.main import app
from cli.region_policy import RegionPolicy
from lab.demo.options import DemoOptions
from lab.demo.run import run_embedded

JOBS = 120


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = DemoOptions(jobs=JOBS, out=tmp_path_factory.mktemp("demo"))
    run_embedded(options, Console(quiet=True))
    return options.out


def test_the_record_of_a_demo_starts_each_job_when_and_where_placement_did(
    demo: Path, tmp_path: Path
) -> None:
    """To the byte of each decision, and in a what-if under the same rules too: the emulated
    resource managers do at once what was decided."""
    out = tmp_path / "out"
    words = ["simulate", "--recorded", demo / "placement.inputs.jsonl"]
    done = CliRunner().invoke(
        app, [*map(str, words), "--policy", "min-energy", "--no-caps", "--out", str(out)]
    )
    assert done.exit_code == 0, done.output
    decided = len((demo / "decisions.jsonl").read_text().splitlines())
    equal = f"{JOBS} of {JOBS} starts equal, {decided} of {decided} decisions to the byte"
    assert f"replay: {equal}\n" in done.stdout
    assert f"what-if under the same rules: {equal}\n" in done.stdout
    with (out / "comparison.csv").open(newline="") as file:
        record, same, other = csv.DictReader(file)
    differing = {name for name in record if record[name] != same[name]}
    assert differing == {"case"}
    assert other["jobs"] == str(JOBS)
    assert float(other["mean_freq_ghz"]) < float(record["mean_freq_ghz"])
    assert not other["highest_of_cap"]


def test_a_planner_beside_the_what_if_plans_what_it_planned_beside_placement(
    tmp_path: Path,
) -> None:
    options = DemoOptions(jobs=JOBS, policy=RegionPolicy.LOOK_AHEAD, out=tmp_path / "demo")
    run_embedded(options, Console(quiet=True))
    record, out = options.out / "placement.inputs.jsonl", tmp_path / "out"
    words = ["simulate", "--recorded", str(record), "--out", str(out)]
    policies = ["--policy", "look-ahead", "--policy", "priority-inc-v"]
    done = CliRunner().invoke(app, [*words, *policies])
    assert done.exit_code == 0, done.output
    with (out / "comparison.csv").open(newline="") as file:
        recorded, same, planned, unplanned = csv.DictReader(file)
    assert {name for name in recorded if recorded[name] != same[name]} == {"case"}
    assert {name for name in recorded if recorded[name] != planned[name]} == {"case", "policy"}
    assert planned["response_s_mean"] != unplanned["response_s_mean"]
