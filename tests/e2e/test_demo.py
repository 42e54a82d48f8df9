"""The demo as people run it, with no server."""

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest
from rich.console import Console

from cli.region_policy import RegionPolicy
from lab.demo.options import DemoOptions
from lab.demo.report import FILES
from lab.demo.run import run_embedded
from lab.demo.summary import PredictionErrors

Figures = dict[str, float]


@pytest.fixture
def figures(out: Path) -> Callable[[DemoOptions], Figures]:
    """Runs a demo and reads its summary."""

    def run(options: DemoOptions) -> Figures:
        run_embedded(replace(options, out=out), Console(quiet=True))
        found: Figures = json.loads((out / "summary.json").read_text())
        return found

    return run


def test_two_demos_of_one_seed_write_identical_files(undisturbed: DemoOptions, out: Path) -> None:
    run_embedded(replace(undisturbed, out=out), Console(quiet=True))
    for name in FILES:
        assert (out / name).read_bytes() == (undisturbed.out / name).read_bytes(), name


def test_no_share_of_four_hundred_jobs_is_zero_and_no_prediction_is_perfect(
    figures: Callable[[DemoOptions], Figures],
) -> None:
    found = figures(DemoOptions(jobs=400))
    assert found["jobs"] == 400
    shares = {name: share for name, share in found.items() if name.startswith("share_")}
    assert len(shares) == 5
    assert all(0 < share < 1 for share in shares.values()), shares
    assert 0 < found["mean_price_against_state_of_practice"] < 1
    errors: Figures = found["errors"]  # type: ignore[assignment]
    assert set(errors) == {error.name for error in fields(PredictionErrors)}
    assert all(error > 0 for error in errors.values()), errors


@pytest.mark.parametrize("policy", RegionPolicy)
def test_every_policy_finishes_all_jobs(
    policy: RegionPolicy, undisturbed: DemoOptions, figures: Callable[[DemoOptions], Figures]
) -> None:
    found = figures(replace(undisturbed, policy=policy))
    assert found["jobs"] == undisturbed.jobs
    assert found["energy_j"] > 0


def test_a_real_log_is_replayed(data_dir: Path, figures: Callable[[DemoOptions], Figures]) -> None:
    found = figures(DemoOptions(jobs=300, swf=data_dir / "swf" / "KTH-SP2.swf.gz"))
    assert found["jobs"] == 300
    assert found["share_waited"] > 0


def test_published_coefficients_are_used_instead_of_learned_ones(
    data_dir: Path, undisturbed: DemoOptions, figures: Callable[[DemoOptions], Figures]
) -> None:
    learned = json.loads((undisturbed.out / "summary.json").read_text())
    found = figures(replace(undisturbed, coefficients=data_dir / "eamc"))
    assert found["jobs"] == undisturbed.jobs
    assert found["errors"] != learned["errors"]
