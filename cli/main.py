"""The `coplace` command line."""

import os
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cli import completion
from cli.commands import with_commands_of
from cli.failures import ReportingGroup
from cli.output import Output, OutputName
from cli.speaking import Source
from cli.waiting import WAIT_S, Wait

# These, `simulate` and `evaluate` are of the laboratory, which nothing that a region runs imports:
# here they are text.
_OF_THE_DEMO = {
    "demo": "lab.demo.cli:demo",
    "demo-parity": "lab.demo.cli:demo_parity",
    "compare": "lab.demo.cli:compare",
    "report": "lab.demo.cli:report",
    "wait": "lab.demo.cli:wait",
}
_INSTALLED = ("up", "status", "logs", "env", "down")
_OF_NODES = ("nodes", "drain", "resume", "undeclare")
_OF_JOBS = (
    *("jobs", "queue", "cancel", "hold", "release", "prioritize", "requeue", "suspend"),
    "unsuspend",
)
_OF_LOGINS = ("login", "logout")
# These start, show or stop servers of their own, or need none; the others need a system that is up.
_WITH_THEIR_OWN = (*_INSTALLED, "certificates", "conformance", "local", "demo", "demo-parity")

app = typer.Typer(
    cls=with_commands_of(
        ReportingGroup,
        {
            **_OF_THE_DEMO,
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
            "slurm": "cli.slurm.cli:app",
            "kubernetes": "cli.kubernetes.cli:app",
            "kueue": "cli.kueue.cli:app",
            "local": "deploy.local.cli:app",
            "topics": "cli.topics:app",
            "accounts": "cli.billing:app",
            # The same command as `accounts statement`.
            "statement": "cli.billing:statement",
            "archive": "cli.archive.cli:app",
            "history": "cli.history.cli:app",
            "authority": "cli.authority.cli:app",
            "cap": "cli.cap.cli:app",
            "certificates": "cli.installation.certificates:app",
            "clock": "cli.clock:app",
            # Of the region for tests, which nothing that a region runs imports.
            "conformance": "coplace_testing.conformance.cli:conformance",
            "dlq": "cli.dlq.cli:app",
            "energy": "cli.energy.cli:app",
            "evaluate": "lab.evaluate.cli:app",
            "licence": "cli.licences:app",
            "limits": "cli.limits:app",
            **{verb: f"cli.login.cli:{verb}" for verb in _OF_LOGINS},
            "mcp": "cli.mcp.cli:mcp",
            "openapi": "cli.openapi:openapi",
            "models": "cli.models:app",
            "outcome": "cli.outcomes:outcome",
            "policy": "cli.policy:app",
            "quote": "cli.quote:quote",
            "price": "cli.price:app",
            "profile": "cli.profile.cli:app",
            "reservation": "cli.reservations:app",
            "restore": "cli.restore.cli:app",
            "tariff": "cli.tariff:app",
            "tokens": "cli.authority.tokens:app",
            "webhook": "cli.webhooks:app",
        },
    ),
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Place, power and price batch jobs across clusters.",
)

Out = Annotated[Path, typer.Option(help="Folder of the files that are written.")]


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
    """Apply the common options of every command."""
    # Errors are reported in a line of our own.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    if ctx.invoked_subcommand not in _WITH_THEIR_OWN:
        from cli.installation.installation import reachable

        ctx.with_resource(reachable())
        if ctx.invoked_subcommand not in _OF_LOGINS:
            from cli.login.session import signed_in

            if problem := ctx.with_resource(signed_in()):
                typer.echo(f"note: {problem}", err=True)


@app.command()
def why(
    job_id: Annotated[
        str,
        typer.Argument(
            metavar="JOB",
            help="As it was submitted, or its number there where that is of one job.",
            autocompletion=completion.jobs,
        ),
    ],
    address: Annotated[
        str, typer.Option(envvar="COPLACE_PLACEMENT_ADDRESS", help="host:port of placement.")
    ] = "127.0.0.1:50053",
    output: OutputName = Output.TABLE,
    power: Annotated[
        bool, typer.Option("--power", help="What it was expected to draw, and by which past jobs.")
    ] = False,
    history: Annotated[
        str,
        typer.Option(
            envvar="COPLACE_HISTORY_ADDRESS",
            help="host:port of the history, for jobs that placement knows no more.",
        ),
    ] = "127.0.0.1:50055",
) -> None:
    """Explain a job: why it does not start yet and when it is expected to, or how it ended."""
    if power:
        _tell_power(job_id)
        return
    from cli import why as question
    from cli.answers import write_answer
    from cli.notes import TABLE_WIDTH
    from cli.slurm.numbers import named
    from cli.why_past import ask

    answer = ask(address, history, named(address, job_id))
    if output is not Output.TABLE:
        write_answer(answer, *question.for_programs(answer), output)
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

    topics = KafkaTopics(Deployment.from_settings(settings()))
    for line in why_power.lines(topics.topic(why_power.INPUTS), job_id):
        typer.echo(line)


@app.command()
def seize(
    job_id: Annotated[
        str,
        typer.Argument(metavar="JOB", help="As it was submitted.", autocompletion=completion.jobs),
    ],
    reason: Annotated[
        str, typer.Option(help="How you know that the job does not run there: it is recorded.")
    ],
    placement: Annotated[
        str, typer.Option(envvar="COPLACE_PLACEMENT_ADDRESS", help="host:port of placement.")
    ] = "127.0.0.1:50053",
    ingest: Annotated[
        str, typer.Option(envvar="COPLACE_INGEST_ADDRESS", help="host:port of ingest.")
    ] = "127.0.0.1:50051",
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Take a job from a resource manager that does not answer: it waits as its next attempt."""
    from cli import seize as seizing

    typer.echo(seizing.seize(placement, ingest, job_id, reason, source, wait))


@app.command()
def asyncapi(out: Out = Path("out")) -> None:
    """Write the AsyncAPI document of the topics, and the JSON Schemas of their messages."""
    import json

    import yaml

    from cli.stages import topics_in_use
    from coplace_client.files import write_whole
    from shared.catalogue.asyncapi import document
    from shared.catalogue.json_schema import bundle

    texts = {
        "asyncapi.yaml": yaml.safe_dump(document(topics_in_use()), sort_keys=False),
        "schemas.json": f"{json.dumps(bundle(), indent=2)}\n",
    }
    for name, text in texts.items():
        with write_whole(out / name) as fresh:
            fresh.write_text(text, encoding="utf-8")
        typer.echo(out / name)


@app.command("grpc-reference")
def grpc_reference() -> None:
    """Print what answers over gRPC, in Markdown: services, methods, messages, fields."""
    from shared.catalogue.grpc_reference import reference

    typer.echo(reference(), nl=False)
