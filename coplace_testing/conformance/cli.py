"""`coplace conformance`: checks a resource manager of somebody else."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Self

import typer

from cli.output import Output, OutputName, write
from coplace_testing.conformance.checks import AdapterCheck, AnswerTimes
from coplace_testing.conformance.region import PlayedRegion
from coplace_testing.conformance.rules import AdapterRule, Finding
from deploy.local.ports import free_ports

_COLUMNS = ("rule", "the adapter", "result", "seen", "what to do")


class Adapter:
    """The adapter as a shell command, killed with all that it started. A context."""

    def __init__(self, command: str, environment: dict[str, str]) -> None:
        self._command, self._environment = command, {**os.environ, **environment}

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(self, *_error: object) -> None:
        self._kill()

    async def restart(self) -> None:
        """End it hard, and start it again."""
        self._kill()
        self._begin()

    def _begin(self) -> None:
        self._process = subprocess.Popen(
            self._command, shell=True, env=self._environment, start_new_session=True, stdout=2
        )

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def conformance(
    command: Annotated[
        str,
        typer.Option(help="Starts the adapter; it is killed and started again. Without: start it."),
    ] = "",
    output: OutputName = Output.TABLE,
    answer: Annotated[
        float, typer.Option(min=0.1, max=3_600, help="How long an answer may take, s.")
    ] = AnswerTimes().answer_s,
) -> None:
    """Check a resource manager against the rules; it connects here in place of Coplace."""
    ingest, watch = free_ports(2)
    names = ("COPLACE_INGEST_ADDRESS", "COPLACE_WATCH_ADDRESS")
    environment = {
        name: f"127.0.0.1:{port}" for name, port in zip(names, (ingest, watch), strict=True)
    }
    for name, address in environment.items():
        typer.echo(f"export {name}={address}", err=True)
    found = asyncio.run(_check(command, environment, (ingest, watch), AnswerTimes(answer_s=answer)))
    order = [*AdapterRule]
    found = sorted(found, key=lambda each: order.index(each.rule))
    write([each.row() for each in found], _COLUMNS, output)
    if not all(each.is_kept for each in found):
        raise typer.Exit(1)


async def _check(
    command: str, environment: dict[str, str], ports: tuple[int, int], patience: AnswerTimes
) -> Sequence[Finding]:
    ingest, watch = ports
    async with PlayedRegion(ingest, watch) as region:
        if not command:
            return [each async for each in AdapterCheck(region, patience).findings()]
        with Adapter(command, environment) as adapter:
            check = AdapterCheck(region, patience, adapter.restart)
            return [each async for each in check.findings()]
