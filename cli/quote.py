"""`coplace quote`: what a job would cost, wait and draw, before it is submitted."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Final

import typer
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_service_pb2 import (
    QuotedPlacement,
    QuotedRange,
    QuoteRequest,
    QuoteResponse,
)
from coplace.v1.placement_service_pb2_grpc import PlacementServiceStub
from google.protobuf.json_format import ParseDict, ParseError

from cli.asking import Placement, asking
from cli.notes import note, utc
from cli.output import Output, OutputName, Row, write
from cli.tariff import newest, tariffs
from cli.times import clock_us
from coplace_client.errors import UnusableError
from services.pricing.quotation import PriceRange, Quotation
from services.pricing.settings import PricingSettings
from services.pricing.tariff_book import TariffBook
from shared.catalogue.contents.check import check_contents
from shared.catalogue.payloads.tariffs import tariff_of
from shared.domain.tariff import PriceTariff, RateScope
from shared.process.settings import settings
from shared.process.user_files import read_yaml
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.state.state import State

_WITHIN_S: Final = 60.0
_JOULES_A_KWH: Final = 3.6e6
_COLUMNS: Final = ("nodes are", "cluster", "units", "GHz", "wait", "run", "energy", "price", "why")


def quote(
    file: Annotated[
        Path,
        typer.Argument(
            exists=True, dir_okay=False, help="YAML or JSON: the fields of JobSubmitted."
        ),
    ],
    tariff: Annotated[
        str,
        typer.Option(help="NAME, of which the last version, or NAME/VERSION: not that in force."),
    ] = "",
    partition: Annotated[str, typer.Option(help="As rates distinguish jobs by it.")] = "",
    qos: Annotated[str, typer.Option(help="As rates distinguish jobs by it.")] = "",
    output: OutputName = Output.TABLE,
    placement: Placement = "127.0.0.1:50053",
) -> None:
    """Print what a job would cost, wait and draw if it were submitted now, with its nodes for
    itself and beside others. Nothing is submitted."""
    job = read_job(file, clock_us())
    price_terms = PriceTerms(Deployment.from_settings(settings()), tariff)
    answer = ask(placement, job)
    require_accepted(answer)
    scope = RateScope(partition=partition, qos=qos)
    rows = [row(each, job, answer.as_of_us, scope, price_terms) for each in answer.placements]
    if output is Output.TABLE:
        write([describe_row(each) for each in rows], _COLUMNS, output)
    else:
        write(rows, tuple(rows[0]), output)
    note(remarks(answer, price_terms))


def read_job(file: Path, now_us: int) -> JobSubmitted:
    """Read a job from a file. Raises UnusableError for an invalid file, RejectedError naming the
    field that ingest would refuse."""
    try:
        found = read_yaml(file)
    except (UnusableError, UnicodeDecodeError) as error:
        raise UnusableError(f"{file} is neither YAML nor JSON: {error}") from None
    if not isinstance(found, dict):
        raise UnusableError(f"{file} must map the fields of JobSubmitted to values")
    given = {"job_id": "quote", "attempt": 1, "submitted_at_us": now_us}
    try:
        job = ParseDict({**given, **found}, JobSubmitted())
    except ParseError as error:
        raise UnusableError(f"{file} is not a valid JobSubmitted: {error}") from None
    check_contents(job)
    return job


class PriceTerms:
    """By what jobs are charged: a tariff that is asked for, else those that are declared, else the
    rate. Raises UnusableError for a tariff that is not declared."""

    def __init__(self, deployment: Deployment, tariff: str) -> None:
        declared = tariffs(deployment)
        self._asked = tariff_of(newest(declared, tariff)) if tariff else None
        self._book, self.edges_us = TariffBook(State({})), set[int]()
        for each in declared:
            self._book.declare(each)
            if not tariff:
                self.edges_us |= {each.from_us, each.until_us} - {0}
        self._rate = PricingSettings().rate_su_per_core_s

    def at(self, time_us: int) -> Decimal | PriceTariff:
        """Return the rate or tariff for a job that starts then."""
        return self._asked or self._book.at(time_us) or self._rate

    def describe(self, time_us: int) -> str:
        """Return those terms in words."""
        terms = self.at(time_us)
        if isinstance(terms, PriceTariff):
            return f"tariff {terms.name}, version {terms.version}"
        return f"{terms:.9f} SU a core and second: no tariff is in force"


def ask(address: str, job: JobSubmitted) -> QuoteResponse:
    """Ask placement at `address` for a quote. Raises UnansweredError."""
    with asking(address) as channel:
        return PlacementServiceStub(channel).Quote(QuoteRequest(job=job), timeout=_WITHIN_S)


def require_accepted(answer: QuoteResponse) -> None:
    """Raise UnusableError for a job that would not start whichever way its nodes are."""
    if all(each.is_refused for each in answer.placements):
        raise UnusableError(answer.placements[0].reason)


def row(
    found: QuotedPlacement, job: JobSubmitted, now_us: int, scope: RateScope, terms: PriceTerms
) -> Row:
    """Return all figures of one way; None where there are none."""
    price: PriceRange | None = None
    if found.cluster:
        price = Quotation(job, found, now_us, scope, terms.at, terms.edges_us).price()
    wait = found.wait_s if found.HasField("wait_s") else None
    run = found.run_s if found.cluster else None
    energy = found.energy_j if found.cluster else None
    return {
        "nodes are": "shared" if found.shareable else "exclusive",
        "cluster": found.cluster or None,
        "units": found.nodes or None,
        "GHz": found.freq_ghz or None,
        **_figures("wait_s", wait),
        **_figures("run_s", run),
        **_figures("energy_j", energy),
        **_figures("price_su", price),
        "limit_s": found.walltime_s or None,
        "most_slowdown_ratio": found.slowdown_ratio,
        "why": found.reason or None,
    }


def _figures(name: str, found: QuotedRange | PriceRange | None) -> Row:
    """Low, expected and high; service units as texts, which keep their digits."""
    levels = ("low", "expected", "high")
    if found is None:
        return {f"{level}_{name}": None for level in levels}
    values = [getattr(found, level) for level in levels]
    told = [f"{each:f}" if isinstance(each, Decimal) else each for each in values]
    return {f"{level}_{name}": value for level, value in zip(levels, told, strict=True)}


def describe_row(found: Row) -> Row:
    """Return a row for people: what is expected, and the interval."""
    return {
        **{name: found[name] for name in ("nodes are", "cluster", "units", "GHz", "why")},
        "wait": _range(found, "wait_s", 3600, ".2f", "h"),
        "run": _range(found, "run_s", 3600, ".2f", "h"),
        "energy": _range(found, "energy_j", _JOULES_A_KWH, ".3f", "kWh"),
        "price": _range(found, "price_su", 1, ".2f", "SU"),
    }


def _range(found: Row, name: str, per: float, digits: str, unit: str) -> str | None:
    if found[f"expected_{name}"] is None:
        return None
    low, expected, high = (
        f"{float(found[f'{level}_{name}'] or 0) / per:{digits}}"
        for level in ("low", "expected", "high")
    )
    return f"{expected} {unit} ({low} to {high})"


def remarks(answer: QuoteResponse, terms: PriceTerms) -> Iterator[str]:
    """Yield what the figures mean, and by what they were made."""
    yield f"as known at {utc(answer.as_of_us)} UTC; price by {terms.describe(answer.as_of_us)}"
    yield "wait: assumes no new jobs. Low: all jobs end very early. High: all run to their limits"
    if answer.past_jobs:
        common = f"of the same {answer.alike}" if answer.alike != "region" else "of the region"
        yield f"run: what 90 % of {answer.past_jobs} past jobs {common} ran for of their limits"
    else:
        yield "run: from nothing to the limit, since too few jobs have ended"
    if any(each.power_sd_unknown for each in answer.placements if each.cluster):
        yield "energy: by the run alone, since nothing says how far the power may be off"
    else:
        yield "energy: 90 % of the power, over the interval of the run"
    yield "price: the shortest run, slowed down as much as neighbours may, to the longest alone"
