"""Quotes of the jobs of a record, each made before its submission, beside what became of the job.

The record is of the emulator, whose noise and interference no service can read. It is replayed
round by round; of each job that was submitted, placement is asked what it would have to expect at
the end of the round before, with its nodes as it asked for them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from coplace.v1.jobs_pb2 import JobFinished, JobSubmitted
from coplace.v1.placement_service_pb2 import QuotedPlacement
from rich.console import Console

from lab.demo.options import DemoOptions
from lab.demo.run import run_embedded
from services.pricing.settings import PricingSettings
from shared.catalogue.payloads.domain_types import dependencies_of, job_of
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.tariff import ANY_JOB
from shared.placement.explain.queries import Queries
from shared.placement.explain.quoting import quoted_placement
from shared.placement.explain.start_estimates import StartEstimates
from shared.pricing.quotation import Quotation
from shared.pricing.terms import PriceTerms
from shared.replay.inputs import RecordedInputs, read_inputs
from shared.replay.region import ReplayedRegion, Setting
from shared.replay.rules import RULES, read_rules

_MOST_FORESEEN: Final = 10_000
_ROUND_S: Final = 30.0
_WAITED: Final = "wait, of who waited or was to"
_UNITS: Final = {
    "wait": ("h", 3600),
    _WAITED: ("h", 3600),
    "run": ("h", 3600),
    "energy": ("kWh", 3.6e6),
    "price": ("SU", 1),
}
_KINDS: Final = tuple(_UNITS)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One quantity of a job: as it was quoted, and as it came."""

    quantity: str
    low: float
    expected: float
    high: float
    true: float


def rows(jobs: int) -> list[Mapping[str, str]]:
    """Return a row for each quantity: how many lay within their intervals, below and above."""
    with TemporaryDirectory() as folder:
        out = Path(folder)
        run_embedded(DemoOptions(jobs=jobs, out=out), Console(quiet=True))
        found = list(outcomes(out))
    return [_row(quantity, [o for o in found if o.quantity == quantity]) for quantity in _KINDS]


def _row(quantity: str, found: Sequence[Outcome]) -> Mapping[str, str]:
    count = len(found)
    below = sum(one.true < one.low for one in found)
    above = sum(one.true > one.high for one in found)
    off = median(abs(one.true - one.expected) for one in found)
    wide = median(one.high - one.low for one in found)
    unit, per = _UNITS[quantity]
    return {
        "quantity": quantity,
        "quotes": f"{count:,}",
        "inside": f"{100 * (count - below - above) / count:.1f} %",
        "below": f"{100 * below / count:.1f} %",
        "above": f"{100 * above / count:.1f} %",
        "median width": f"{wide / per:.2f} {unit}",
        "median error of the expected": f"{off / per:.2f} {unit}",
    }


def outcomes(folder: Path) -> Iterator[Outcome]:
    """Yield of each job of a record that ran, in one attempt, what was quoted and what came."""
    inputs = read_inputs(folder / "placement.inputs.jsonl")
    prices = _prices(folder / "charges.jsonl")
    ends = {
        e.payload.job_id: e.payload for e in inputs.events if isinstance(e.payload, JobFinished)
    }
    for job, quoted, now_us, round_end_us in quotes(inputs, read_rules(folder / RULES)):
        end = ends.get(job.job_id)
        if end is not None and end.started_at_us and job.job_id in prices and quoted.cluster:
            yield from _of(job, quoted, (now_us, round_end_us), end, prices[job.job_id])


def quotes(
    inputs: RecordedInputs, rules: PolicySettings
) -> Iterator[tuple[JobSubmitted, QuotedPlacement, int, int]]:
    """Yield of each job what it is quoted, when, and the end of the round that it then came in."""
    region = ReplayedRegion(Setting(rules), inputs.rounds[0].round.ended_at_us)
    for recorded in inputs.rounds:
        queries = region.placement.queries
        for event in recorded.events:
            if isinstance(event.payload, JobSubmitted) and queries.as_of_us:
                found = _quoted(queries, event.payload)
                yield event.payload, found, queries.as_of_us, recorded.round.ended_at_us
        region.decide(recorded.events, recorded.barrier)


def _quoted(queries: Queries, job: JobSubmitted) -> QuotedPlacement:
    found = queries.quoted(job_of(job), dependencies_of(job))
    runs = found.runs if found.arriving.entries else ()
    starts = [
        StartEstimates(queries.snapshot_with(found, each), _MOST_FORESEEN).of(found.arrival)
        for each in runs
    ]
    return quoted_placement(found, queries.as_of_us / 1e6, starts)


def _of(
    job: JobSubmitted,
    quoted: QuotedPlacement,
    rounds_us: tuple[int, int],
    end: JobFinished,
    price_su: float,
) -> Iterator[Outcome]:
    """Nothing starts before the end of the round that it came in; a start takes up to a round."""
    now_us, round_end_us = rounds_us
    if quoted.HasField("wait_s"):
        late_s = (round_end_us - now_us) / 1e6
        wait = quoted.wait_s
        low, middle, high = (max(each, late_s) for each in (wait.low, wait.expected, wait.high))
        waited_s = (end.started_at_us - now_us) / 1e6
        found = Outcome("wait", low, middle, high + _ROUND_S, waited_s)
        yield found
        if waited_s > late_s + _ROUND_S or middle > late_s + _ROUND_S:
            yield replace(found, quantity=_WAITED)
    run, energy = quoted.run_s, quoted.energy_j
    run_s = (end.ended_at_us - end.started_at_us) / 1e6
    yield Outcome("run", run.low, run.expected, run.high, run_s)
    yield Outcome("energy", energy.low, energy.expected, energy.high, end.energy_j)
    rate = PricingSettings().rate_su_per_core_s
    price = Quotation(job, quoted, now_us, ANY_JOB, PriceTerms(rate).of_quote("")).price()
    yield Outcome("price", float(price.low), float(price.expected), float(price.high), price_su)


def _prices(file: Path) -> dict[str, float]:
    """By the last revision of each charge."""
    charges = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    charges.sort(key=lambda each: each["revision"])
    return {each["job_id"]: float(each["price_su"]) for each in charges}
