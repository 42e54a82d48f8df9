"""The one line of a log that matters."""

import json
from pathlib import Path

import pytest

from deploy.local.log_lines import decisive_line, log_size

ENDS = json.dumps({"event": "process ends", "level": "critical", "error": "KeyError('p9')"})
RETRY = json.dumps({"event": "Unable connect", "level": "error", "logger": "aiokafka"})
INFO = json.dumps({"event": "readiness", "level": "info", "waiting_for": "Kafka"})


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], ""),
        (["one", "two", ""], "two"),
        ([INFO], "readiness: Kafka"),
        (["error: COPLACE_X=-4: must be above 0", "bye"], "COPLACE_X=-4: must be above 0"),
        ([ENDS, RETRY, "Traceback (most recent call last):"], "process ends: KeyError('p9')"),
        ([RETRY, INFO], "Unable connect"),
        (["Traceback", "ValueError: no such node", "  at x"], "ValueError: no such node"),
        (["{not json", "{"], "{"),
    ],
)
def test_an_end_comes_before_an_error_before_the_last_line(
    lines: list[str], told: str, tmp_path: Path
) -> None:
    log = tmp_path / "p.log"
    log.write_text("".join(f"{line}\n" for line in lines))
    assert decisive_line(log) == told


def test_lines_of_an_earlier_start_do_not_matter(tmp_path: Path) -> None:
    log = tmp_path / "p.log"
    assert decisive_line(log, log_size(log)) == ""
    log.write_text("error: of yesterday\n")
    begun = log_size(log)
    assert decisive_line(log, begun) == ""
    with log.open("a") as file:
        file.write("up\n")
    assert decisive_line(log, begun) == "up"


def test_a_log_that_was_begun_anew_is_read_whole(tmp_path: Path) -> None:
    log = tmp_path / "p.log"
    log.write_text("error: new\n")
    assert decisive_line(log, 1_000_000) == "new"
