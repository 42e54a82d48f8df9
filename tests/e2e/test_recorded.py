"""The record of a demo, replayed and played again."""

import csv
from collections.abc import Mapping
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from cli.main import app
from cli.region_policy import RegionPolicy
from lab.demo.effects import off
from lab.demo.options import DemoOptions
from lab.demo.run import run_embedded
from lab.emulator.effects import NONE

JOBS = 120
# With all effects more jobs are suspended under the demo's caps: decisions are equal then too, but
# what nodes draw meanwhile differs by more than the last digits.
WITHOUT = off(NONE)


def require_alike(record: Mapping[str, str], same: Mapping[str, str]) -> None:
    """All figures are the same to the last digit, but for the energy of a job that was suspended:
    meanwhile its nodes draw what they do idle, which a what-if takes as declared."""
    differing = {name for name in record if record[name] != same[name]}
    assert differing <= {"case", "busy_energy_j"}
    energy_j = float(record["busy_energy_j"])
    assert float(same["busy_energy_j"]) == pytest.approx(energy_j, rel=1e-5)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = DemoOptions(jobs=JOBS, out=tmp_path_factory.mktemp("demo"), without=WITHOUT)
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
    require_alike(record, same)
    assert other["jobs"] == str(JOBS)
    assert float(other["mean_freq_ghz"]) < float(record["mean_freq_ghz"])
    assert not other["highest_of_cap"]


def test_a_planner_beside_the_what_if_plans_what_it_planned_beside_placement(
    tmp_path: Path,
) -> None:
    out = tmp_path / "demo"
    options = DemoOptions(jobs=JOBS, policy=RegionPolicy.LOOK_AHEAD, out=out, without=WITHOUT)
    run_embedded(options, Console(quiet=True))
    record, out = options.out / "placement.inputs.jsonl", tmp_path / "out"
    words = ["simulate", "--recorded", str(record), "--out", str(out)]
    policies = ["--policy", "look-ahead", "--policy", "priority-inc-v"]
    done = CliRunner().invoke(app, [*words, *policies])
    assert done.exit_code == 0, done.output
    with (out / "comparison.csv").open(newline="") as file:
        recorded, same, planned, unplanned = csv.DictReader(file)
    require_alike(recorded, same)
    require_alike(recorded, {**planned, "policy": recorded["policy"]})
    assert recorded["policy"] != planned["policy"]
    assert planned["response_s_mean"] != unplanned["response_s_mean"]
