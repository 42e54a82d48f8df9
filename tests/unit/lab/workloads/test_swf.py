import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.workloads.swf import Skip, SwfRecord, parse_line, read_swf
from tests.unit.lab.workloads.swf_records import record, text_of

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


def of_a_burst(line: str) -> bool:
    """Return whether a line is a burst of a job: what becomes of it depends on the others."""
    row = parse_line(line)
    return not isinstance(row, Skip) and row[SwfRecord._fields.index("status")] in (2, 3, 4)


@given(st.lists(lines | records.map(to_line), max_size=20))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_broken_lines_among_good_ones_change_nothing_about_them(
    path: Path, several: list[str]
) -> None:
    text = [line for each in several if not of_a_burst(line := " ".join(each.split()))]
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


@pytest.mark.parametrize(
    ("told", "kept", "left_out"),
    [
        ([(1, 300), (2, 100), (3, 200)], [(1, 300)], 2),
        ([(0, 300), (2, 100), (4, 200)], [(0, 300)], 2),
        ([(2, 100), (2, 50), (3, 200)], [(2, 350)], 2),
        ([(3, 100)], [(3, 100)], 0),
        ([(1, 300), (1, 100)], [(1, 300), (1, 100)], 0),
    ],
    ids=["a whole", "one that failed", "bursts alone", "one burst", "two of a number"],
)
def test_a_checkpointed_job_is_one_job(
    path: Path, told: list[tuple[int, int]], kept: list[tuple[int, int]], left_out: int
) -> None:
    """By SWF 2.2 it has a line for the whole and one for each burst: one or the other counts."""
    of_it = [record(7, status=status, run_s=run_s) for status, run_s in told]
    path.write_text(text_of(record(6), *of_it, record(8)))
    log = read_swf(path)
    numbers, run_s, status = (log.column(name) for name in ("job_number", "run_s", "status"))
    found = zip(status[numbers == 7].tolist(), run_s[numbers == 7].tolist(), strict=True)
    assert (list(found), len(log.rows)) == (kept, 2 + len(kept))
    assert log.skipped.get(Skip.BURST, 0) == left_out


@pytest.mark.parametrize("field", ["\u0661\u0662", "\uff11", "1_000", "inf", "nan", "0x10"])
def test_numbers_are_in_ascii_digits_or_the_line_is_left_out(path: Path, field: str) -> None:
    path.write_text(text_of(record(6), record(7, run_s=field), record(8)), encoding="utf-8")
    log = read_swf(path)
    assert log.column("job_number").tolist() == [6, 8]
    assert log.skipped == {Skip.NOT_A_NUMBER: 1}
