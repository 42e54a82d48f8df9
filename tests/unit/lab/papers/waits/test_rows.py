from pathlib import Path

from lab.papers.waits.rows import row_of, table
from shared.domain.runtimes import Runtimes

# Of two processors, user 1 ends two short runs; then one has all, two ask for long behind it.
JOBS = (
    (0, 20, 1, 100, 1),
    (0, 20, 1, 100, 1),
    (30, 500, 1, 500, 2),
    (40, 100, 2, 100, 2),
    (500, 90, 1, 90, 3),
    (501, 9, 1, 20, 1),
)


def log(folder: Path) -> Path:
    path = folder / "small.swf"
    lines = ["; MaxProcs: 2"]
    for number, (submit, run, procs, asked, user) in enumerate(JOBS, 1):
        asks = f"{procs} {asked} -1 1 {user}"
        lines.append(f"{number} {submit} -1 {run} {procs} -1 -1 {asks}" + " -1" * 6)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_row_has_the_tail_of_the_waits_and_the_promises_kept(tmp_path: Path) -> None:
    rows = [row_of("small", log(tmp_path), runtimes) for runtimes in Runtimes]
    _, _, requested, predicted = table(rows).splitlines()
    cells = [cell.strip() for cell in requested.strip("|").split("|")]
    assert cells[:2] == ["small, requested", "6"]
    wide_h = f"{(530 - 40) / 3600:.2f}"
    assert cells[5:8] == [wide_h, wide_h, "100.00"]
    assert "| small, predicted | 6 |" in predicted
