"""`coplace cap set|show|clear`."""

from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from coplace.v1.control_pb2 import PowerCapStep
from coplace.v1.placement_service_pb2 import PowerStanding
from typer.core import TyperCommand

from cli import completion
from cli.answers import write_answer
from cli.asking import Ingest, Placement
from cli.cap import declare
from cli.cap.schedule import Period, read_schedule, steps
from cli.cap.signal import SignalRule, read_signal
from cli.outcomes import order, tell
from cli.output import Output, OutputName
from cli.speaking import Source
from cli.times import clock_us, format_utc, time_us
from cli.waiting import WAIT_S, Wait
from coplace_client.bounds import POWER_CAP_W
from coplace_client.errors import UnusableError

app = typer.Typer(no_args_is_help=True, help="What clusters, sites and the region may draw.")

Subject = Annotated[
    str,
    typer.Argument(
        metavar="CLUSTER|SITE|region",
        help="What the cap limits.",
        autocompletion=completion.cap_subjects,
    ),
]
Reason = Annotated[str, typer.Option(help="Why: it is recorded, and shown for jobs that wait.")]
COLUMNS: Final = (
    *("cap of", "cap W", "idle W", "committed W", "margin W", "headroom W"),
    *("measured W", "above cap", "meters silent", "ahead", "declared by", "reason"),
)
_PLACEMENT, _INGEST = "127.0.0.1:50053", "127.0.0.1:50051"


class _OfWatts(TyperCommand):
    """A command that takes watts: a number below 0 looks like an unknown option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As the base class. Raises UnusableError for a number below 0 that is no option's."""
        for before, word in pairwise(["", *args]):
            if _is_negative(word) and not before.startswith("-") and not ctx.resilient_parsing:
                raise UnusableError(f"{word} W is not a valid cap: give more than 0")
        return super().parse_args(ctx, args)


@app.command("set", cls=_OfWatts)
def set_cap(
    subject: Subject,
    watts: Annotated[float | None, typer.Argument(help="What may be drawn at most.")] = None,
    begin: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="When it begins; now by default.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="When it ends; never by default.")
    ] = None,
    schedule: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Several periods, from a YAML file."),
    ] = None,
    signal: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="CSV of time and price_per_kwh or gco2_per_kwh that the cap follows by --rule.",
        ),
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option(
            metavar="VALUE=WATTS,...",
            help="What the cap is at values of the --signal; linear between them.",
        ),
    ] = None,
    reason: Reason = "",
    placement: Placement = _PLACEMENT,
    ingest: Ingest = _INGEST,
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Declare a cap, which replaces all that was declared for the same cluster, site or region."""
    now_us = clock_us()
    if [watts, schedule, signal].count(None) != 2:
        raise typer.BadParameter("give one of WATTS, --schedule and --signal")
    if watts is None and (begin or until):
        raise typer.BadParameter(
            "--from and --until need WATTS: a schedule and a signal have their own times"
        )
    if (signal is None) != (rule is None):
        raise typer.BadParameter("--signal and --rule belong together")
    if signal is not None and rule is not None:
        found = read_signal(signal, _rule(rule), now_us)
    elif schedule is not None:
        found = steps(read_schedule(schedule))
    else:
        assert watts is not None
        POWER_CAP_W.require(f"the cap of {subject}", watts)
        found = steps([_period(watts, begin, until, now_us)])
    _declare(subject, found, reason, placement, ingest, source, now_us, wait)


@app.command()
def clear(
    subject: Subject,
    reason: Reason = "",
    placement: Placement = _PLACEMENT,
    ingest: Ingest = _INGEST,
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Take away the cap of a cluster, of a site or of the region, now and ahead."""
    now_us = clock_us()
    none = [PowerCapStep(from_us=now_us)]
    _declare(subject, none, reason, placement, ingest, source, now_us, wait)


@app.command()
def show(
    placement: Placement = _PLACEMENT,
    output: OutputName = Output.TABLE,
) -> None:
    """Show what may be drawn now and later, what is drawn, and who declared it."""
    answer = declare.ask(placement)
    if output is Output.TABLE:
        typer.echo(
            f"as of {format_utc(answer.as_of_us)}" if answer.as_of_us else "no round has ended yet"
        )
    rows = [dict(zip(COLUMNS, _row(one), strict=True)) for one in answer.standings]
    write_answer(answer, rows, COLUMNS, output)


def _row(one: PowerStanding) -> tuple[str, ...]:
    is_capped = one.HasField("cap_w")
    return (
        declare.subject(one),
        f"{one.cap_w:,g}" if is_capped else "none",
        f"{one.idle_w:,g}",
        f"{one.committed_w:,g}",
        f"{one.margin_w:,g}" if is_capped else "",
        f"{one.headroom_w:,g}" if is_capped else "",
        f"{one.measured_w:,g}" if one.HasField("measured_w") else "",
        _above(one),
        _silent(one),
        "; ".join(map(declare.describe_step, one.ahead)),
        f"{one.declared_by} at {format_utc(one.declared_at_us)}" if one.declared_by else "",
        one.reason,
    )


def _silent(one: PowerStanding) -> str:
    """How many nodes, and what their jobs count for; whether nobody declared that as such."""
    derived = ", derived from design powers" if one.nameplate_derived else ""
    return f"{one.silent_nodes:,}, {one.nameplate_w:,g} W{derived}" if one.silent_nodes else ""


def _above(one: PowerStanding) -> str:
    """Since when meters show more than the cap, and for how long they ever did."""
    now = f"{one.measured_w - one.cap_w:,.0f} W since {format_utc(one.above_since_us)}; "
    ever = f"{one.above_s / 60:,.1f} min, {one.above_j / 3.6e6:,.3g} kWh in all"
    return (now if one.above_since_us else "") + (ever if one.above_s else "")


def _is_negative(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return word.startswith("-")


def _rule(text: str) -> SignalRule:
    try:
        return SignalRule.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _period(watts: float, begin: str | None, until: str | None, now_us: int) -> Period:
    try:
        begin_us = time_us(begin) if begin else now_us
        until_us = time_us(until) if until else None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return Period.model_construct(watts=watts, from_us=begin_us, until_us=until_us)


def _declare(
    name: str,
    found: list[PowerCapStep],
    reason: str,
    placement: str,
    ingest: str,
    source: str,
    now_us: int,
    wait_s: float,
) -> None:
    standing = declare.find_state(declare.ask(placement), name)
    event = declare.declaration(standing, found, reason, source, now_us)
    done = order(ingest, event, wait_s)
    typer.echo(f"declared for {declare.subject(standing)}:")
    for step in found:
        typer.echo(f"  {declare.describe_step(step)}")
    tell(done)
    now = declare.find_state(declare.ask(placement), declare.subject(standing))
    typer.echo(f"placement now has: {declare.describe_state(now)}")
