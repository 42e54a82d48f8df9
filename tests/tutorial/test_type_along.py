"""docs/type-along.md: its lines are typed on real services, and print what the page shows."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.reader import Reader
from tests.tutorial import live

_WAITS_FOR_PRICE = "python examples/first-job/prices.py"


@pytest.fixture(scope="module")
def page() -> list[tuple[str, str]]:
    """What the page shows of each line."""
    return live.shown(live.PAGE.read_text())


@pytest.fixture(scope="module")
def printed(
    page: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[str]]:
    """What each line of the page prints."""
    reader = Reader(tmp_path_factory.mktemp("reader"))
    try:
        yield [output for _, output in live.play([line for line, _ in page], reader)]
    finally:
        reader.paste("coplace down --delete")


@pytest.mark.long
def test_each_line_prints_what_the_page_shows(
    page: list[tuple[str, str]], printed: list[str]
) -> None:
    assert len(page) > 20
    for (line, shown), found in zip(page, printed, strict=True):
        # How many prices there are before depends on the machine.
        last = -1 if line.startswith(_WAITS_FOR_PRICE) else 0
        assert live.shape(found)[last:] == live.shape(shown)[last:], (line, found)


def test_the_story_holds_together(page: list[tuple[str, str]], printed: list[str]) -> None:
    output = dict(zip((line for line, _ in page), printed, strict=True))
    assert re.search(r"p1: needs 10 nodes, \d free", output['coplace why "$EVES"'])
    states = re.findall(r"^\| demo/\S+ +\| (\w+)", output["coplace jobs"], re.MULTILINE)
    assert len(states) == 10
    assert {"finished", "running", "waiting"} <= {*states}
    *_, charge = output['python examples/first-job/prices.py "$MINE"'].splitlines()
    _, job, price_su = charge.split()
    assert f"{price_su} SU to physics" in output['coplace price explain "$MINE"']
    [billed] = [row for row in output["coplace statement physics"].splitlines() if job in row]
    assert f" {price_su} " in billed
    whys = [
        found
        for (line, _), found in zip(page, printed, strict=True)
        if line.endswith('why "$MINE"')
    ]
    ready, ended, capped, released = whys
    assert "is to start" in ready
    assert "has ended" in ended
    assert "460 W left under the power cap of cluster alpha" in capped
    assert "a hot day" in capped
    # Alpha is of a node model that no job of the sample ran on, whatever was placed where.
    assert "nothing says what it draws: the nameplate of 520 W a node" in capped
    assert "is to start" in released


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("needs 10 nodes, 0 free", "needs 4 nodes, 2 free"),
        ("declared by root@vm: hot", "declared by olga@login1: hot"),
        ("from 2026-11-28T17:21:26Z on", "from 2027-01-02T03:04:05Z on"),
        ("| a | b |\n|---|---|\n| x1 | y |", "| a    | b |\n|------|---|\n| x2   | z |"),
    ],
)
def test_an_output_has_the_shape_of_another_run(one: str, other: str) -> None:
    assert live.shape(one) == live.shape(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("needs 10 nodes, 0 free", "needs 10 nodes"),
        ("waits", "has ended"),
        ("| a |\n|---|\n| x |", "| a |\n|---|\n| x |\n| y |"),
        ("| a | b |\n|---|---|\n", "| a | c |\n|---|---|\n"),
    ],
)
def test_an_output_that_says_something_else_has_another_shape(one: str, other: str) -> None:
    assert live.shape(one) != live.shape(other)


def test_a_page_gets_what_its_lines_print() -> None:
    page = "a\n```console\n$ one\nold\n$ two\n```\nb\n```console\n$ three\n```\n"
    outputs = {0: "1\n", 1: "", 2: "3\n"}
    fresh = "a\n```console\n$ one\n1\n$ two\n```\nb\n```console\n$ three\n3\n```\n"
    assert live.rewritten(page, outputs) == fresh
    assert live.shown(fresh) == [("one", "1\n"), ("two", ""), ("three", "3\n")]


def test_a_reader_sees_the_folder_of_a_home(tmp_path: Path) -> None:
    [(_, said)] = live.play([f"echo kept in {tmp_path}/state/coplace"], Reader(tmp_path))
    assert said == "kept in /home/olga/.local/state/coplace\n"
