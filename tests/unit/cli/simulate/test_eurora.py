"""`coplace simulate --eurora`: instances beside their published results."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from tests.support.data import DATA, needs_data

RUNNER = CliRunner()
FOLDER = DATA / "eurora"


@needs_data
def test_an_instance_stands_beside_its_published_results() -> None:
    path = FOLDER / "historical" / "hist_100_20140331_110904.log_crypt"
    found = RUNNER.invoke(app, ["simulate", "--eurora", str(path)])
    assert found.exit_code == 0
    assert "EASY, here" in found.output
    assert "BF, published" in found.output
    assert found.output.count("29,167") == 3


@pytest.mark.parametrize("option", [["--policy", "fcfs"], ["--procs", "4"], ["--cap-w", "9"]])
def test_what_is_of_no_use_there_is_refused(option: list[str], tmp_path: Path) -> None:
    found = RUNNER.invoke(app, ["simulate", "--eurora", str(tmp_path), *option])
    assert found.exit_code != 0
    assert f"{option[0]}: of no use on Eurora" in str(found.exception) + found.output


def test_a_folder_without_instances_is_refused(tmp_path: Path) -> None:
    found = RUNNER.invoke(app, ["simulate", "--eurora", str(tmp_path)])
    assert "holds no instance" in str(found.exception) + found.output


def test_an_instance_without_its_machine_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.log_crypt"
    path.write_text("")
    found = RUNNER.invoke(app, ["simulate", "--eurora", str(path)])
    assert "no nodes_64.csv beside" in str(found.exception) + found.output
