"""`coplace slurm`: a Slurm whose jobs Coplace starts, and its accounts."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Annotated, Final

import grpc
import typer
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.placement_pb2 import PlacementDecided

from cli.asking import Ingest, Placement
from cli.notes import note
from cli.slurm.catch_up import catch_up, reconcile
from cli.slurm.heartbeat import SlurmHeartbeat
from cli.slurm.jobs import NodeHardware, declared_cluster, uncounted_resources, undeclared
from cli.slurm.nodes import DrainPublisher
from cli.slurm.obey import ANSWERED, Obedience
from cli.slurm.orders import Order
from cli.slurm.runs import RunsSeen
from cli.slurm.slurm import Slurm, SlurmBusyError, SlurmError, SlurmRefusedError
from cli.slurm.tell import SlurmPublisher
from coplace_client.calls import UnansweredError
from coplace_client.errors import UnusableError
from coplace_client.numbers import finite_number
from shared.clients.decisions import DecisionFollower, ResourceManager
from shared.domain.printable import printable
from shared.process.settings import settings
from shared.slurm.facts import Site
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.refusals import require_kafka_believes

app = typer.Typer(no_args_is_help=True, help="Let Coplace start the jobs of a Slurm.")
app.command("catch-up")(catch_up)
app.command()(reconcile)
_RETRY_S: Final = 5.0
_AT_ONCE: Final = 64
# How often what may be the machine's fault is tried.
_TRIES_OF_DEFECTS: Final = 3
# How often Slurm is asked that has the job in hand: two minutes.
_TRIES_OF_BUSY: Final = 24
_REFUSALS: Final = frozenset({grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED})
_MOST_SHOWN: Final = 1_000

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
            help="What a node draws at most: counts under caps where nothing says what a job draws."
        ),
    ] = 0.0,
    processors_tdp_w: Annotated[
        float,
        typer.Option(
            help="Thermal design power of a node's processors together, which what it draws at "
            "most follows from without --nameplate-power-w; 0: unknown."
        ),
    ] = 0.0,
    account: Account = "none",
    period_s: Annotated[float, typer.Option(min=0.1, help="How often Slurm is looked at.")] = 5.0,
    drains_every_s: Annotated[
        float,
        typer.Option(min=1, help="How often drained nodes are compared with what Coplace has."),
    ] = 60.0,
    declares_every_s: Annotated[
        float,
        typer.Option(
            min=1, help="How often nodes and partitions are compared with the declaration."
        ),
    ] = 60.0,
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
        processors_tdp_w=processors_tdp_w,
    )
    binding, shown = architecture or cluster, slurm.nodes()
    says = Site(site, account, node_model, cluster)
    uncounted = uncounted_resources(shown)
    runs = RunsSeen.beside(placement, says, cluster)
    teller = SlurmPublisher(ingest, says, binding, uncounted, runs)
    nodes = DrainPublisher(placement, ingest, site, cluster, drains_every_s)

    def declared() -> ClusterDeclared:
        on = cluster, site, binding, hardware
        return declared_cluster(slurm.nodes(), *on, slurm.partitions())

    found = declared()
    teller.declare(found)
    heartbeat = SlurmHeartbeat(ingest, site, cluster)
    typer.echo(f"declared {cluster}: {found.nodes} nodes of {found.cores_per_node} cores")
    if uncounted:
        note([f"not declared of nodes, nor asked of them: {', '.join(sorted(uncounted))}"])
    note(f"not declared: {each}" for each in undeclared(shown, slurm.partitions(), found))
    is_known, due_s = False, time.monotonic() + declares_every_s
    while True:
        if time.monotonic() >= due_s:
            due_s = time.monotonic() + declares_every_s
            _is_done(lambda: teller.declare_changed(declared()))
        if is_known := is_known or _is_done(nodes.knows_cluster):
            if _is_done(lambda: teller.tell(slurm.jobs())):
                _is_done(heartbeat.beat)
            _is_done(lambda: nodes.tell(slurm.nodes()))
        time.sleep(period_s)


def _is_done(act: Callable[[], object]) -> bool:
    """Whether it was done and came out true or as nothing; what fails is tried at the next look,
    and neither ends the program nor keeps the other from being published."""
    try:
        return act() is not False
    except Exception as error:  # noqa: BLE001 no answer of Slurm's is a reason to end
        note([f"{_shown(error)}; tried again"])
        return False


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
    obedience = Obedience(slurm, ingest, Site(site, account, "", cluster))
    asyncio.run(_follow(ResourceManager(cluster, site, frozenset({cluster})), obedience))


async def _follow(manager: ResourceManager, obedience: Obedience) -> None:
    """Jobs beside one another and of each its decisions in order, so that one that has to be tried
    again holds up no other; Slurm is asked for one at a time."""
    turn = asyncio.Lock()

    async def obey_all(decisions: Sequence[PlacementDecided]) -> None:
        by_job: dict[str, list[PlacementDecided]] = {}
        for decision in decisions:
            by_job.setdefault(decision.job_id, []).append(decision)
        await asyncio.gather(*(_in_order(obedience, of_job, turn) for of_job in by_job.values()))

    follower = DecisionFollower(Deployment.from_settings(settings()), manager, _AT_ONCE)
    await follower.run(obey_all)


async def _in_order(
    obedience: Obedience, decisions: Sequence[PlacementDecided], turn: asyncio.Lock
) -> None:
    for decision in decisions:
        orders = await _until_done(obedience, decision, turn)
        typer.echo(f"{decision.job_id}: {', '.join(map(str, orders)) or 'nothing to do'}")


async def _until_done(
    obedience: Obedience, decision: PlacementDecided, turn: asyncio.Lock | None = None
) -> list[Order]:
    """Again and again while Slurm or ingest do not answer, and some times where Slurm has the job
    in hand; what fails again otherwise is set aside. Beside the loop, so that the connection to
    Kafka lives meanwhile."""
    failures = Counter[str]()
    while True:
        try:
            async with turn or nullcontext():
                return await asyncio.to_thread(obedience.obey, decision)
        except Exception as error:  # noqa: BLE001 one decision is no reason to end or to stop
            failures[type(error).__name__] += 1
            again = _most_tries(error)
            if again and failures[type(error).__name__] >= again:
                return await _set_aside(obedience, decision, error, turn)
            note([f"{decision.job_id}: {_shown(error)}; tried again"])
        await asyncio.sleep(_RETRY_S)


async def _set_aside(
    obedience: Obedience,
    decision: PlacementDecided,
    error: Exception,
    turn: asyncio.Lock | None,
) -> list[Order]:
    """A start or an action is refused with the reason; where that fails too, placement withdraws a
    start when nobody confirmed it in time."""
    note([f"{decision.job_id}: {_shown(error)}; set aside"])
    if decision.verdict not in ANSWERED or isinstance(error, UnansweredError):
        return []
    try:
        async with turn or nullcontext():
            return await asyncio.to_thread(obedience.refuse, decision, _shown(error))
    except Exception as again:  # noqa: BLE001 as above
        note([f"{decision.job_id}: {_shown(again)}; not answered"])
        return []


def _most_tries(error: Exception) -> int:
    """How often a decision that fails so is tried; 0: until it is done, since Slurm or ingest is
    not there, and no decision is at fault."""
    match error:
        case SlurmRefusedError():
            return 1
        case SlurmBusyError():
            return _TRIES_OF_BUSY
        case UnansweredError(code=code):
            return 1 if code in _REFUSALS else 0
        case SlurmError():
            return 0
    return _TRIES_OF_DEFECTS


def _shown(error: Exception) -> str:
    """A failure of what is asked in its words, a defect of ours with its kind."""
    text = str(error) if isinstance(error, UnusableError) else repr(error)
    return printable(text, _MOST_SHOWN)


def _design_powers(text: str) -> dict[str, float]:
    pairs = [part.partition("=")[::2] for part in text.split(",") if part]
    try:
        return {name: finite_number(watts) for name, watts in pairs}
    except ValueError:
        wanted = "must be watts by name such as gpu=400"
        raise typer.BadParameter(wanted, param_hint="--tdp-w") from None


def _numbers(text: str) -> list[float]:
    try:
        return [finite_number(part.strip()) for part in text.split(",")]
    except ValueError:
        wanted = "must be numbers such as 1.2,2.0"
        raise typer.BadParameter(wanted, param_hint="--pstates-ghz") from None
