"""`coplace slurm tell|obey`: a Slurm whose jobs Coplace starts."""

import time
from typing import Annotated, Final

import typer
from coplace.v1.placement_pb2 import PlacementDecided

from cli.asking import Ingest, Placement, UnansweredError
from cli.slurm.jobs import NodeHardware, declared
from cli.slurm.nodes import NodeTeller
from cli.slurm.obey import DecisionReader, Obedience
from cli.slurm.orders import Order
from cli.slurm.slurm import Slurm, SlurmError
from cli.slurm.tell import Teller
from cli.telling import note
from services.ingest.jobcomp.model import Site
from shared.messaging.on_kafka.deployment import Deployment
from shared.runtime.settings import settings

app = typer.Typer(no_args_is_help=True, help="Let Coplace start the jobs of a Slurm.")
_RETRY_S: Final = 5.0

SiteName = Annotated[str, typer.Option(help="As it stands in the ids of jobs.")]
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
    """Declare the cluster, and tell of its jobs and of nodes that are taken out."""
    slurm = Slurm()
    cluster = slurm.cluster()
    hardware = NodeHardware(
        *(node_model, _numbers(pstates_ghz), idle_power_w, peak_bandwidth_gbps),
        tdp_w=_design_powers(tdp_w),
        nameplate_power_w=nameplate_power_w,
    )
    binding = architecture or cluster
    teller = Teller(ingest, Site(site, account, node_model), binding)
    nodes = NodeTeller(placement, ingest, site, cluster)
    found = declared(slurm.nodes(), cluster, site, binding, hardware)
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
    """Start held jobs where and at the clock that is decided, and answer what is asked back."""
    slurm = Slurm()
    cluster = slurm.cluster()
    obedience = Obedience(slurm, ingest, Site(site, account, ""), cluster)
    for decision in DecisionReader(Deployment.of(settings()), cluster):
        if obedience.concerns(decision):
            orders = _until_done(obedience, decision)
            typer.echo(f"{decision.job_id}: {', '.join(map(str, orders)) or 'nothing to do'}")


def _until_done(obedience: Obedience, decision: PlacementDecided) -> list[Order]:
    """Again and again while Slurm or ingest do not answer: decisions are obeyed in their order."""
    while True:
        try:
            return obedience.obey(decision)
        except (SlurmError, UnansweredError) as error:
            note([f"{decision.job_id}: {error}; tried again"])
            time.sleep(_RETRY_S)


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
