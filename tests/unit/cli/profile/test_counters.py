"""What is counted, as recorded of `perf stat` on machines that count, and without it."""

import resource
from pathlib import Path

import pytest

from cli.profile import counters
from cli.profile.counters import countable, features, parsed, schema, stat_words

# `perf stat -x ';'` on a node with counters, on a hybrid one, and on a virtual machine.
_RECORDED = """\
# started on Mon Nov 23 14:00:00 2026

123456789;;instructions:u;1000000;100.00;1.25;insn per cycle
98765432;;cpu-cycles:u;1000000;100.00;;
<not counted>;;cache-misses:u;0;0.00;;
<not supported>;;LLC-loads;0;100.00;;
"""


def test_what_perf_prints_is_read_without_what_it_could_not_count() -> None:
    assert parsed(_RECORDED) == {"instructions": 123456789.0, "cpu-cycles": 98765432.0}


def test_what_is_counted_is_data_with_a_source_each() -> None:
    found = schema()
    assert len({each.name for each in found}) == len(found) >= 15
    assert all(bool(each.perf) != bool(each.usage) for each in found)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    assert all(hasattr(usage, each.usage) for each in found if each.usage)


def test_counts_are_told_by_second_and_what_is_whole_is_not() -> None:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    found = features(schema(), 2.0, usage, {"instructions": 500.0})
    assert found["instructions"] == 250.0
    assert found["peak_rss_kib"] == usage.ru_maxrss
    assert "cycles" not in found


def test_a_machine_without_perf_says_so() -> None:
    events, problem = countable(schema(), perf="no-such-perf")
    assert events == ()
    assert "not installed" in problem


def test_a_machine_that_counts_some_of_it_says_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text(_RECORDED)
    perf = tmp_path / "perf"
    perf.write_text(f"#!/bin/sh\ncat {tmp_path / 'stat'} >&2\n")
    perf.chmod(0o755)
    events, problem = countable(schema(), perf=str(perf))
    assert events == ["instructions", "cpu-cycles"]
    assert "cache-misses" in problem
    assert "cpu-cycles" not in problem


def test_perf_is_asked_for_all_events_at_once() -> None:
    words = stat_words(["a", "b"], Path("/tmp/x"))
    assert words == ["perf", "stat", "-x", ";", "--output", "/tmp/x", "-e", "a,b", "--"]


def test_every_bad_line_of_the_schema_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counters, "_SCHEMA", tmp_path / "counters.yaml")
    (tmp_path / "counters.yaml").write_text("- {name: x, perv: y}\n")
    with pytest.raises(ValueError, match="perv"):
        schema()
