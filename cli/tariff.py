"""`coplace tariff set|show|check`: what jobs are charged by."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.placement_service_pb2 import ListTariffsRequest
from coplace.v1.placement_service_pb2_grpc import PlacementServiceStub
from coplace.v1.tariffs_pb2 import (
    Payer,
    PriceModel,
    RatePoint,
    TariffDeclared,
    TariffRate,
)

from cli.answers import write_answer
from cli.asking import Ingest, Placement, asking
from cli.kafka_topics import KafkaTopics
from cli.outcomes import order, tell
from cli.output import Output, OutputName, Row
from cli.speaking import Reason, Source
from cli.times import clock_us, format_utc, time_us
from cli.waiting import WAIT_S, Wait
from coplace_client.errors import RejectedError, UnusableError
from coplace_client.facts import fact
from coplace_client.numbers import whole_number
from shared.catalogue.contents.check import check_contents
from shared.pricing.tariff_book import TariffBook
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.stages.stage import AlreadyAppliedError
from shared.streams.state.state import State

app = typer.Typer(no_args_is_help=True, help="What jobs are charged by.")
BILLING: Final = "billing"
_WITHIN_S: Final = 10.0
_COLUMNS: Final = ("tariff", "version", "from", "until", "model", "rates", "declared")
_DECIMALS: Final = ("idle_w_per_core", "surcharge_share", "surcharge_most_su", "su_cost")
_PLAIN: Final = ("name", "version", *_DECIMALS, "currency")
_PAYERS: Final = ("node_failure", "requeue")
_TIMES: Final = ("from", "until")
_KNOWN: Final = (*_PLAIN, *_PAYERS, *_TIMES, "model", "points", "rates", "hour_factors")

File = Annotated[
    Path, typer.Argument(exists=True, dir_okay=False, help="YAML, as the how-to says.")
]


@app.command("set")
def set_tariff(
    file: File,
    reason: Reason = "",
    ingest: Ingest = "127.0.0.1:50051",
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Declare a version of a tariff, which holds for jobs that start in its time."""
    now_us = clock_us()
    declared = read_tariff(file, reason, now_us)
    done = order(ingest, declaration(declared, source, now_us), wait)
    typer.echo(f"declared {declared.name}, version {declared.version}: {_held(declared)}")
    tell(done)


@app.command()
def check(file: File) -> None:
    """Print what a file would declare, or what is wrong with it."""
    declared = read_tariff(file, "", clock_us())
    typer.echo(f"{declared.name}, version {declared.version}: {_held(declared)}")
    for rate in declared.rates:
        where = [rate.cluster, rate.node_model, rate.partition, rate.qos]
        holds = ", ".join(filter(None, where)) or "anywhere"
        typer.echo(f"{rate.resource}: {rate.su} SU {_unit(rate)}, {holds}")
    if declared.surcharge_share:
        most = declared.surcharge_most_su
        bound = f", at most {most} SU for an hour beside a run" if most else ""
        typer.echo(f"surcharge: {declared.surcharge_share} of what neighbours take off{bound}")
    if declared.currency:
        typer.echo(f"a service unit costs {declared.su_cost} {declared.currency}")


@app.command()
def show(output: OutputName = Output.TABLE, placement: Placement = "127.0.0.1:50053") -> None:
    """List the declared tariffs, the newest last."""
    with asking(placement) as channel:
        answer = PlacementServiceStub(channel).ListTariffs(ListTariffsRequest(), timeout=_WITHIN_S)
    write_answer(answer, [row(each) for each in answer.tariffs], _COLUMNS, output)


def tariffs(deployment: Deployment) -> list[TariffDeclared]:
    """Return each version that pricing took, by when it was declared."""
    told = (event.payload for event in KafkaTopics(deployment).topic(BILLING))
    found = taken(each for each in told if isinstance(each, TariffDeclared))
    return sorted(found, key=lambda each: (each.declared_at_us, each.name, each.version))


def taken(declared: Iterable[TariffDeclared]) -> list[TariffDeclared]:
    """Return those of the declarations, in their order, that pricing took: a version that was
    declared otherwise before is none of them."""
    book = TariffBook(State({}))
    for each in declared:
        with suppress(RejectedError, AlreadyAppliedError):
            book.declare(each)
    return book.declared


def read_tariff(file: Path, reason: str, now_us: int) -> TariffDeclared:
    """Read a tariff from a file. Raises UnusableError for what is not a YAML mapping, RejectedError
    naming the invalid field."""
    try:
        # Every value as a text: decimals stay as they are written.
        found = yaml.load(file.read_text(encoding="utf-8"), yaml.BaseLoader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UnusableError(f"{file} is not valid YAML: {error}") from None
    if not isinstance(found, dict):
        raise UnusableError(f"{file} must map names to values: {', '.join(_KNOWN)}")
    for name in found:
        if name not in _KNOWN:
            raise RejectedError(str(name)[:80], f"must be one of {', '.join(_KNOWN)}")
    try:
        declared = TariffDeclared(**_fields(found), reason=reason, declared_at_us=now_us)
    except (TypeError, ValueError, KeyError) as error:
        raise UnusableError(f"{file} has an invalid value: {error}") from None
    check_contents(declared)
    return declared


def _fields(found: Mapping[str, Any]) -> dict[str, Any]:
    model = str(found.get("model", "")).upper().replace("-", "_")
    return {
        "name": str(found.get("name", "")),
        "version": whole_number(str(found.get("version", 1))),
        "from_us": _time_us(found.get("from")),
        "until_us": _time_us(found.get("until")),
        "model": PriceModel.Value(f"PRICE_MODEL_{model}"),
        "points": [
            RatePoint(solo_share=str(share), factor=str(factor))
            for share, factor in found.get("points", ())
        ],
        "rates": [
            TariffRate(**{name: str(value) for name, value in rate.items()})
            for rate in found.get("rates", ())
        ],
        "hour_factors": [str(factor) for factor in found.get("hour_factors", ())],
        **{name: str(found.get(name, "")) for name in (*_DECIMALS, "currency")},
        **{
            name: Payer.Value(f"PAYER_{str(found[name]).upper()}")
            for name in _PAYERS
            if name in found
        },
    }


def _time_us(value: object) -> int:
    return time_us(str(value)) if value is not None else 0


def declaration(declared: TariffDeclared, source: str, now_us: int) -> Envelope:
    """Return the event that declares a version."""
    subject = f"{declared.name}/{declared.version}/{now_us}"
    return fact(source, declared, subject, now_us)


def row(declared: TariffDeclared) -> Row:
    """Return a version of a tariff by columns; "until" is empty where no end is declared."""
    return {
        "tariff": declared.name,
        "version": declared.version,
        "from": format_utc(declared.from_us),
        "until": format_utc(declared.until_us) if declared.until_us else None,
        "model": _model(declared),
        "rates": ", ".join(f"{rate.resource} {rate.su}" for rate in declared.rates),
        "declared": format_utc(declared.declared_at_us),
    }


def _model(declared: TariffDeclared) -> str:
    return PriceModel.Name(declared.model).removeprefix("PRICE_MODEL_").lower().replace("_", "-")


def _held(declared: TariffDeclared) -> str:
    until = f" until {format_utc(declared.until_us)}" if declared.until_us else ""
    return f"{_model(declared)}, for jobs that start from {format_utc(declared.from_us)}{until}"


def _unit(rate: TariffRate) -> str:
    return "a kWh" if rate.resource == "energy" else f"a {rate.resource} and hour"
