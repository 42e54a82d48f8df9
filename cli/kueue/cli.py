"""`coplace kueue`: what an operator of a Kueue does beside the process."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from cli.quiet import only_warnings
from services.kueue.adapters.following import connected
from services.kueue.adapters.giving_back import WorkloadsReleased, give_back
from services.kueue.settings import KueueSettings, clusters_of

app = typer.Typer(no_args_is_help=True, help="Give a Kueue back what Coplace decides on.")


@app.callback()
def kueue() -> None:
    """Give a Kueue back what Coplace decides on."""


@app.command()
def release(
    everything: Annotated[
        bool, typer.Option("--all", help="All Workloads that wait: there is no other choice.")
    ],
    site: Annotated[str, typer.Option(envvar="COPLACE_KUEUE_SITE", help="As the process has it.")],
    clusters: Annotated[
        Path,
        typer.Option(
            envvar="COPLACE_KUEUE_CLUSTERS_FILE",
            help="As the process has it, with kubeconfigs that may change ClusterQueues.",
        ),
    ] = Path("/etc/coplace/clusters/clusters.yaml"),
    name: Annotated[
        str, typer.Option(envvar="COPLACE_KUEUE_NAME", help="As the process has it.")
    ] = "kueue",
) -> None:
    """Give all Workloads that wait back to Kueue, which starts them by its own rules.

    The check of Coplace is taken out of all ClusterQueues, so that none asks for it any more. On a
    manager of MultiKueue set multiKueue.dispatcherName back first. What runs is counted on while
    the process runs.
    """
    if not everything:
        raise typer.BadParameter(
            "must be given: all Workloads go back, or none", param_hint="--all"
        )
    own = KueueSettings(site=site, clusters_file=clusters, name=name)
    with only_warnings():
        done = asyncio.run(_given_back(own))
    typer.echo(f"{done.workloads} Workloads are Kueue's")
    for queue in done.queues:
        typer.echo(f"ClusterQueue {queue} does not ask Coplace any more")


async def _given_back(own: KueueSettings) -> WorkloadsReleased:
    there = clusters_of(own.clusters_file)
    async with connected(there) as apis:
        return await give_back(apis, there, own.terms(there.clusters))
