"""`coplace slurm tell|obey`: a Slurm whose jobs Coplace starts."""

import asyncio
import time
from collections.abc import Sequence
from typing import Annotated, Final

import typer
from coplace.v1.placement_pb2 import PlacementDecided

from cli.asking import Ingest, Placement
from cli.notes import note
from cli.slurm.jobs import NodeHardware, declared_cluster
from cli.slurm.nodes import DrainPublisher
from cli.slurm.obey import Obedience
from cli.slurm.orders import Order
from cli.slurm.slurm import Slurm, SlurmError
from cli.slurm.tell import SlurmPublisher
from coplace_client.calls import UnansweredError
from shared.clients.decisions import DecisionFollower, ResourceManager
from shared.process.settings import settings
from shared.slurm.facts import Site
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.refusals import require_kafka_believes

app = typer.Typer(no_args_is_help=True, help="Let Coplace start the jobs of a Slurm.")
_RETRY_S: Final = 5.0

SiteName = Annotated[str, typer.Option(help="As in the ids of jobs.")]
Account = Annotated[str, typer.Option(help="Of jobs without one.")]


@app.command()
def tell(
    site: SiteName,
    node_model: Annotated[str, typer.Option(help="Of all nodes of the cluster.")],
    pstates_ghz: Annotated[str, typer.Option(help="Ascending, such as 1.2,2.0,3.1.")],
    idle_power_w: Annotated[float, typer.Option(help="Of a node without a job.")],
    peak_bandwidth_gbps: Annotated[float, typer.Option(help="Of a node's memory.")],
    architecture: Annotated[
        str, typer.Option(help="Jobs go to clusters that declare the same; the cluster's name.")
    ] = "",
    tdp_w: Annotated[
        str,
        typer.Option(help="Thermal design power of one accelerator, W: gpu=400,gpu:l4=72."),
    ] = "",
    nameplate_power_w: Annotated[
        float,
        typer.Option(
            help="What a node draws at most: counts where its meter is silent; 0: unknown."
        ),
    ] = 0.0,
    account: Account = "none",
    period_s: Annotated[float, typer.Option(min=0.1, help="How often Slurm is looked at.")] = 5.0,
    placement: Placement = "127.0.0.1:50053",
    ingest: Ingest = "127.0.0.1:50051",
) -> None:
    """Declare the cluster, and publish its jobs and the nodes that are taken out."""
    slurm = Slurm()
    cluster = slurm.cluster()
    hardware = NodeHardware(
        *(node_model, _numbers(pstates_ghz), idle_power_w, peak_bandwidth_gbps),
        tdp_w=_design_powers(tdp_w),
        nameplate_power_w=nameplate_power_w,
    )
    binding = architecture or cluster
    teller = SlurmPublisher(ingest, Site(site, account, node_model), binding)
    nodes = DrainPublisher(placement, ingest, site, cluster)
    found = declared_cluster(slurm.nodes(), cluster, site, binding, hardware)
    teller.declare(found)
    typer.echo(f"declared {cluster}: {found.nodes} nodes of {found.cores_per_node} cores")
    is_known = False
    while True:
        try:
            is_known = is_known or nodes.knows_cluster()
            if is_known:
                teller.tell(slurm.jobs())
                nodes.tell(slurm.nodes())
        except (SlurmError, UnansweredError) as error:
            note([f"{error}; tried again"])
        time.sleep(period_s)


@app.command()
def obey(
    site: SiteName,
    account: Account = "none",
    ingest: Ingest = "127.0.0.1:50051",
) -> None:
    """Start held jobs where and at the clock that is decided, and answer grants that are
    withdrawn."""
    slurm = Slurm()
    cluster = slurm.cluster()
    require_kafka_believes(settings())
    obedience = Obedience(slurm, ingest, Site(site, account, ""))
    asyncio.run(_follow(ResourceManager(cluster, site, frozenset({cluster})), obedience))


async def _follow(manager: ResourceManager, obedience: Obedience) -> None:
    """One decision at a time, so that one that was killed asks Slurm once more for one job."""

    async def obey_all(decisions: Sequence[PlacementDecided]) -> None:
        for decision in decisions:
            orders = await _until_done(obedience, decision)
            typer.echo(f"{decision.job_id}: {', '.join(map(str, orders)) or 'nothing to do'}")

    await DecisionFollower(Deployment.from_settings(settings()), manager, at_once=1).run(obey_all)


async def _until_done(obedience: Obedience, decision: PlacementDecided) -> list[Order]:
    """Again and again while Slurm or ingest do not answer: decisions are obeyed in their order.
    Beside the loop, so that the connection to Kafka lives meanwhile."""
    while True:
        try:
            return await asyncio.to_thread(obedience.obey, decision)
        except (SlurmError, UnansweredError) as error:
            note([f"{decision.job_id}: {error}; tried again"])
            await asyncio.sleep(_RETRY_S)


def _design_powers(text: str) -> dict[str, float]:
    pairs = [part.partition("=")[::2] for part in text.split(",") if part]
    try:
        return {name: float(watts) for name, watts in pairs}
    except ValueError:
        wanted = "must be watts by name such as gpu=400"
        raise typer.BadParameter(wanted, param_hint="--tdp-w") from None


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        wanted = "must be numbers such as 1.2,2.0"
        raise typer.BadParameter(wanted, param_hint="--pstates-ghz") from None
