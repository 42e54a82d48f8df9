import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.workloads.swf import Skip, SwfRecord, parse_line, read_swf

LINE = "1 0 10 97225 56 -1 -1 56 210000 -1 1 7 3 -1 -1 -1 -1 -1"

whole = st.integers(min_value=-1, max_value=2**40)
real = st.just(-1.0) | st.floats(min_value=0, allow_nan=False, allow_infinity=False)
records = st.builds(
    SwfRecord,
    **{name: whole if kind is int else real for name, kind in SwfRecord.__annotations__.items()},
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.swf"


def to_line(record: SwfRecord) -> str:
    return " ".join(map(str, record))


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
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_broken_lines_among_good_ones_change_nothing_about_them(
    path: Path, several: list[str]
) -> None:
    text = [" ".join(line.split()) for line in several]
    kept = [line for line in text if line and not line.startswith(";")]
    one_by_one = [parse_line(line) for line in kept]
    expected = [row for row in one_by_one if not isinstance(row, Skip) and np.isfinite(row).all()]
    path.write_text("\n".join(text), encoding="utf-8")
    log = read_swf(path)
    small_ids = [row for row in expected if abs(row[0]) <= 2**53]
    assert log.rows.tolist() == small_ids
    assert sum(log.skipped.values()) == len(kept) - len(small_ids)


def test_the_columns_are_those_of_the_format(path: Path) -> None:
    path.write_text(" ".join(map(str, range(1, 19))))
    log = read_swf(path)
    (record,) = log.records()
    assert (record.submit_s, record.run_s, record.allocated_procs) == (2, 4, 5)
    assert (record.requested_procs, record.requested_s) == (8, 9)
    assert (record.user_id, record.group_id, record.executable, record.think_s) == (12, 13, 14, 18)
    assert log.column("user_id").tolist() == [12]


WORDS, INFINITE = LINE.replace("97225", "soon"), LINE.replace("97225", "inf")
NO_UTF_8 = b"; Note: caf\xe9\n" + LINE.encode().replace(b"97225", b"\xff\xfe") + b"\n"


@pytest.mark.parametrize(
    ("content", "rows", "skipped"),
    [
        (
            f"{LINE}\n1 2 3\n\n{WORDS}\n{LINE} 19\n{INFINITE}\n  {LINE}\n".encode(),
            2,
            {Skip.FIELD_COUNT: 2, Skip.NOT_A_NUMBER: 2},
        ),
        (b"1 2 3\n4 5 6\n", 0, {Skip.FIELD_COUNT: 2}),
        (NO_UTF_8 + LINE.encode(), 1, {Skip.NOT_A_NUMBER: 1}),
        (gzip.compress(f"{LINE}\n".encode()), 1, {}),
    ],
    ids=["some", "all", "no UTF-8", "compressed"],
)
def test_broken_lines_are_counted_by_reason_and_the_rest_is_read(
    path: Path, content: bytes, rows: int, skipped: dict[Skip, int]
) -> None:
    path.write_bytes(content)
    log = read_swf(path)
    assert log.rows.tolist() == [parse_line(LINE)] * rows
    assert log.skipped == skipped


@pytest.mark.parametrize("is_cut", [True, False], ids=["cut off", "damaged"])
def test_what_a_compressed_log_holds_up_to_where_it_broke_is_read(path: Path, is_cut: bool) -> None:
    lines = [f"{number} {LINE.partition(' ')[2]}" for number in range(20_000)]
    whole_log = gzip.compress("\n".join(lines).encode(), mtime=0)
    checksum = slice(-8, -4)
    damaged = bytearray(whole_log)
    damaged[checksum] = bytes(4)
    path.write_bytes(whole_log[: len(whole_log) // 2] if is_cut else damaged)
    log = read_swf(path)
    least, most = (8_000, 12_000) if is_cut else (19_000, 20_000)
    assert least < len(log.rows) <= most
    assert log.column("job_number").tolist() == list(range(len(log.rows)))
    assert log.skipped == {Skip.TRUNCATED: 1}


@pytest.mark.parametrize(
    ("comments", "machine_procs"),
    [
        ("; MaxNodes: 338 (batch partition; 512 total)\n; MaxProcs: 430\n", 430),
        ("; MaxProcs: 430\n; MaxNodes: 338\n", 430),
        (";MaxNodes:  338\n", 338),
        ("; MaxNodes: -1\n; Note: MaxProcs: 3\n", None),
    ],
)
def test_the_comments_show_the_size_of_the_machine(
    path: Path, comments: str, machine_procs: int | None
) -> None:
    path.write_text(f"{comments}{LINE}\n")
    log = read_swf(path)
    assert len(log.rows) == 1
    assert log.machine_procs == machine_procs
