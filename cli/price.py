"""`coplace price explain`: a charge, made again from the shutters that topics hold."""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Annotated, Final

import typer
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.pricing_pb2 import (
    ENERGY_REASON_IMPLAUSIBLE,
    ENERGY_REASON_PREDICTED,
    ChargeMade,
    ChargeReason,
    RepriceAsked,
)
from coplace.v1.tariffs_pb2 import PriceModel, TariffDeclared
from coplace.v1.telemetry_pb2 import ShuttersMeasured

from cli import completion
from cli.accounts import latest
from cli.asking import Ingest
from cli.kafka_topics import CHARGES, JOBS, KafkaTopics
from cli.notes import utc
from cli.outcomes import order_all, tell
from cli.output import Output, OutputName, Row, write
from cli.speaking import Source
from cli.tariff import BILLING, taken, tariffs
from cli.times import clock_us, time_us
from cli.waiting import WAIT_S, Wait
from coplace_client.errors import UnusableError
from coplace_client.facts import fact
from services.pricing.attribution import attribute, discount_su
from services.pricing.explanation import Explanation, explain_charge, shutters_of
from services.pricing.runs import runs_known
from shared.catalogue.event import Event
from shared.domain.tariff import ENERGY
from shared.models.shutters import interference, slowdown_interval
from shared.pricing.charge import charged_cores, surcharges_of
from shared.pricing.terms import newest
from shared.process.settings import settings
from shared.streams.on_kafka.deployment import Deployment

app = typer.Typer(no_args_is_help=True, help="Explain what jobs were charged.")
_SHUTTERS: Final = "telemetry.shutters"
_INTERVALS: Final = (
    "beside",
    "jobs beside",
    "from",
    "until",
    "slowdown",
    "95 %",
    "used",
    "filtered",
)
_PARTS: Final = ("slowed down by", "share", "time lost s", "discount SU", "energy J")
_EACH: Final = ("beside", "from", "before", "during", "after", "is")


@app.callback()
def price() -> None:
    """Explain what jobs were charged."""


@app.command()
def explain(
    job_id: Annotated[
        str,
        typer.Argument(metavar="JOB", help="As it was submitted.", autocompletion=completion.jobs),
    ],
    attempt: Annotated[
        int, typer.Option(min=0, help="Attempt of the job; 0: the last charged.")
    ] = 0,
    shutters: Annotated[bool, typer.Option("--shutters", help="List each of them.")] = False,
    by_whom: Annotated[bool, typer.Option("--by-whom", help="List its co-runners.")] = False,
    output: OutputName = Output.TABLE,
) -> None:
    """Compute a charge again from the stored shutters, and show these and the tariff."""
    topics = KafkaTopics(Deployment.from_settings(settings()))
    events = [each for name in (JOBS, _SHUTTERS, CHARGES) for each in topics.read_key(name, job_id)]
    events += topics.topic(BILLING)
    measured = (each.payload for each in events)
    neighbours = {m.co_runner_job_id for m in measured if isinstance(m, ShuttersMeasured)}
    for neighbour in sorted(neighbours - {job_id}):
        events += topics.read_key(JOBS, neighbour)
    found = explanation(events, job_id, attempt)
    if output is Output.TABLE:
        for line in lines(found):
            typer.echo(line)
    if by_whom:
        write(list(part_rows(found.charge)), _PARTS, output)
    elif shutters:
        write(list(shutter_rows(found)), _EACH, output)
    else:
        write(list(interval_rows(found)), _INTERVALS, output)
    if not found.is_reproduced:
        raise UnusableError(
            f"charged {found.charge.price_su} SU, topics give {found.again.price_su} SU: "
            "shutters came too late for a revision, or are no longer kept"
        )


@app.command()
def reprocess(
    begin: Annotated[
        int,
        typer.Option(
            "--from", parser=time_us, metavar="TIME", help="Runs that ended then or later."
        ),
    ],
    end: Annotated[
        int, typer.Option("--to", parser=time_us, metavar="TIME", help="Runs that ended before.")
    ],
    tariff: Annotated[str, typer.Option(help="NAME (its last version) or NAME/VERSION.")],
    reason: Annotated[str, typer.Option(help="Why: it is recorded.")] = "",
    ingest: Ingest = "127.0.0.1:50051",
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Charge the runs of a time again by another tariff: the next revision of each reverses the
    charge in force, which stays in the topic."""
    topics = KafkaTopics(Deployment.from_settings(settings()))
    told = (event.payload for event in topics.topic(CHARGES))
    by = newest(tariffs(topics.deployment), tariff)
    now_us, asked = clock_us(), list[Envelope]()
    for charge in latest(one for one in told if isinstance(one, ChargeMade)):
        is_meant = begin <= charge.finished.ended_at_us < end
        if is_meant and (charge.tariff, charge.tariff_version) != (by.name, by.version):
            asked.append(reprice(charge, by, reason, source, now_us))
    done = order_all(ingest, asked, wait)
    typer.echo(f"{len(asked)} charges are made again by {by.name}, version {by.version}")
    if done:
        tell(done[-1])


def reprice(
    charge: ChargeMade, by: TariffDeclared, reason: str, source: str, now_us: int
) -> Envelope:
    """Return the event that asks for it."""
    asked = RepriceAsked(
        charge=charge,
        tariff=by.name,
        tariff_version=by.version,
        reason=reason,
        asked_at_us=now_us,
    )
    of = f"{charge.job_id}/{charge.attempt}/{charge.revision}"
    subject = f"{of}/{by.name}/{by.version}/{now_us}"
    return fact(source, asked, subject, now_us)


def explanation(events: Iterable[Event], job_id: str, attempt: int) -> Explanation:
    """Explain the last revision of an attempt. Raises UnusableError where it was not charged, or
    its finish is no longer kept."""
    told = list(events)
    payloads = [event.payload for event in told]
    charges = [p for p in payloads if isinstance(p, ChargeMade) and attempt in (0, p.attempt)]
    if not charges:
        raise UnusableError(f"{job_id[:80]!r} was not charged so far: see `coplace jobs JOB`")
    charge = max(latest(charges), key=lambda each: each.attempt)
    ends = (p for p in payloads if isinstance(p, JobFinished))
    finishes = [p for p in ends if (p.job_id, p.attempt) == (job_id, charge.attempt)]
    if not finishes:
        raise UnusableError(f"the finish of attempt {charge.attempt} is no longer kept")
    measured: dict[str, ShuttersMeasured] = {}
    for event in told:
        if isinstance(event.payload, ShuttersMeasured) and event.payload.attempt == charge.attempt:
            measured.setdefault(event.id, event.payload)
    tariffs = taken(p for p in payloads if isinstance(p, TariffDeclared))
    return explain_charge(charge, finishes[0], measured, tariffs, runs_known(payloads))


def lines(found: Explanation) -> Iterator[str]:
    """Yield the tariff, and the steps to the price."""
    charge = found.charge
    yield (
        f"attempt {charge.attempt}, revision {charge.revision} of {utc(charge.charged_at_us)}: "
        f"{charge.price_su} SU to {charge.account}"
    )
    if charge.reason:
        yield f"reason: {ChargeReason.Name(charge.reason).removeprefix('CHARGE_REASON_')}"
    yield from _by_tariff(charge) if charge.tariff else _by_rate(charge)
    if found.is_reproduced:
        yield "made again from the shutters below: the same to the last digit"
    for name in dict.fromkeys(each.co_runner_job_id for each in found.left_out):
        yield (
            f"left out: what was measured beside {name}, of which the charge has no row: as far as "
            "was known then, they were not on a node together"
        )


def _by_rate(charge: ChargeMade) -> Iterator[str]:
    yield f"tariff: L = {charge.rate_su_per_core_s} SU a core and second"
    cores = charged_cores(charge)
    yield (
        f"in full, L x C x T (POPPA eq. 1): {cores:f} cores x {charge.runtime_s} s = "
        f"{charge.state_of_practice_su} SU"
    )
    yield (
        f"discounted, L x (T_solo / T) x C x T_solo (eq. 4): T_solo = {charge.solo_time_s:.6f} s, "
        f"{charge.price_su} SU"
    )


def _by_tariff(charge: ChargeMade) -> Iterator[str]:
    model = PriceModel.Name(charge.model).removeprefix("PRICE_MODEL_").lower().replace("_", "-")
    yield f"tariff: {charge.tariff}, version {charge.tariff_version}, {model}"
    for line in charge.lines:
        is_energy = line.resource == ENERGY
        unit, rate = ("J", "a kWh") if is_energy else (f"{line.resource} s", "an hour")
        yield f"{line.resource}: {line.quantity} {unit} at {line.su} SU {rate}"
    if charge.energy_reason == ENERGY_REASON_IMPLAUSIBLE:
        told, most_w = charge.finished, charge.most_node_power_w
        yield (
            f"no energy: {told.energy_j:g} J were reported, more than {told.nodes} nodes of at "
            f"most {most_w:g} W draw in {charge.runtime_s} s"
        )
    if charge.energy_reason == ENERGY_REASON_PREDICTED:
        yield (
            f"energy as predicted, {charge.predicted_energy_j:g} J: {charge.finished.energy_j:g} J "
            f"were reported, which {charge.finished.nodes} nodes can't have drawn in "
            f"{charge.runtime_s} s"
        )
    yield f"in full: {charge.state_of_practice_su} SU"
    yield (f"T_solo = {charge.solo_time_s:.6f} s of T = {charge.runtime_s} s: {charge.price_su} SU")
    if charge.surcharge_share:
        yield from _surcharges(charge)


def _surcharges(charge: ChargeMade) -> Iterator[str]:
    """By whom the discount is borne."""
    most = charge.surcharge_most_su
    bound = f", at most {most} SU for an hour beside it" if most else ""
    share = charge.surcharge_share
    yield f"surcharge: {share} of the discount on the jobs that slowed it down{bound}"
    surcharged = list(surcharges_of(charge))
    for each in surcharged:
        yield f"surcharged: {each.su} SU to {each.account}, for {each.co_runner_job_id}"
    left = discount_su(charge) - sum((each.su for each in surcharged), Decimal(0))
    yield f"of the discount the operator bears: {left} SU"


def part_rows(charge: ChargeMade) -> Iterator[Row]:
    """Yield a row for each co-runner that cost run time, and a row of their sum."""
    parts = attribute(charge)
    for part in parts:
        others = f"{part.co_runners} others"
        yield {
            "slowed down by": part.co_runner_job_id or others,
            "share": f"{float(part.share):.2%}",
            "time lost s": f"{float(part.lost_s):.6f}",
            "discount SU": str(part.discount_su),
            "energy J": str(part.energy_j),
        }
    if parts:
        yield {
            "slowed down by": "in all",
            "share": f"{float(sum(part.share for part in parts)):.2%}",
            "time lost s": f"{float(sum(part.lost_s for part in parts)):.6f}",
            "discount SU": str(sum(part.discount_su for part in parts)),
            "energy J": str(sum(part.energy_j for part in parts)),
        }


def interval_rows(found: Explanation) -> Iterator[Row]:
    """Yield a row for each time beside co-runners: slowdown by algorithm 4, and how sure it is."""
    for measured in found.measured.values():
        seen = shutters_of(measured)
        slowdown = interference(seen)
        low, high = slowdown_interval(seen)
        yield {
            "beside": measured.co_runner_job_id,
            "jobs beside": measured.co_runners or 1,
            "from": utc(measured.began_at_us),
            "until": utc(measured.ended_at_us),
            "slowdown": f"{slowdown.slowdown_ratio:.3f}",
            "95 %": f"{low:.3f} to {high:.3f}",
            "used": slowdown.shutters_used,
            "filtered": slowdown.shutters_dropped,
        }


def shutter_rows(found: Explanation) -> Iterator[Row]:
    """Yield a row for each shutter, used or filtered by algorithm 4."""
    for measured in found.measured.values():
        for each in shutters_of(measured):
            yield {
                "beside": measured.co_runner_job_id,
                "from": utc(measured.began_at_us),
                "before": f"{each.ipc_before:.4f}",
                "during": f"{each.ipc_during:.4f}",
                "after": f"{each.ipc_after:.4f}",
                "is": "used" if each.is_usable else "filtered",
            }
