"""`coplace clock`: what to do after a clock was wrong."""

import asyncio

import typer

from shared.catalogue.codec import format_time
from shared.process.settings import settings
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.restoring.clock_repair import repair_clock

app = typer.Typer(no_args_is_help=True, help="Repair after a wrong clock.")


@app.callback()
def clock() -> None:
    """Group the commands, so that `mend` stays one of its own."""


@app.command()
def mend() -> None:
    """Repair states whose last round ended in the future. Running workers are shut out."""
    from cli.stages import every_stage

    deployment = Deployment.from_settings(settings())
    if deployment.settings.is_emulated:
        raise typer.BadParameter("emulated runs have no clock (COPLACE_ROUNDS is barriers)")
    now_us = deployment.clock.now_us()
    mended = asyncio.run(repair_clock(deployment, every_stage(deployment.settings), now_us))
    for unit in mended:
        typer.echo(f"{unit}: its last round now ended at {format_time(now_us)}")
    if not mended:
        typer.echo(f"nothing lies ahead of the clock, which says {format_time(now_us)}")
