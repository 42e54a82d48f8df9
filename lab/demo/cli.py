"""`coplace demo`, `demo-parity`, `compare`, `report` and `wait`: a workload through the whole
system, and the results of a run."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cli.region_policy import RegionPolicy

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
Reports = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        file_okay=False,
        help="Folder of EAR's reports, NODE_MODEL.csv each: imported before the first job.",
    ),
]
Workers = Annotated[int, typer.Option(min=1, max=100, help="Processes of each stateful service.")]
Secure = Annotated[
    bool, typer.Option(help="On Kafka: with TLS, passwords and access control everywhere.")
]
RunDir = Annotated[Path, typer.Option(help="Folder of the servers' data and logs.")]


def demo(
    seed: Seed = 1,
    jobs: Jobs = 300,
    policy: PolicyName = RegionPolicy.PRIORITY_INC_V,
    out: Out = Path("out"),
    swf: Swf = None,
    coefficients: Coefficients = None,
    reports: Reports = None,
    kafka: Annotated[bool, typer.Option(help="On real Kafka and Redis.")] = False,
    workers: Workers = 1,
    secure: Secure = False,
    compare_sharing: Annotated[
        bool, typer.Option(help="Play it again without neighbours; no server.")
    ] = False,
    full: Annotated[bool, typer.Option(help="Show all figures; no server.")] = False,
    run_dir: RunDir = Path("run/demo"),
) -> None:
    """Replay a workload through the whole system, and show what it saves against plain EASY."""
    from lab.demo.options import DemoOptions
    from lab.demo.run import run_first_answer, run_on_servers, run_sharing

    options = DemoOptions(
        *(seed, jobs, policy, out, swf, coefficients, workers),
        secure=secure,
        reports=reports,
        together=workers == 1 and not secure,
    )
    if compare_sharing:
        if kafka:
            raise typer.BadParameter("is played without servers", param_hint="--compare-sharing")
        run_sharing(options, Console())
    elif kafka:
        run_on_servers(options, Console(), run_dir)
    else:
        run_first_answer(options, Console(), in_full=full)


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


def compare(
    left: Annotated[Path, typer.Argument(help="Folder that one run wrote its files to.")],
    right: Annotated[Path, typer.Argument(help="The same of another run.")],
) -> None:
    """Compare two runs, and show where they first differ."""
    from lab.demo.parity import first_difference

    difference = first_difference(left, right)
    if difference is not None:
        typer.echo(f"the runs differ at {difference}")
        raise typer.Exit(1)
    typer.echo("both runs decided and charged the same")


def report(
    out: Out = Path("out"),
    redis: Annotated[
        bool, typer.Option(help="Compare the accounts in Redis with the charges.")
    ] = False,
) -> None:
    """Write the files and the table of a run on Kafka from its topics."""
    from cli.kafka_topics import KafkaTopics
    from lab.demo.report import table
    from lab.demo.run import write_files
    from shared.process.settings import settings
    from shared.streams.on_kafka.deployment import Deployment

    topics = KafkaTopics(Deployment.from_settings(settings()))
    _, summary = write_files(topics, out, hold_redis=redis)
    Console().print(table(summary, settings().namespace or "report"))


def wait(
    jobs: Jobs = 1000,
    patience_s: Annotated[float, typer.Option(help="Longest time without an event.")] = 180.0,
) -> None:
    """Wait until an emulated run on Kafka is complete."""
    from cli.kafka_topics import KafkaTopics
    from lab.demo.run import progress_of
    from shared.process.settings import settings
    from shared.streams.on_kafka.deployment import Deployment

    topics = KafkaTopics(Deployment.from_settings(settings()))
    with progress_of(jobs, Console()) as told:
        topics.follow(told, patience_s)
