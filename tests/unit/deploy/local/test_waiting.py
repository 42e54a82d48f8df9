from pathlib import Path

import pytest

from deploy.local.errors import NotReadyError
from deploy.local.waiting import last_lines, wait_until


def test_the_line_that_matters_and_the_log_are_named_when_the_time_is_over(tmp_path: Path) -> None:
    log = tmp_path / "kafka.log"
    log.write_text("of an earlier start\n")

    def write() -> bool:
        with log.open("a") as file:
            file.write("error: no space left\nbye\n")
        return False

    with pytest.raises(NotReadyError) as caught:
        wait_until(write, 0.0, "kafka is ready", log)
    assert str(caught.value) == f"kafka is ready not within 0 s: no space left (log: {log})"


def test_a_log_with_bytes_that_are_not_text_is_shown_all_the_same(tmp_path: Path) -> None:
    log = tmp_path / "p.log"
    log.write_bytes(b"\xff\xfe broken\n")
    assert "broken" in last_lines(log, 5)
