"""`docs/tutorial.md`: what is typed in it is played, and what comes of it is put into it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from lab.demo import plots
from tests.support.snippets import REPOSITORY, programs
from tests.tutorial.day import Cost, Day, Played, Typed, cost

PAGE: Final = REPOSITORY / "docs" / "tutorial.md"
_PROMPT: Final = "$ "
# Lines for a shell and what they print, under the minute of the day and what happens then.
_TYPED: Final = re.compile(
    r'(?P<begin>^```console title="(?P<hour>\d\d):(?P<minute>\d\d)(?: (?P<incident>[^"]+))?"\n)'
    r"(?P<text>.*?)(?P<end>^```$)",
    re.MULTILINE | re.DOTALL,
)
_COSTS: Final = re.compile(r"(?<=<!-- costs -->\n).*?(?=<!-- end of costs -->)", re.DOTALL)


def typed(text: str) -> list[Typed]:
    """What the page has its operators type, in the order of the day."""
    found = [
        Typed(_minute(block), block["incident"] or "", tuple(_lines(block["text"])))
        for block in _TYPED.finditer(text)
    ]
    return sorted(found, key=lambda each: each.minute)


def play(text: str) -> Played:
    """The day as the page has it."""
    return Day(typed(text), programs(PAGE)).play()


def costs(text: str, played: Played) -> dict[str, Cost]:
    """The cost of the day, and what it would have been without each incident."""
    found = {"the day as it was": cost(played.history)}
    every, code = typed(text), programs(PAGE)
    for incident in dict.fromkeys(each.incident for each in every if each.incident):
        rest = [each for each in every if each.incident != incident]
        found[f"without {incident}"] = cost(Day(rest, code).play().history)
    return found


def rewritten(text: str, played: Played, found: Mapping[str, Cost]) -> str:
    """The page with what the commands print, and the costs."""

    def block(match: re.Match[str]) -> str:
        said = played.said[_minute(match)]
        answers = dict(said)
        lines = [f"{_PROMPT}{line}\n{_plain(answers[line])}" for line in _lines(match["text"])]
        return f"{match['begin']}{''.join(lines)}{match['end']}"

    return _COSTS.sub(lambda _: _table(found), _TYPED.sub(block, text))


def draw(played: Played, folder: Path) -> None:
    """The pictures of the day."""
    plots.gantt(played.history, folder / "tutorial-gantt.png")
    plots.power(played.history, folder / "tutorial-power.png")


def _minute(block: re.Match[str]) -> int:
    return int(block["hour"]) * 60 + int(block["minute"])


def _lines(text: str) -> Sequence[str]:
    return [line.removeprefix(_PROMPT) for line in text.splitlines() if line.startswith(_PROMPT)]


def _plain(answer: str) -> str:
    """Without the space around tables."""
    lines = [line.rstrip() for line in answer.splitlines()]
    return "".join(f"{line}\n" for line in lines if line)


def _table(found: Mapping[str, Cost]) -> str:
    head = ["", "energy of jobs, kWh", "price, SU", "mean wait, min", "last end"]
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, _rule(head), *_rows(found)))


def _rule(head: Sequence[str]) -> list[str]:
    return ["---", *("---:" for _ in head[1:])]


def _rows(found: Mapping[str, Cost]) -> Iterable[list[str]]:
    for name, one in found.items():
        end = datetime.fromtimestamp(one.last_end_us / 1e6, UTC)
        figures = f"{one.energy_kwh:.2f}", f"{one.price_su:,.0f}", f"{one.mean_wait_min:.1f}"
        yield [name, *figures, f"{end:%H:%M}"]
