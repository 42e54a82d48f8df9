"""`coplace quote`: what a job would cost, wait and draw, before it is submitted."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Final

import typer
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_service_pb2 import (
    QuotedPlacement,
    QuotedPrice,
    QuotedRange,
    QuoteRequest,
    QuoteResponse,
)
from coplace.v1.placement_service_pb2_grpc import PlacementServiceStub
from google.protobuf.json_format import ParseDict, ParseError

from cli.answers import write_answer
from cli.asking import Placement, asking
from cli.notes import note, utc
from cli.output import Output, OutputName, Row, write
from cli.times import clock_us
from coplace_client.errors import UnusableError
from shared.catalogue.contents.check import check_contents
from shared.process.user_files import read_yaml

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
        typer.Option(
            help="NAME (its last version) or NAME/VERSION, in place of the tariff in force."
        ),
    ] = "",
    partition: Annotated[str, typer.Option(help="Where rates depend on it.")] = "",
    qos: Annotated[str, typer.Option(help="Where rates depend on it.")] = "",
    output: OutputName = Output.TABLE,
    placement: Placement = "127.0.0.1:50053",
) -> None:
    """Print what a job would cost, wait and draw if it were submitted now, with its nodes for
    itself and beside others. Nothing is submitted."""
    job = read_job(file, clock_us())
    request = QuoteRequest(job=job, tariff=tariff, partition=partition, qos=qos)
    show(request, output, placement)


def show(request: QuoteRequest, output: Output, placement: str) -> None:
    """Write what placement quotes. Raises UnansweredError, or UnusableError for a job that would
    not start."""
    answer = ask(placement, request)
    require_accepted(answer)
    rows = [row(each) for each in answer.placements]
    if output is Output.TABLE:
        write([describe_row(each) for each in rows], _COLUMNS, output)
    else:
        write_answer(answer, rows, tuple(rows[0]), output)
    note(remarks(answer))


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


def ask(address: str, request: QuoteRequest) -> QuoteResponse:
    """Ask placement at `address` for a quote. Raises UnansweredError."""
    with asking(address) as channel:
        return PlacementServiceStub(channel).Quote(request, timeout=_WITHIN_S)


def require_accepted(answer: QuoteResponse) -> None:
    """Raise UnusableError for a job that would not start whichever way its nodes are."""
    if all(each.is_refused for each in answer.placements):
        raise UnusableError(answer.placements[0].reason)


def row(found: QuotedPlacement) -> Row:
    """Return all figures of one way; None where there are none."""
    is_placed = bool(found.cluster)
    return {
        "nodes are": "shared" if found.shareable else "exclusive",
        "cluster": found.cluster or None,
        "units": found.nodes or None,
        "GHz": found.freq_ghz or None,
        **_figures("wait_s", found.wait_s if found.HasField("wait_s") else None),
        **_figures("run_s", found.run_s if is_placed else None),
        **_figures("energy_j", found.energy_j if is_placed else None),
        **_figures("price_su", found.price_su if is_placed else None),
        "limit_s": found.walltime_s or None,
        "most_slowdown_ratio": found.slowdown_ratio,
        "why": found.reason or None,
    }


def _figures(name: str, found: QuotedRange | QuotedPrice | None) -> Row:
    """Low, expected and high; service units as texts, which keep their digits."""
    levels = ("low", "expected", "high")
    return {f"{level}_{name}": None if found is None else getattr(found, level) for level in levels}


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


def remarks(answer: QuoteResponse) -> Iterator[str]:
    """Yield what the figures mean, and by what they were made."""
    yield f"as known at {utc(answer.as_of_us)} UTC; price by {_terms(answer)}"
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


def _terms(answer: QuoteResponse) -> str:
    """By what is charged, in words."""
    name, _, version = answer.tariff.rpartition("/")
    if name:
        return f"tariff {name}, version {version}"
    rate = Decimal(answer.rate_su_per_core_s)
    return f"{rate:.9f} SU a core and second: no tariff is in force"
