"""What is counted, as recorded of `perf stat` on machines that count, and without it."""

import resource
from pathlib import Path

import pytest

from cli.profile import counters
from cli.profile.counters import countable, features, parse_counts, perf_command, schema

# `perf stat -x ';'` on a node with counters, on a hybrid one, and on a virtual machine.
_RECORDED = """\
# started on Mon Nov 23 14:00:00 2026

123456789;;instructions:u;1000000;100.00;1.25;insn per cycle
98765432;;cpu-cycles:u;1000000;100.00;;
<not counted>;;cache-misses:u;0;0.00;;
<not supported>;;LLC-loads;0;100.00;;
"""


def test_what_is_counted_is_data_with_a_source_each() -> None:
    found = schema()
    assert len({each.name for each in found}) == len(found) >= 15
    assert all(bool(each.perf) != bool(each.usage) for each in found)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    assert all(hasattr(usage, each.usage) for each in found if each.usage)


def test_counts_are_reported_by_second_and_what_is_whole_is_not() -> None:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    found = features(schema(), 2.0, usage, parse_counts(_RECORDED))
    assert found["instructions"] == 123456789.0 / 2
    assert found["peak_rss_kib"] == usage.ru_maxrss
    assert "cache-misses" not in found


def test_a_machine_without_perf_or_that_counts_some_of_it_says_what_it_lacks(
    tmp_path: Path,
) -> None:
    events, problem = countable(schema(), perf="no-such-perf")
    assert events == ()
    assert "not installed" in problem
    (tmp_path / "stat").write_text(_RECORDED)
    perf = tmp_path / "perf"
    perf.write_text(f"#!/bin/sh\ncat {tmp_path / 'stat'} >&2\n")
    perf.chmod(0o755)
    events, problem = countable(schema(), perf=str(perf))
    assert events == ["instructions", "cpu-cycles"]
    assert "cache-misses" in problem
    assert "cpu-cycles" not in problem
    words = perf_command(events, Path("/tmp/x"))
    assert " ".join(words) == "perf stat -x ; --output /tmp/x -e instructions,cpu-cycles --"


def test_every_bad_line_of_the_schema_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counters, "_SCHEMA", tmp_path / "counters.yaml")
    (tmp_path / "counters.yaml").write_text("- {name: x, perv: y}\n")
    with pytest.raises(ValueError, match="perv"):
        schema()
