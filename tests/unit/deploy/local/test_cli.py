from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app


@pytest.mark.parametrize("command", [["status"], ["logs", "kafka"]])
def test_a_command_without_servers_fails_with_one_line_that_says_what_to_do(
    command: list[str], tmp_path: Path
) -> None:
    result = CliRunner().invoke(app, ["local", *command, "--run-dir", str(tmp_path)])
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1
    assert "coplace local" in result.stderr


def test_stopping_what_does_not_run_is_no_error(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["local", "down", "--run-dir", str(tmp_path)]).exit_code == 0


def test_the_asked_number_of_log_lines_is_printed(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "kafka.log").write_text("one\ntwo\nthree\n")
    result = CliRunner().invoke(
        app, ["local", "logs", "kafka", "-n", "2", "--run-dir", str(tmp_path)]
    )
    assert result.output == "two\nthree\n"
