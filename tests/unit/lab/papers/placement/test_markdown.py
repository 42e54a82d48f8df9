from pathlib import Path

import pytest

from lab.papers.placement.markdown import filled, table, write_tables


def test_a_table_has_a_line_a_row_and_its_figures_to_the_right() -> None:
    assert table(["a", "b"], [["x", "1"]]) == "| a | b |\n| --- | ---: |\n| x | 1 |"


def test_a_document_takes_tables_between_their_marks_and_keeps_the_rest() -> None:
    document = "first\n<!-- one -->\nold\n<!-- /one -->\nlast\n"
    once = filled(document, {"one": "new"})
    assert once == "first\n<!-- one -->\nnew\n<!-- /one -->\nlast\n"
    assert filled(once, {"one": "new"}) == once


@pytest.mark.parametrize("document", ["", "<!-- one -->\n"])
def test_a_document_without_the_marks_is_refused(document: str) -> None:
    with pytest.raises(ValueError, match="no place for one"):
        filled(document, {"one": "new"})


def test_tables_are_written_below_their_names_and_into_their_places(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("<!-- one -->\nold\n<!-- /one -->\n")
    assert write_tables({"one": "new"}, tmp_path, document) == "## one\n\nnew"
    assert (tmp_path / "tables.md").read_text() == "## one\n\nnew\n"
    assert document.read_text() == "<!-- one -->\nnew\n<!-- /one -->\n"
