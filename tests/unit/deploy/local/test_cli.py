from pathlib import Path

import pytest

from tests.unit.cli.command_line import refusal, said


@pytest.mark.parametrize("command", [["status"], ["logs", "kafka"]])
def test_a_command_without_servers_fails_with_one_line_that_says_what_to_do(
    command: list[str], tmp_path: Path
) -> None:
    assert "coplace local" in refusal("local", *command, "--run-dir", tmp_path)
    said("local", "down", "--run-dir", tmp_path)


def test_the_asked_number_of_log_lines_is_printed(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "kafka.log").write_text("one\ntwo\nthree\n")
    shown = said("local", "logs", "kafka", "-n", "2", "--run-dir", tmp_path)
    assert shown == "two\nthree\n"
