import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.workloads.swf import Skip, SwfRecord, parse_line, read_swf

LINE = "1 0 10 97225 56 -1 -1 56 210000 -1 1 7 3 -1 -1 -1 -1 -1"

whole = st.integers(min_value=-1, max_value=2**40)
real = st.just(-1.0) | st.floats(min_value=0, allow_nan=False, allow_infinity=False)
records = st.builds(
    SwfRecord,
    **{name: whole if kind is int else real for name, kind in SwfRecord.__annotations__.items()},
)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def to_line(record: SwfRecord) -> str:
    return " ".join(str(field) for field in record)


@given(records)
def test_a_record_written_as_a_line_is_read_back(record: SwfRecord) -> None:
    assert parse_line(to_line(record)) == list(record)


tokens = st.integers().map(str) | st.floats().map(str) | st.text(max_size=4)
lines = st.lists(tokens, min_size=17, max_size=19).map(" ".join)


@given(lines)
def test_any_line_has_its_numbers_or_a_reason(line: str) -> None:
    parsed = parse_line(line)
    assert isinstance(parsed, Skip) or len(parsed) == 18


@given(st.lists(lines | records.map(to_line), max_size=20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_broken_lines_among_good_ones_change_nothing_about_them(
    tmp_path: Path, several: list[str]
) -> None:
    text = [" ".join(line.split()) for line in several]
    kept = [line for line in text if line and not line.startswith(";")]
    one_by_one = [parse_line(line) for line in kept]
    expected = [row for row in one_by_one if not isinstance(row, Skip) and np.isfinite(row).all()]
    log_path = tmp_path / "log.swf"
    log_path.write_text("\n".join(text), encoding="utf-8")
    log = read_swf(log_path)
    small_ids = [row for row in expected if abs(row[0]) <= 2**53]
    assert log.rows.tolist() == small_ids
    assert sum(log.skipped.values()) == len(kept) - len(small_ids)


def test_the_columns_are_those_of_the_format(tmp_path: Path) -> None:
    line = " ".join(str(column) for column in range(1, 19))
    log = read_swf(write(tmp_path / "log.swf", line))
    (record,) = log.records()
    assert (record.submit_s, record.run_s, record.allocated_procs) == (2, 4, 5)
    assert (record.requested_procs, record.requested_s) == (8, 9)
    assert (record.user_id, record.group_id, record.executable, record.think_s) == (12, 13, 14, 18)
    assert log.column("user_id").tolist() == [12]


def test_broken_lines_are_counted_by_reason_and_the_rest_is_read(tmp_path: Path) -> None:
    words = LINE.replace("97225", "soon")
    infinite = LINE.replace("97225", "inf")
    text = f"{LINE}\n1 2 3\n\n{words}\n{LINE} 19\n{infinite}\n  {LINE}\n"
    log = read_swf(write(tmp_path / "log.swf", text))
    assert len(log.rows) == 2
    assert log.skipped == {Skip.FIELD_COUNT: 2, Skip.NOT_A_NUMBER: 2}


def test_a_log_whose_lines_all_lack_a_field_has_none_left(tmp_path: Path) -> None:
    log = read_swf(write(tmp_path / "log.swf", "1 2 3\n4 5 6\n"))
    assert len(log.rows) == 0
    assert log.skipped == {Skip.FIELD_COUNT: 2}


def test_bytes_that_are_no_utf_8_spoil_their_line_only(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    broken = LINE.encode().replace(b"97225", b"\xff\xfe")
    path.write_bytes(b"; Note: caf\xe9\n" + broken + b"\n" + LINE.encode() + b"\n")
    log = read_swf(path)
    assert len(log.rows) == 1
    assert log.skipped == {Skip.NOT_A_NUMBER: 1}


@pytest.mark.parametrize(
    ("comments", "machine_procs"),
    [
        ("; MaxNodes: 338 (batch partition; 512 total)\n; MaxProcs: 430\n", 430),
        ("; MaxProcs: 430\n; MaxNodes: 338\n", 430),
        (";MaxNodes:  338\n", 338),
        ("; MaxNodes: -1\n; Note: MaxProcs: 3\n", None),
    ],
)
def test_the_comments_tell_the_size_of_the_machine(
    tmp_path: Path, comments: str, machine_procs: int | None
) -> None:
    log = read_swf(write(tmp_path / "log.swf", f"{comments}{LINE}\n"))
    assert len(log.rows) == 1
    assert log.machine_procs == machine_procs


def test_a_compressed_log_is_known_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_bytes(gzip.compress(f"{LINE}\n".encode()))
    assert read_swf(path).rows.tolist() == [parse_line(LINE)]


def test_what_a_compressed_log_that_broke_off_still_holds_is_read(tmp_path: Path) -> None:
    lines = [f"{number} {LINE.partition(' ')[2]}" for number in range(20_000)]
    whole_log = gzip.compress("\n".join(lines).encode())
    path = tmp_path / "log.swf.gz"
    path.write_bytes(whole_log[: len(whole_log) // 2])
    log = read_swf(path)
    assert 0.4 * len(lines) < len(log.rows) < 0.6 * len(lines)
    assert log.column("job_number").tolist() == list(range(len(log.rows)))
    assert log.skipped == {Skip.TRUNCATED: 1}


def test_a_compressed_log_with_damaged_bytes_is_read_up_to_them(tmp_path: Path) -> None:
    damaged = bytearray(gzip.compress("\n".join([LINE] * 20_000).encode(), mtime=0))
    damaged[-8:-4] = b"\0\0\0\0"  # the checksum
    path = tmp_path / "log.swf.gz"
    path.write_bytes(damaged)
    log = read_swf(path)
    assert len(log.rows) > 19_000
    assert log.skipped == {Skip.TRUNCATED: 1}


def test_a_log_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.swf"):
        read_swf(tmp_path / "none.swf")
