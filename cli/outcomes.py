"""What came of a command: what is declared or ordered is done when its owner says so."""

import time
from collections.abc import Callable, Sequence
from shlex import quote
from typing import Annotated, Final

import grpc
import typer
from coplace.v1.control_pb2 import (
    COMMAND_RESULT_EARLY,
    COMMAND_RESULT_REFUSED,
    CommandOutcome,
)
from coplace.v1.ingest_service_pb2 import Envelope, ShowOutcomeRequest
from coplace.v1.ingest_service_pb2_grpc import IngestServiceStub

from cli.asking import Ingest, asking, publish
from cli.failures import is_reported, line_of
from cli.times import format_utc
from cli.waiting import Wait
from coplace_client.calls import UnansweredError
from coplace_client.errors import UnusableError

# So long one question waits; ingest takes no longer ones.
_ONE_WAIT_S: Final = 60.0
_ANSWERED_WITHIN_S: Final = 30.0


class CommandRefusedError(UnusableError):
    """The owner of a command refused it."""


class NotYetInForceError(UnusableError):
    """A command was accepted, and its owner has not said so far what came of it."""

    exit_code: Final = 3


def order(ingest: str, event: Envelope, wait_s: float) -> CommandOutcome:
    """Publish a command, and return its outcome once it is in force.

    Raises UnansweredError where ingest refuses it, CommandRefusedError where its owner does, and
    NotYetInForceError where that has not said so in time.
    """
    [done] = order_all(ingest, [event], wait_s)
    return done


def order_all(ingest: str, events: Sequence[Envelope], wait_s: float) -> list[CommandOutcome]:
    """Publish commands, and return their outcomes once all are in force. Raises as `order` does,
    for the first that is not."""
    for event in events:
        publish(ingest, event)
    until_s = time.monotonic() + wait_s
    return [_done(ingest, event.id, until_s) for event in events]


def _done(ingest: str, command_id: str, until_s: float) -> CommandOutcome:
    try:
        found = ask(ingest, command_id, max(until_s - time.monotonic(), 0.0))
    except UnansweredError as error:
        raise NotYetInForceError(f"{_accepted(command_id)} ({error})") from error
    return require_in_force(found, command_id)


def in_words(outcome: CommandOutcome) -> str:
    """Return since when a command is in force."""
    return f"in force since round {outcome.round} of {outcome.owner}"


def tell(outcome: CommandOutcome) -> None:
    """Print since when a command is in force."""
    typer.echo(in_words(outcome))


def show_state(owner: str, ask_owner: Callable[[], str]) -> None:
    """Print what the owner of a command has now that it is in force, which holds also where the
    owner does not say it."""
    try:
        words = ask_owner()
    except Exception as error:
        if not is_reported(error):
            raise
        words = f"it did not say ({line_of(error)})"
    typer.echo(f"{owner} now has: {words}")


def outcome(
    command_id: Annotated[
        str, typer.Argument(metavar="COMMAND", help="Its id, as the command printed it.")
    ],
    ingest: Ingest = "127.0.0.1:50051",
    wait: Wait = 0.0,
) -> None:
    """Show what came of a command. Exit status 0: in force; 1: refused; 3: neither so far."""
    found = require_in_force(ask(ingest, command_id, wait), command_id)
    kind = found.command_type.rpartition(".")[2]
    typer.echo(
        f"{kind} of {found.command_source}: {in_words(found)}, "
        f"which ended at {format_utc(found.told_at_us)}"
    )


def ask(ingest: str, command_id: str, wait_s: float) -> CommandOutcome | None:
    """Ask ingest what came of a command; None where nothing is known in time. Raises
    UnansweredError."""
    while True:
        within_s = min(wait_s, _ONE_WAIT_S)
        found = _ask_once(ingest, command_id, within_s)
        wait_s -= within_s
        if wait_s <= 0 or (found is not None and found.result != COMMAND_RESULT_EARLY):
            return found


def _ask_once(ingest: str, command_id: str, within_s: float) -> CommandOutcome | None:
    request = ShowOutcomeRequest(event_id=command_id, within_s=within_s)
    try:
        with asking(ingest) as channel:
            stub = IngestServiceStub(channel)
            answer = stub.ShowOutcome(request, timeout=within_s + _ANSWERED_WITHIN_S)
    except UnansweredError as error:
        if error.code is grpc.StatusCode.UNIMPLEMENTED:
            return None  # of an earlier release: nobody knows
        raise
    return answer.outcome if answer.HasField("outcome") else None


def require_in_force(found: CommandOutcome | None, command_id: str) -> CommandOutcome:
    """Return an outcome if it is in force. Raises CommandRefusedError and NotYetInForceError."""
    if found is None:
        raise NotYetInForceError(_accepted(command_id))
    if found.result == COMMAND_RESULT_EARLY:
        raise NotYetInForceError(f"{_accepted(command_id)} ({found.owner}: {found.reason})")
    if found.result == COMMAND_RESULT_REFUSED:
        raise CommandRefusedError(f"{found.owner} refused it: {found.reason}")
    return found


def _accepted(command_id: str) -> str:
    again = f"`coplace outcome {quote(command_id)}`"
    return f"accepted, not yet in force: {again} says later what came of it"
