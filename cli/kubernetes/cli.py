"""`coplace kubernetes`: what an operator of Kubernetes clusters does beside the process."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from cli.quiet import only_warnings
from services.kubernetes.adapters.connecting import connected
from services.kubernetes.adapters.releasing import JobsReleased
from services.kubernetes.adapters.releasing import release as release_jobs
from services.kubernetes.settings import KubernetesSettings, clusters_of

app = typer.Typer(no_args_is_help=True, help="Give Kubernetes back the Jobs of Coplace's queue.")


@app.callback()
def kubernetes() -> None:
    """Give Kubernetes back the Jobs of Coplace's queue."""


@app.command()
def release(
    site: Annotated[
        str, typer.Option(envvar="COPLACE_KUBERNETES_SITE", help="As the process has it.")
    ],
    job: Annotated[str, typer.Argument(help="Its id, as `coplace jobs` shows it.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="All Jobs of the queue.")] = False,
    clusters: Annotated[
        Path,
        typer.Option(
            envvar="COPLACE_KUBERNETES_CLUSTERS_FILE",
            help="As the process has it, with kubeconfigs that may do what the process may.",
        ),
    ] = Path("/etc/coplace/clusters/clusters.yaml"),
    queue: Annotated[
        str, typer.Option(envvar="COPLACE_KUBERNETES_QUEUE", help="As the process has it.")
    ] = "coplace",
    wait_s: Annotated[
        float,
        typer.Option(min=0, help="For how long to wait until the process has reported it."),
    ] = 30.0,
) -> None:
    """Give a Job, or all Jobs of the queue, back to Kubernetes, which starts them by its own rules.

    To Coplace they are cancelled: Kubernetes starts each once, and it is not charged. What runs
    stays. A Job that Coplace manages (spec.managedBy) gets no pods of Kubernetes: it fails.
    """
    if everything == bool(job):
        raise typer.BadParameter("name a Job, or give --all", param_hint="JOB")
    own = KubernetesSettings(site=site, clusters_file=clusters, queue=queue)
    with only_warnings():
        done = asyncio.run(_released(own, job, wait_s))
    report(done, job)


def report(done: JobsReleased, job: str = "") -> None:
    """Say what became of the Jobs that were to be released; fail where some still wait."""
    typer.echo(f"{done.released} Jobs are Kubernetes'")
    if done.running:
        typer.echo(f"{len(done.running)} run on")
    if done.unreported:
        typer.echo(
            f"{len(done.unreported)} wait in Coplace until the process runs, or coplace cancel"
        )
    for each in done.left:
        typer.echo(f"{each} is not given back: it is being started, or see the log; try again")
    nothing = job and not (done.released or done.running or done.left)
    if nothing:
        typer.echo(f"no Job of the queue has the id {job}")
    if done.left or nothing:
        raise typer.Exit(1)


async def _released(own: KubernetesSettings, job: str, wait_s: float) -> JobsReleased:
    there = clusters_of(own.clusters_file)
    async with connected(there) as apis:
        return await release_jobs(apis, own.terms(there), job, wait_s)
