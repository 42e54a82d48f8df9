"""What became of mutants, as a table and as a list of those that survived."""

from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from rich.box import MARKDOWN
from rich.table import Table

from tests.mutation.suite import TIME_IS_UP


class Verdict(Enum):
    """Of a mutant. One that could not be tried at all shows a fault in the trial."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    SURVIVED = "survived"
    FAULTY = "not tried"


class Result(NamedTuple):
    """A mutant that was tried: where it is, and what was changed there."""

    file: str
    line: int
    verdict: Verdict
    change: str
    operator: str

    @property
    def is_killed(self) -> bool:
        """A test failed, or did not end."""
        return self.verdict in (Verdict.KILLED, Verdict.TIMED_OUT)


def verdict(outcome: str, output: str) -> Verdict:
    """By the words of the tool; one that runs out of time counts among the killed there."""
    if outcome == "survived":
        return Verdict.SURVIVED
    if outcome != "killed":
        return Verdict.FAULTY
    out_of_time = output == "timeout" or TIME_IS_UP in output
    return Verdict.TIMED_OUT if out_of_time else Verdict.KILLED


def change(diff: str) -> str:
    """The lines of a diff that go, and those that come."""
    lines = diff.splitlines()
    gone = [line[1:].strip() for line in lines if _is(line, "-")]
    come = [line[1:].strip() for line in lines if _is(line, "+")]
    return f"{' '.join(gone)} -> {' '.join(come)}"


def _is(line: str, sign: str) -> bool:
    return line.startswith(sign) and not line.startswith(sign * 3)


def table(results: Sequence[Result]) -> Table:
    """How many of each file were killed."""
    shown = Table(box=MARKDOWN)
    shown.add_column("file", no_wrap=True)
    for title in ("mutants", "killed", "of these timed out", "survived", "killed %"):
        shown.add_column(title, justify="right")
    for file in sorted({each.file for each in results}):
        shown.add_row(Path(file).name, *counts([each for each in results if each.file == file]))
    shown.add_row("all", *counts(results))
    return shown


def counts(results: Sequence[Result]) -> list[str]:
    """The mutants, those killed, those of them that timed out, those that survived; and the share
    of the killed among all that were tried."""
    verdicts = [each.verdict for each in results]
    survived = verdicts.count(Verdict.SURVIVED)
    killed = sum(each.is_killed for each in results)
    share = f"{100 * killed / (killed + survived):.1f}" if killed + survived else "-"
    numbers = (len(results), killed, verdicts.count(Verdict.TIMED_OUT), survived)
    return [*map(str, numbers), share]


def survivors(results: Iterable[Result]) -> list[str]:
    """Where each is, and what was changed there, which no test noticed."""
    survived = [each for each in results if each.verdict is Verdict.SURVIVED]
    survived.sort(key=lambda each: (each.file, each.line, each.operator))
    return [f"{each.file}:{each.line}: {each.change}  [{each.operator}]" for each in survived]
