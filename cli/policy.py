"""`coplace policy show|set|reset|allow|schema|reference`: by what placement decides, since whose
word, and what each setting is."""

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Annotated, Final

import typer
from coplace.v1.control_pb2 import PairsAllowed
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.placement_service_pb2 import (
    PairApart,
    PolicySetting,
    ShowPolicyRequest,
    ShowPolicyResponse,
)
from coplace.v1.placement_service_pb2_grpc import PlacementServiceStub
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from cli.answers import write_answer
from cli.asking import Ingest, Placement, asking
from cli.known import require_known
from cli.outcomes import order, tell
from cli.output import Output, OutputName, Row
from cli.speaking import Reason, Source
from cli.times import clock_us, format_utc
from cli.waiting import WAIT_S, Wait
from coplace_client.calls import UnansweredError
from coplace_client.errors import RejectedError
from coplace_client.facts import fact
from shared.catalogue import policy_documents
from shared.catalogue.contents.check import check_contents
from shared.catalogue.policy_declarations import declaration_of
from shared.catalogue.policy_settings import DECLARABLE

app = typer.Typer(no_args_is_help=True, help="What placement decides by: policy, weights, limits.")
_WITHIN_S: Final = 30.0
# Tables are read in terminals of this width.
_WIDTH: Final = 80
_COLUMNS: Final = ("setting", "is", "started with", "declared by", "declared at", "reason")
# As an empty value is shown.
_NOTHING: Final = "nothing"


@app.command("set")
def set_policy(
    settings: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=VALUE...",
            help=f"Names are {', '.join(DECLARABLE)}: `coplace policy reference` says what "
            "each is.",
            autocompletion=lambda: [(f"{name}=", each.about) for name, each in DECLARABLE.items()],
        ),
    ],
    reason: Reason = "",
    placement: Placement = "127.0.0.1:50053",
    ingest: Ingest = "127.0.0.1:50051",
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Declare settings, which hold from the next round on; the others stay as they are."""
    now_us = clock_us()
    asked = parse_settings(settings)
    event = declaration(asked, (), reason, source, now_us)
    before = ask(placement).settings
    _require_known(asked, before)
    done = order(ingest, event, wait)
    told = {one.name: one for one in before}
    _show_changes([name for name in told if name in asked], told, placement)
    tell(done)


@app.command()
def reset(
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="All that were declared if none is named.",
            autocompletion=lambda: [*DECLARABLE],
        ),
    ] = None,
    reason: Reason = "",
    placement: Placement = "127.0.0.1:50053",
    ingest: Ingest = "127.0.0.1:50051",
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Set settings back to what the process was started with."""
    before = {setting.name: setting for setting in ask(placement).settings}
    names = settings or [name for name, one in before.items() if one.value != one.started_with]
    if not names:
        typer.echo("all settings are as placement was started with")
        return
    now_us = clock_us()
    done = order(ingest, declaration({}, names, reason, source, now_us), wait)
    _show_changes(names, before, placement)
    tell(done)


@app.command()
def allow(
    app_id: Annotated[
        str, typer.Option("--app", help="An application; every one if none is named.")
    ] = "",
    beside: Annotated[str, typer.Option(help="The one beside it; every one if empty.")] = "",
    node_model: Annotated[str, typer.Option(help="On these nodes; on all if empty.")] = "",
    reason: Reason = "",
    placement: Placement = "127.0.0.1:50053",
    ingest: Ingest = "127.0.0.1:50051",
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Let applications share nodes again that were isolated because they exceeded a promised
    slowdown. `coplace policy show` names them."""
    now_us = clock_us()
    with suppress(UnansweredError):  # prediction and placement judge it too
        _require_isolated(ask(placement), app_id, beside, node_model)
    done = order(ingest, allow_event(app_id, beside, node_model, reason, source, now_us), wait)
    typer.echo("these may share nodes again")
    tell(done)


@app.command()
def show(output: OutputName = Output.TABLE, placement: Placement = "127.0.0.1:50053") -> None:
    """Show by what placement decides, what it was started with, and who declared what."""
    answer = ask(placement)
    if output is not Output.TABLE:
        write_answer(answer, [row(setting) for setting in answer.settings], _COLUMNS, output)
        return
    typer.echo(
        f"as of {format_utc(answer.as_of_us)}" if answer.as_of_us else "no round has ended yet"
    )
    Console(width=_WIDTH).print(table(answer.settings))
    for setting in answer.settings:
        if setting.declared_by:
            reason = f": {setting.reason}" if setting.reason else ""
            word = f"{setting.declared_by} at {format_utc(setting.declared_at_us)}{reason}"
            typer.echo(f"{setting.name}: declared by {word}")
    if answer.still_to_weigh:
        typer.echo(f"{answer.still_to_weigh:,} jobs that wait are not evaluated by it yet")
    for line in [*_under_easy(answer), *slowdown_guarantees(answer)]:
        typer.echo(line)


@app.command()
def schema() -> None:
    """Print the JSON Schema of the settings, of which a form can be made."""
    typer.echo(json.dumps(policy_documents.schema(), indent=2))


@app.command()
def reference() -> None:
    """Print what each setting is and may be, in Markdown."""
    typer.echo(policy_documents.reference(), nl=False)


def _show_changes(
    names: Iterable[str], before: Mapping[str, PolicySetting], placement: str
) -> None:
    """Print what settings are as placement has them, and what they were."""
    now = {one.name: one.value for one in ask(placement).settings}
    for name in names:
        was = before[name].value or _NOTHING
        typer.echo(f"{name}: {now.get(name) or _NOTHING}, was {was}")


def ask(placement: str) -> ShowPolicyResponse:
    """Ask by what placement decides. Raises UnansweredError."""
    with asking(placement) as channel:
        return PlacementServiceStub(channel).ShowPolicy(ShowPolicyRequest(), timeout=_WITHIN_S)


def parse_settings(settings: Iterable[str]) -> dict[str, str]:
    """Return the values of NAME=VALUE by their names. Raise RejectedError naming the setting."""
    found: dict[str, str] = {}
    for each in settings:
        name, is_set, value = each.partition("=")
        if name not in DECLARABLE or not is_set:
            problem = f"write NAME=VALUE, where NAME is one of {', '.join(DECLARABLE)}"
            raise RejectedError(each[:80], problem)
        if name in found:
            raise RejectedError(name, "is named twice")
        found[name] = value
    return found


def declaration(
    settings: Mapping[str, str], reset: Collection[str], reason: str, source: str, now_us: int
) -> Envelope:
    """Return the event that declares settings. Raise RejectedError naming what cannot be."""
    declared = declaration_of(settings, reset, reason, now_us)
    check_contents(declared)
    return fact(source, declared, str(now_us), now_us)


def _require_known(names: Iterable[str], settings: Iterable[PolicySetting]) -> None:
    """Raise RejectedError where placement is of a release that does not know a setting."""
    known = {setting.name for setting in settings}
    for name in names:
        if name not in known:
            raise RejectedError(name, "placement does not know this setting: upgrade it first")


def _require_isolated(
    answer: ShowPolicyResponse, app_id: str, beside: str, node_model: str
) -> None:
    """Raise UnknownNameError for what no isolated pair has, where the answer has them all."""
    if len(answer.pairs_apart) < answer.pairs_kept_apart:
        return
    apps = {name for pair in answer.pairs_apart for name in (pair.app_id, pair.co_runner_app_id)}
    for name in filter(None, (app_id, beside)):
        require_known("isolated application", name, apps)
    if node_model:
        known = {pair.node_model for pair in answer.pairs_apart}
        require_known("node model with isolated applications", node_model, known)


def allow_event(
    app_id: str, beside: str, node_model: str, reason: str, source: str, now_us: int
) -> Envelope:
    """Return the event that lets applications share nodes again. Raises RejectedError."""
    order = PairsAllowed(
        node_model=node_model,
        app_id=app_id,
        co_runner_app_id=beside,
        reason=reason,
        allowed_at_us=now_us,
    )
    check_contents(order)
    return fact(source, order, str(now_us), now_us)


def _under_easy(answer: ShowPolicyResponse) -> list[str]:
    """Return the clusters that the discipline does not reach, and why."""
    return [f"{name} is under easy: {why}" for name, why in sorted(answer.under_easy.items())]


def slowdown_guarantees(answer: ShowPolicyResponse) -> list[str]:
    """Return how many promised slowdowns were kept, and the pairs that are isolated since; nothing
    where none was measured."""
    kept, broken = answer.promises_kept, answer.promises_broken
    if not (kept or broken or answer.pairs_kept_apart):
        return []
    told = [f"promised slowdowns: {kept:,} kept, {broken:,} broken, as measured"]
    told += map(_apart, answer.pairs_apart)
    more = answer.pairs_kept_apart - len(answer.pairs_apart)
    return [*told, f"and {more:,} more pairs are isolated"] if more > 0 else told


def _apart(pair: PairApart) -> str:
    by = f"{pair.measured_slowdown_ratio:.3f} times, {pair.promised_slowdown_ratio:g} promised"
    return (
        f"isolated on {pair.node_model}: {pair.app_id} and {pair.co_runner_app_id} since "
        f"{format_utc(pair.since_us)}: {pair.job_id}: {by}"
    )


def row(setting: PolicySetting) -> Row:
    """Return the row of a setting."""
    return {
        "setting": setting.name,
        "is": setting.value,
        "started with": setting.started_with,
        "declared by": setting.declared_by or None,
        "declared at": format_utc(setting.declared_at_us) if setting.declared_at_us else None,
        "reason": setting.reason or None,
    }


def table(settings: Iterable[PolicySetting]) -> Table:
    """Return a table of the values, beside what the process was started with."""
    found = Table("setting", "is", "started with", box=MARKDOWN)
    for setting in settings:
        found.add_row(setting.name, setting.value, setting.started_with)
    return found
