"""docs/tutorial.md shows what its commands print and what the day cost."""

from pathlib import Path

import pytest

from tests.tutorial import page
from tests.tutorial.day import Cost, Played, Typed


@pytest.fixture(scope="module")
def text() -> str:
    return page.PAGE.read_text()


@pytest.fixture(scope="module")
def played(text: str) -> Played:
    return page.play(text)


def test_the_page_shows_what_the_commands_print_and_the_costs_of_the_day(
    text: str, played: Played
) -> None:
    fresh = page.rewritten(text, played, page.costs(text, played))
    assert fresh == text, "make tutorial"


def test_the_day_is_the_one_that_the_page_promises(text: str, played: Played) -> None:
    done = played.history.finished
    assert (len(done), len({job.user for job in done})) == (30, 3)
    assert len(played.history.final_charges()) == 30
    incidents = {each.incident for each in page.typed(text)} - {""}
    assert incidents == {"the drained node", "the limit", "the lost cluster", "the other policy"}


def test_the_pictures_of_the_page_are_there_and_can_be_drawn(
    text: str, played: Played, tmp_path: Path
) -> None:
    page.draw(played, tmp_path)
    for picture in tmp_path.iterdir():
        assert f"]({picture.name})" in text
        assert (page.PAGE.parent / picture.name).stat().st_size > 10_000


def test_a_page_is_rewritten_where_it_says_otherwise() -> None:
    old = '```console title="07:05 the fan"\n$ coplace nodes p1\nold\n```\n<!-- costs -->\n'
    text = f"{old}old\n<!-- end of costs -->\n"
    [line] = page.typed(text)
    assert line == Typed(425, "the fan", ("coplace nodes p1",))
    played = Played({425: [("coplace nodes p1", "\nnew  \n\n")]}, None)  # type: ignore[arg-type]
    fresh = page.rewritten(text, played, {"the day": Cost(1.0, 2, 3.0, 0)})  # type: ignore[arg-type]
    assert "$ coplace nodes p1\nnew\n```" in fresh
    assert "old" not in fresh
    assert "| the day | 1.00 | 2 | 3.0 | 00:00 |" in fresh
