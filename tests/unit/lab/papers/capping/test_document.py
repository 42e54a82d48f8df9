"""The document's tables are those that `make bench-capping` fills in."""

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from coplace_client.errors import UnusableError
from lab.papers.capping import arrivals, backfill, clocks, decisions, margins, searched
from lab.papers.capping.__main__ import chosen_of, tables_of
from lab.papers.capping.document import put, require_solvers
from lab.papers.capping.plays import CONTENDERS, SOLVERS
from lab.papers.capping.tables import rows_of
from lab.simulation.capping import CappingMethod
from tests.support.snippets import REPOSITORY
from tests.unit.lab.papers.capping.test_tables import ONE, OUTCOME

DOCUMENT = REPOSITORY / "docs" / "results" / "power-capping.md"
PARTS = ("searched", "arrivals", "decisions", "margins", "backfill", "clocks", "uncertain")


def header(text: str) -> list[str]:
    return [cell.strip() for cell in text.splitlines()[0].strip("|").split("|")]


def in_document(name: str) -> list[str]:
    _, _, rest = DOCUMENT.read_text().partition(f"<!-- {name} -->\n")
    text, _, _ = rest.partition(f"<!-- /{name} -->")
    return header(text)


def tables(named: Sequence[str] = (), *, solvers: bool = False) -> dict[str, str]:
    chosen = [each.name for each in chosen_of(named, solvers=solvers)]
    outcomes = [replace(OUTCOME, contender=name) for name in chosen]
    return tables_of(rows_of([ONE], outcomes), chosen, [ONE], outcomes)


def test_with_its_solvers_the_benchmark_fills_the_documents_tables_column_by_column() -> None:
    found = tables(solvers=True)
    assert {"capping dec", "capping searches", "capping slowdowns"} <= found.keys()
    for name, text in found.items():
        assert in_document(name) == header(text), name


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("capping searched", searched.HEADER),
        ("capping arrivals", arrivals.HEADER),
        ("capping backfill", backfill.HEADER),
        ("capping clocks", clocks.HEADER),
        ("capping decisions", decisions.TIMES),
        ("capping solved", decisions.SOLVED),
        ("capping margins", margins.HEADER),
    ],
)
def test_each_part_fills_a_table_of_the_document(name: str, columns: tuple[str, ...]) -> None:
    assert in_document(name) == [*columns]


def test_solvers_play_on_demand_or_where_they_are_named() -> None:
    assert chosen_of((), solvers=False) == [*CONTENDERS]
    assert chosen_of((), solvers=True) == [*CONTENDERS, *SOLVERS]
    assert [each.name for each in chosen_of(["DEC", "LS"], solvers=False)] == ["LS", "DEC"]
    assert chosen_of(["nobody"], solvers=False) == []
    with pytest.raises(UnusableError, match="leave out --contender"):
        chosen_of(["LS"], solvers=True)


def test_dec_is_among_the_others_where_lists_are_missing_beside_it() -> None:
    found = tables(["LS", "DEC"])
    assert "capping dec" not in found
    assert header(found["capping slowdowns"])[3:] == ["LS", "DEC"]


def test_a_document_is_not_filled_without_the_solvers_that_it_shows(tmp_path: Path) -> None:
    require_solvers(None, solvers=False)
    require_solvers(tmp_path, solvers=True)
    with pytest.raises(UnusableError, match="say --solvers"):
        require_solvers(tmp_path, solvers=False)


def test_tables_are_put_into_the_document_if_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "document.md"
    path.write_text("a\n<!-- t -->\nold\n<!-- /t -->\nb\n")
    put({"t": "new"}, path)
    assert path.read_text() == "a\n<!-- t -->\nnew\n<!-- /t -->\nb\n"
    put({"u": "new"}, None)


def test_margins_have_dec_in_the_first_set_where_solvers_are_asked_for() -> None:
    methods = (CappingMethod.LS, CappingMethod.HYBRID)
    sets = ("rndm_50_300", "hist_100")
    found = [*margins.lines_of(sets, methods, (), solvers=True)]
    assert [(line.instances, line.method) for line in found] == [
        *((sets[0], method) for method in (*methods, CappingMethod.DEC)),
        *((sets[1], method) for method in methods),
    ]
    assert found[2].caps_pct == (75, 50)
    assert len([*margins.lines_of(sets, methods, (), solvers=False)]) == 4


def test_a_line_of_backfill_shows_something_where_a_figure_changes_by_more_than_a_tenth() -> None:
    line = ["a", "30", "1", "1", "2.000", "2.000", "2.150", "1.900", "2.000"]
    assert not backfill.is_changed(line)
    assert backfill.is_changed([*line[:-1], "1.750"])


def test_make_plays_all_parts_into_the_document() -> None:
    def planned(*given: str) -> list[str]:
        made = ["make", "--dry-run", "bench-capping", *given]
        done = subprocess.run(made, cwd=REPOSITORY, capture_output=True, text=True, check=True)
        lines = done.stdout.replace("\\\n", " ").splitlines()
        return [line for line in lines if "lab.papers.capping" in line]

    whole, *parts, large = planned("SOLVERS=1", "INTO=x.md")
    assert [part.split("lab.papers.capping.")[1].split()[0] for part in parts] == [*PARTS]
    assert all("--into 'x.md'" in line for line in (whole, *parts))
    assert "--into" not in large
    assert ["--solvers" in line for line in (whole, *parts)] == [
        True,
        *(p == "margins" for p in PARTS),
    ]
    assert not any("--solvers" in line or "--into" in line for line in planned())
