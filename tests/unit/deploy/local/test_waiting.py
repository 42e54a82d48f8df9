from pathlib import Path

import pytest

from deploy.local.errors import NotReadyError
from deploy.local.waiting import last_lines, wait_until


def test_the_end_of_the_log_is_shown_when_the_time_is_over(tmp_path: Path) -> None:
    log = tmp_path / "kafka.log"
    log.write_text("".join(f"line {n}\n" for n in range(100)))
    with pytest.raises(NotReadyError, match=r"kafka is ready within 0 s(.|\n)*line 99") as caught:
        wait_until(lambda: False, 0.0, "kafka is ready", log)
    assert "line 5\n" not in str(caught.value)


def test_a_log_with_bytes_that_are_not_text_is_shown_all_the_same(tmp_path: Path) -> None:
    log = tmp_path / "p.log"
    log.write_bytes(b"\xff\xfe broken\n")
    assert "broken" in last_lines(log, 5)
