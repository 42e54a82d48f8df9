"""The first answer of a demo: three figures beside those of the same jobs under plain EASY.

Plain EASY keeps no cap of power, so that two runs of the whole system are shown: one without caps,
which is compared, and the one under the caps of the demo, of which all files are.
"""

import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from decimal import Decimal
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from coplace.v1.jobs_pb2 import JobFinished
from rich.console import Console
from rich.table import Table

from coplace_client.files import write_whole
from lab.demo import comparison, embedded
from lab.demo.comparison import ComparedRun, RunFigures
from lab.demo.history import History
from lab.demo.options import DemoOptions
from lab.demo.plain import Offer, PlainEasy
from services.pricing.settings import PricingSettings
from shared.catalogue.payloads.domain_types import cores_of
from shared.pricing.model import price

PICTURE: Final = "first-answer.png"
COMPARISON: Final = "comparison.json"
COPLACE: Final = "Coplace"
CAPPED: Final = "Coplace under caps"


@dataclass(frozen=True, slots=True)
class FirstAnswer:
    """Coplace without caps and under them, and plain EASY where jobs are submitted and anywhere."""

    history: History
    coplace: ComparedRun
    capped: ComparedRun
    plain: tuple[ComparedRun, ...]

    @property
    def runs(self) -> tuple[ComparedRun, ...]:
        """Return all runs, the one that is compared first."""
        return self.coplace, self.capped, *self.plain

    def figures(self) -> list[RunFigures]:
        """Return the figures of all runs in their order."""
        clusters, caps = self.history.clusters, self.history.caps
        return [comparison.figures_of(run, clusters, caps) for run in self.runs]


class UncappedRun:
    """The same jobs without caps, played in another process meanwhile."""

    def __init__(self, options: DemoOptions) -> None:
        self._pool = ProcessPoolExecutor(1, get_context("spawn"))
        self._played = self._pool.submit(play_uncapped, options)

    def measured(self) -> ComparedRun:
        """Wait for its end."""
        with self._pool:
            price_su, ends = self._played.result()
        return ComparedRun(COPLACE, [JobFinished.FromString(each) for each in ends], price_su)

    def stop(self) -> None:
        """End it, whatever it is at."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def play_uncapped(options: DemoOptions) -> tuple[float, list[bytes]]:
    """Return what all jobs cost and how each ended."""
    system = embedded.run(replace(options, caps=False), lambda _: None)
    history = History.read(system.topic)
    return _price_su(history), [job.SerializeToString() for job in history.finished]


def compare(options: DemoOptions, history: History, coplace: ComparedRun) -> FirstAnswer:
    """Return the answer of a run under caps, with plain EASY on the same jobs."""
    capped = ComparedRun(CAPPED, history.finished, _price_su(history))
    plain = [_plain(options, offer) for offer in Offer]
    return FirstAnswer(history, coplace, capped, tuple(plain))


def write(answer: FirstAnswer, folder: Path) -> None:
    """Write the picture and all figures of all runs."""
    from lab.demo import comparison_plot

    figures = answer.figures()
    with write_whole(folder / COMPARISON) as fresh:
        text = json.dumps(comparison.as_json(figures), indent=2)
        fresh.write_text(f"{text}\n", encoding="utf-8")
    runs = answer.capped.finished, answer.plain[0].finished
    comparison_plot.draw(answer.history, figures, *runs, folder / PICTURE)


def lines(answer: FirstAnswer) -> Iterator[str]:
    """Yield what is said below the table."""
    coplace, capped, *plain = answer.figures()
    for base, run in zip(plain, answer.plain, strict=True):
        yield f"Against {base.name}: {comparison.changes(coplace, base)}."
        later = comparison.ended_later(answer.coplace.finished, run.finished)
        yield f"What became worse: {'; '.join([*comparison.worse(coplace, base), later])}."
    above = " and ".join(_hours(base.above_cap_s) for base in plain)
    yield (
        f"Caps: EASY knows none, and exceeded one for {above}; under them Coplace exceeded one for "
        f"{_hours(capped.above_cap_s)} by the meters."
    )
    yield f"Advice: {comparison.advice(coplace, capped, plain)}"


def table(answer: FirstAnswer, title: str) -> Table:
    """Return the three figures of each run as people read them."""
    found = Table(title=title)
    for name in ("", "energy", "response", "its p95", "price"):
        found.add_column(name, justify="right" if name else "left")
    for row in comparison.rows(answer.figures()):
        found.add_row(*row)
    return found


def show(answer: FirstAnswer, options: DemoOptions, console: Console) -> None:
    """Print the answer, and where its picture is."""
    jobs = len(answer.capped.finished)
    console.print(table(answer, f"{jobs:,} jobs, seed {options.seed}, {options.policy}"))
    for line in lines(answer):
        console.print(line, highlight=False, markup=False)
    console.print(f"Picture: {options.out / PICTURE}", highlight=False, soft_wrap=True)


def _plain(options: DemoOptions, offer: Offer) -> ComparedRun:
    finished = PlainEasy(options.simulation, offer).play()
    return ComparedRun(f"EASY, {offer}", finished, float(sum(_full_prices(finished))))


def _full_prices(finished: Iterable[JobFinished]) -> Iterator[Decimal]:
    """Yield the price of each job at the rate of the demo: nobody slowed it down."""
    rate = PricingSettings().rate_su_per_core_s
    for job in finished:
        yield price(rate, cores_of(job), job.ended_at_us - job.started_at_us, ()).price_su


def _price_su(history: History) -> float:
    return float(sum(Decimal(each.price_su) for each in history.final_charges().values()))


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:,.1f} h"
