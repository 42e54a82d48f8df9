"""`coplace profile`: the kernels that come with it, from their source to a model's errors."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from cli.profile import kernels
from cli.profile.campaign import read_campaign
from tests.unit.cli.command_line import refusal, said


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kernels.compile_kernels(tmp_path_factory.mktemp("kernels"))


@pytest.mark.parametrize("name", [*kernels.NAMES, "bubble:1", "reporter", "nope"])
def test_every_kernel_ends_behind_its_beats_and_an_unknown_one_at_once(
    name: str, program: Path
) -> None:
    done = subprocess.run([program, name, "3", "0"], check=False, timeout=60, cwd=program.parent)
    assert done.returncode == (2 if name == "nope" else 0)


def _small(program: Path, path: Path, apps: int = 5) -> Path:
    """A campaign of some kernels on one core, of a hundredth of a second each."""
    commands = {name: f"{program} {name} 40 {{cores}}" for name in kernels.NAMES[:apps]}
    place = {"primary": [0], "beside": [0]}
    found = {"applications": commands, "placements": {"here": place}, "repetitions": 1}
    path.write_text(yaml.safe_dump(found))
    return path


def test_a_killed_campaign_goes_on_where_it_was(program: Path, tmp_path: Path) -> None:
    campaign, out = _small(program, tmp_path / "campaign.yaml", apps=3), tmp_path / "out"
    coplace = str(Path(sys.executable).with_name("coplace"))
    words = [coplace, "profile", "run", str(campaign), "--out", str(out)]
    journal = out / "runs.jsonl"
    with subprocess.Popen(words, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        while not journal.exists() or journal.read_text().count("\n") < 5:
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGKILL)
    before = journal.read_text().splitlines()
    said("profile", "run", campaign, "--out", out)
    after = journal.read_text().splitlines()
    assert len(after) == 1 + 3 * (3 + 2)
    whole = [line for line in before if line in after]
    assert len(whole) >= len(before) - 1
    assert len(set(after)) == len(after)
    assert len((out / "pairs.csv").read_text().splitlines()) == 1 + 6


def test_a_campaign_of_all_kernels_is_written_and_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_LEAST_S", 0.0005)
    told = said("profile", "kernels", tmp_path, "--seconds", "0.02", "--repetitions", "2")
    found = read_campaign(tmp_path / "campaign.yaml")
    assert tuple(found.applications) == kernels.NAMES
    assert found.repetitions == 2
    assert "runs" in told


def test_without_a_compiler_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt-get install gcc" in refusal("profile", "kernels", tmp_path / "k")
