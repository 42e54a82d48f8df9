import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.simulation.workload.swf import Skip, SwfReader, SwfRecord, parse_line

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
    assert parse_line(to_line(record)) == record


tokens = st.integers().map(str) | st.floats().map(str) | st.text(max_size=4)


@given(st.lists(tokens, min_size=17, max_size=19).map(" ".join))
def test_any_line_is_a_record_or_has_a_reason(line: str) -> None:
    assert isinstance(parse_line(line), SwfRecord | Skip)


def test_the_columns_are_those_of_the_format() -> None:
    record = parse_line(" ".join(str(column) for column in range(1, 19)))
    assert isinstance(record, SwfRecord)
    assert (record.submit_s, record.run_s, record.allocated_procs) == (2, 4, 5)
    assert (record.requested_procs, record.requested_s) == (8, 9)
    assert (record.user_id, record.group_id, record.executable, record.think_s) == (12, 13, 14, 18)


def test_broken_lines_are_counted_by_reason_and_the_rest_is_read(tmp_path: Path) -> None:
    words = LINE.replace("97225", "soon")
    infinite = LINE.replace("97225", "inf")
    log = write(
        tmp_path / "log.swf",
        f"{LINE}\n1 2 3\n\n{words}\n{LINE} 19\n{infinite}\n  {LINE}\n",
    )
    reader = SwfReader(log)
    assert len(list(reader)) == 2
    assert reader.skipped == {Skip.FIELD_COUNT: 2, Skip.NOT_A_NUMBER: 2}


def test_bytes_that_are_no_utf_8_spoil_their_line_only(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    broken = LINE.encode().replace(b"97225", b"\xff\xfe")
    log.write_bytes(b"; Note: caf\xe9\n" + broken + b"\n" + LINE.encode() + b"\n")
    reader = SwfReader(log)
    assert len(list(reader)) == 1
    assert reader.skipped == {Skip.NOT_A_NUMBER: 1}


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
    reader = SwfReader(write(tmp_path / "log.swf", f"{comments}{LINE}\n"))
    assert len(list(reader)) == 1
    assert reader.machine_procs == machine_procs


def test_a_compressed_log_is_known_by_its_content(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    log.write_bytes(gzip.compress(f"{LINE}\n".encode()))
    assert list(SwfReader(log)) == [parse_line(LINE)]


def test_what_a_compressed_log_that_broke_off_still_holds_is_read(tmp_path: Path) -> None:
    lines = [f"{number} {LINE.partition(' ')[2]}" for number in range(20_000)]
    whole_log = gzip.compress("\n".join(lines).encode())
    log = tmp_path / "log.swf.gz"
    log.write_bytes(whole_log[: len(whole_log) // 2])
    reader = SwfReader(log)
    read = list(reader)
    assert 0.4 * len(lines) < len(read) < 0.6 * len(lines)
    assert read == [parse_line(line) for line in lines[: len(read)]]
    assert reader.skipped == {Skip.TRUNCATED: 1}


def test_a_compressed_log_with_damaged_bytes_is_read_up_to_them(tmp_path: Path) -> None:
    damaged = bytearray(gzip.compress("\n".join([LINE] * 20_000).encode(), mtime=0))
    damaged[-8:-4] = b"\0\0\0\0"  # the checksum
    log = tmp_path / "log.swf.gz"
    log.write_bytes(damaged)
    reader = SwfReader(log)
    assert len(list(reader)) > 19_000
    assert reader.skipped == {Skip.TRUNCATED: 1}


def test_a_log_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.swf"):
        list(SwfReader(tmp_path / "none.swf"))
