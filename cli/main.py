"""The `coplace` command line."""

import os
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cli import completion
from cli.commands import with_commands_of
from cli.failures import TellingGroup
from cli.output import Output, OutputName, write
from cli.region_policy import RegionPolicy
from cli.speaking import Source

_INSTALLED = ("up", "status", "logs", "env", "down")
_OF_NODES = ("nodes", "drain", "resume", "undeclare")
_OF_JOBS = ("jobs", "queue", "cancel", "hold", "release", "requeue", "suspend", "unsuspend")
# These start, show or stop servers of their own, or need none; the others need a system that is up.
_WITH_THEIR_OWN = (*_INSTALLED, "certificates", "local", "demo", "demo-parity")

app = typer.Typer(
    cls=with_commands_of(
        TellingGroup,
        {
            **{verb: f"cli.installation.cli:{verb}" for verb in _INSTALLED},
            **{verb: f"cli.jobs:{verb}" for verb in _OF_JOBS},
            "clusters": "cli.clusters:clusters",
            **{verb: f"cli.nodes:{verb}" for verb in _OF_NODES},
            "audit": "cli.authority.audit:audit",
            "tail": "cli.topics:tail",
            "doctor": "cli.restore.cli:doctor",
            "preflight": "cli.preflight:preflight",
            "simulate": "lab.simulate.cli:simulate",
            "smoke-test": "cli.smoke_test:smoke_test",
            "local": "deploy.local.cli:app",
            "topics": "cli.topics:app",
            "accounts": "cli.billing:app",
            "authority": "cli.authority.cli:app",
            "cap": "cli.cap.cli:app",
            "certificates": "cli.installation.certificates:app",
            "clock": "cli.clock:app",
            "dlq": "cli.dlq.cli:app",
            "energy": "cli.energy.cli:app",
            "evaluate": "lab.evaluate.cli:app",
            "limits": "cli.limits:app",
            "models": "cli.models:app",
            "policy": "cli.policy:app",
            "quote": "cli.quote:quote",
            "price": "cli.price:app",
            "profile": "cli.profile.cli:app",
            "restore": "cli.restore.cli:app",
            "slurm": "cli.slurm.cli:app",
            "tariff": "cli.tariff:app",
            "tokens": "cli.authority.tokens:app",
        },
    ),
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Place, power and price batch jobs across clusters.",
)

Seed = Annotated[int, typer.Option(min=0, help="Of the workload, the nodes and the noise.")]
Jobs = Annotated[int, typer.Option(min=1, max=10_000_000, help="How many jobs are submitted.")]
PolicyName = Annotated[RegionPolicy, typer.Option(help="How clusters and frequencies are chosen.")]
Out = Annotated[Path, typer.Option(help="Folder of the files that are written.")]
Swf = Annotated[
    Path | None,
    typer.Option(exists=True, dir_okay=False, help="Log in the Standard Workload Format."),
]
Coefficients = Annotated[
    Path | None,
    typer.Option(exists=True, file_okay=False, help="Folder of EAR coefficients, not learned."),
]
Workers = Annotated[int, typer.Option(min=1, max=100, help="Processes of each stateful service.")]
Secure = Annotated[
    bool, typer.Option(help="On Kafka: with TLS, passwords and access control everywhere.")
]
RunDir = Annotated[Path, typer.Option(help="Folder of the servers' data and logs.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("coplace"))
        raise typer.Exit


@app.callback()
def main(
    ctx: typer.Context,
    show_version: Annotated[  # noqa: ARG001 - its callback acts
        bool, typer.Option("--version", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Common options of every command."""
    # What went wrong is told in a line of our own.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    if ctx.invoked_subcommand not in _WITH_THEIR_OWN:
        from cli.installation.installation import reachable

        ctx.with_resource(reachable())


@app.command()
def demo(
    seed: Seed = 1,
    jobs: Jobs = 1000,
    policy: PolicyName = RegionPolicy.PRIORITY_INC_V,
    out: Out = Path("out"),
    swf: Swf = None,
    coefficients: Coefficients = None,
    kafka: Annotated[bool, typer.Option(help="On real Kafka and Redis.")] = False,
    workers: Workers = 1,
    secure: Secure = False,
    compare_sharing: Annotated[
        bool, typer.Option(help="Play it again without neighbours; no server.")
    ] = False,
    run_dir: RunDir = Path("run/demo"),
) -> None:
    """Replay a workload through the whole system and report what it came to."""
    from lab.demo.options import DemoOptions
    from lab.demo.run import run_embedded, run_on_servers, run_sharing

    options = DemoOptions(seed, jobs, policy, out, swf, coefficients, workers, secure=secure)
    if compare_sharing:
        if kafka:
            raise typer.BadParameter("is played without servers", param_hint="--compare-sharing")
        run_sharing(options, Console())
    elif kafka:
        run_on_servers(options, Console(), run_dir)
    else:
        run_embedded(options, Console())


@app.command()
def demo_parity(
    seed: Seed = 1,
    jobs: Jobs = 500,
    policy: PolicyName = RegionPolicy.PRIORITY_INC_V,
    out: Out = Path("out"),
    swf: Swf = None,
    coefficients: Coefficients = None,
    workers: Workers = 2,
    secure: Secure = False,
    run_dir: RunDir = Path("run/parity"),
) -> None:
    """Run the demo embedded and on real servers and compare what was decided and charged."""
    from lab.demo.options import DemoOptions
    from lab.demo.run import run_parity

    options = DemoOptions(seed, jobs, policy, out, swf, coefficients, workers, secure=secure)
    difference = run_parity(options, Console(), run_dir)
    if difference is not None:
        typer.echo(f"the runs differ at {difference}")
        raise typer.Exit(1)
    typer.echo("both runs decided and charged the same")


@app.command()
def why(
    job_id: Annotated[
        str,
        typer.Argument(metavar="JOB", help="As it was submitted.", autocompletion=completion.jobs),
    ],
    address: Annotated[
        str, typer.Option(envvar="COPLACE_PLACEMENT_ADDRESS", help="host:port of placement.")
    ] = "127.0.0.1:50053",
    output: OutputName = Output.TABLE,
    power: Annotated[
        bool, typer.Option("--power", help="What it was expected to draw, and by which past jobs.")
    ] = False,
) -> None:
    """Say where a job stands, why it does not start yet, and when it is expected to."""
    if power:
        _tell_power(job_id)
        return
    from cli import why as question
    from cli.telling import TABLE_WIDTH

    answer = question.ask(address, job_id)
    if output is not Output.TABLE:
        write(*question.for_programs(answer), output)
        return
    for line in question.lines(answer):
        typer.echo(line)
    for table in question.tables(answer):
        Console(width=TABLE_WIDTH).print(table)


def _tell_power(job_id: str) -> None:
    from cli import why_power
    from cli.kafka_topics import KafkaTopics
    from shared.process.settings import settings
    from shared.streams.on_kafka.deployment import Deployment

    topics = KafkaTopics(Deployment.of(settings()))
    for line in why_power.lines(topics.topic(why_power.INPUTS), job_id):
        typer.echo(line)


@app.command()
def statement(
    account: Annotated[str, typer.Argument(help="As its jobs named it.")],
    output: OutputName = Output.TABLE,
) -> None:
    """Print what an account was charged for each job, from the ledger."""
    from cli import accounts as spending
    from shared.process.settings import settings
    from shared.streams.on_kafka.deployment import Deployment

    made = spending.charges(Deployment.of(settings()), account)
    found = spending.statement_rows(made)
    if output is Output.TABLE:
        found.append(spending.total_row(made))
    write(found, ("job", "cluster", "core h", "price SU", "in full SU"), output)


@app.command()
def seize(
    job_id: Annotated[
        str,
        typer.Argument(metavar="JOB", help="As it was submitted.", autocompletion=completion.jobs),
    ],
    reason: Annotated[str, typer.Option(help="Why nothing of it runs there: it is recorded.")],
    placement: Annotated[
        str, typer.Option(envvar="COPLACE_PLACEMENT_ADDRESS", help="host:port of placement.")
    ] = "127.0.0.1:50053",
    ingest: Annotated[
        str, typer.Option(envvar="COPLACE_INGEST_ADDRESS", help="host:port of ingest.")
    ] = "127.0.0.1:50051",
    source: Source = "operator",
) -> None:
    """Take a job from a resource manager that does not answer: it waits as its next attempt."""
    from cli import seize as seizing

    typer.echo(seizing.seize(placement, ingest, job_id, reason, source))


@app.command()
def compare(
    left: Annotated[Path, typer.Argument(help="Folder that one run wrote its files to.")],
    right: Annotated[Path, typer.Argument(help="The same of another run.")],
) -> None:
    """Say whether two runs came to the same, or where they first differ."""
    from lab.demo.parity import first_difference

    difference = first_difference(left, right)
    if difference is not None:
        typer.echo(f"the runs differ at {difference}")
        raise typer.Exit(1)
    typer.echo("both runs decided and charged the same")


@app.command()
def report(
    out: Out = Path("out"),
    redis: Annotated[bool, typer.Option(help="Hold the accounts in Redis to the ledger.")] = False,
) -> None:
    """Write the files and the table of a run on Kafka from its topics."""
    from cli.kafka_topics import KafkaTopics
    from lab.demo.report import table
    from lab.demo.run import write_files
    from shared.process.settings import settings
    from shared.streams.on_kafka.deployment import Deployment

    topics = KafkaTopics(Deployment.of(settings()))
    summary = write_files(topics, out, hold_redis=redis)
    Console().print(table(summary, settings().namespace or "report"))


@app.command()
def wait(
    jobs: Jobs = 1000,
    patience_s: Annotated[float, typer.Option(help="Longest time without news.")] = 180.0,
) -> None:
    """Wait until an emulated run on Kafka is complete."""
    from cli.kafka_topics import KafkaTopics
    from lab.demo.run import progress_of
    from shared.process.settings import settings
    from shared.streams.on_kafka.deployment import Deployment

    topics = KafkaTopics(Deployment.of(settings()))
    with progress_of(jobs, Console()) as told:
        topics.follow(told, patience_s)


@app.command()
def asyncapi(out: Out = Path("out")) -> None:
    """Write the AsyncAPI document of the topics."""
    import yaml

    from coplace_client.files import written
    from shared.catalogue.asyncapi import document

    path = out / "asyncapi.yaml"
    with written(path) as fresh:
        fresh.write_text(yaml.safe_dump(document(), sort_keys=False), encoding="utf-8")
    typer.echo(path)
