"""`coplace energy`: coefficients learned, signatures projected, P-states chosen, from files, and
what a running system says of its own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cli.asking import Ingest, publish
from cli.notes import TABLE_WIDTH, note
from cli.outcomes import in_words, order_all
from cli.output import Output, OutputName, write
from cli.speaking import Source
from cli.times import clock_us
from cli.waiting import WAIT_S, Wait
from coplace_client.errors import RejectedError
from shared.domain.eamc_policy import Reading
from shared.eamc.to_solution import MIN_ENERGY_THRESHOLD, MIN_TIME_THRESHOLD
from shared.process.folders import write_csv

app = typer.Typer(
    invoke_without_command=True,
    help="What was predicted of jobs against what was measured; EAR's energy model, on files and "
    "of a running system.",
)

# Tables are read in terminals of this width.
_TERMINAL_WIDTH = 80

CoefficientFiles = Annotated[
    list[Path],
    typer.Option(help="Table of coefficients of one module; again for another module."),
]
Signatures = Annotated[Path, typer.Option(help="Signatures, as apps.csv of the published data.")]
Modules = Annotated[
    list[str] | None,
    typer.Option(help="Module, by name or index, of each table; else the table's name says it."),
]
Via = Annotated[
    bool, typer.Option(help="Project pairs that were never measured through other P-states.")
]
Interval = Annotated[
    float | None,
    typer.Option(
        min=0.01,
        max=0.999,
        help="Add what each value lies between with this probability, such as 0.8; "
        "errors are read from {module}_errors.csv beside the table.",
    ),
]
Weights = Annotated[
    list[float] | None, typer.Option(help="Weight of time in EAMC's distance; 1 and 1.5 if none.")
]
TpiScale = Annotated[
    str, typer.Option(help="Unit of TPI in the reports; EAR's bytes per instruction if none.")
]
DefaultGhz = Annotated[
    float | None, typer.Option(help="Where EAR's policies start; each signature's own P-state.")
]
EnergyThreshold = Annotated[
    float, typer.Option(help="Share of time that min-energy-to-solution may add.")
]
TimeThreshold = Annotated[
    float, typer.Option(help="Time gain per clock gain that min-time-to-solution asks.")
]


@app.callback()
def predicted(ctx: typer.Context, output: OutputName = Output.TABLE) -> None:
    """Compare what was predicted of the jobs that ended with what was measured of them, by
    application, node model and cluster. Commands: EAR's energy model, on files and of a system."""
    if ctx.invoked_subcommand is not None:
        return
    from cli.energy import predicted as accuracy
    from cli.kafka_topics import KafkaTopics
    from shared.process.settings import settings
    from shared.streams.on_kafka.deployment import Deployment

    found = accuracy.by_application(KafkaTopics(Deployment.from_settings(settings())).topic)
    if output is Output.TABLE:
        Console(width=_TERMINAL_WIDTH).print(accuracy.table(found))
    else:
        write(accuracy.rows(found), accuracy.COLUMNS, output)


@app.command()
def project(
    coefficients: CoefficientFiles,
    signatures: Signatures,
    out_csv: Annotated[Path, typer.Option("--csv", help="File to write.")],
    module: Modules = None,
    via_intermediate: Via = False,
    interval: Interval = None,
) -> None:
    """Project time, power and energy of each application at each P-state."""
    from cli.energy import projections
    from services.energy.adapters.matching import read_matched

    header = projections.columns(via_intermediate=via_intermediate, interval=interval)
    rows: list[Sequence[object]] = []
    several = read_matched(coefficients, signatures, module or ())
    if interval is not None:
        several, notes = projections.with_errors_beside(several, coefficients)
        note(notes)
    for matched in several:
        found = projections.project_all(matched, via_intermediate=via_intermediate)
        rows += projections.rows(
            matched, found, via_intermediate=via_intermediate, interval=interval
        )
        note(projections.describe_gaps(matched, found))
        note(matched.doubts)
    write_csv(out_csv, header, rows)
    typer.echo(f"{len(rows)} projections are in {out_csv}")


@app.command()
def choose(
    coefficients: CoefficientFiles,
    signatures: Signatures,
    out_csv: Annotated[
        Path | None, typer.Option("--csv", help="File to write beside the table.")
    ] = None,
    module: Modules = None,
    t_weight: Weights = None,
    distance: Annotated[
        Reading,
        typer.Option(help="The reading of EAMC's equations, ADR 0003."),
    ] = Reading.DIMENSIONLESS,
    default_ghz: DefaultGhz = None,
    min_energy_threshold: EnergyThreshold = MIN_ENERGY_THRESHOLD,
    min_time_threshold: TimeThreshold = MIN_TIME_THRESHOLD,
    via_intermediate: Via = False,
) -> None:
    """Choose the P-state of least energy, of least time, of EAMC's distance and of EAR's
    policies."""
    from cli.energy import choices, projections
    from services.energy.adapters.matching import read_matched

    weights = tuple(t_weight or (1.0, 1.5))
    knobs = choices.Knobs(weights, distance, default_ghz, min_energy_threshold, min_time_threshold)
    several = [
        (matched, projections.project_all(matched, via_intermediate=via_intermediate))
        for matched in read_matched(coefficients, signatures, module or ())
    ]
    chosen = choices.choose(several, knobs)
    if out_csv is not None:
        write_csv(out_csv, choices.COLUMNS, (each.row for each in chosen))
    for matched, found in several:
        note(projections.describe_gaps(matched, found))
        note(matched.doubts)
    Console(width=TABLE_WIDTH).print(choices.table(several, chosen))


@app.command("time-coefficients")
def time_coefficients(
    coefficients: CoefficientFiles,
    signatures: Signatures,
    node: Annotated[
        list[str],
        typer.Option(help="MODULE=CORES or MODULE=CORES:PEAK_GBPS, for each module."),
    ],
    out_csv: Annotated[
        Path | None, typer.Option("--csv", help="File to write beside the table.")
    ] = None,
    module: Modules = None,
) -> None:
    """Compare runtimes on each module with the first, and with an estimate from hardware."""
    from cli.energy import time_coefficients as ratios
    from services.energy.adapters.matching import read_matched

    several = read_matched(coefficients, signatures, module or ())
    rows = list(ratios.compare_modules(several, ratios.nodes(node)))
    if out_csv is not None:
        write_csv(out_csv, ratios.COLUMNS, (row.cells for row in rows))
    Console(width=TABLE_WIDTH).print(ratios.table(rows))
    typer.echo(ratios.summary(rows) or "too few applications ran on both to estimate the error")


@app.command()
def misuse() -> None:
    """List users whose jobs do not behave like the application that they name, from
    energy.advice."""
    from cli.energy import misuse as misused
    from cli.kafka_topics import KafkaTopics
    from shared.process.settings import settings
    from shared.streams.on_kafka.deployment import Deployment

    topics = KafkaTopics(Deployment.from_settings(settings()))
    users = misused.by_user(topics.topic(misused.TOPIC))
    Console(width=TABLE_WIDTH).print(misused.table(users))


@app.command()
def learn(
    signatures: Annotated[Path, typer.Option(help="Kernels at every P-state, with freq_ghz.")],
    out: Annotated[Path, typer.Option(help="Folder of the files that are written.")],
    plot: Annotated[bool, typer.Option(help="Draw measured against predicted as PNG.")] = False,
) -> None:
    """Learn the coefficients of every module of a file of kernels."""
    from cli.energy.learning import learn, write

    for module in learn(signatures):
        note(module.notes)
        typer.echo(module.summary)
        for path in write(module, out):
            typer.echo(f"  {path}")
        if plot:
            from cli.energy.plot import write_plot

            typer.echo(f"  {write_plot(module, out)}")


@app.command("import")
def import_report(
    report: Annotated[list[Path], typer.Argument(help="Reports of EAR, separated by ; or ,")],
    module: Annotated[str, typer.Option(help="Node model that the reports are of.")] = "",
    out: Annotated[Path | None, typer.Option(help="Folder of the files that are written.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Say what the reports hold, and write nothing.")
    ] = False,
    tpi_scale: TpiScale = "",
    output: OutputName = Output.TABLE,
) -> None:
    """Read EAR's own reports: signatures to project, and the energy of every run."""
    from cli.energy import reports

    found = reports.ImportedReports.read(report)
    for line in found.summary():
        typer.echo(line, err=output is not Output.TABLE)
    if check:
        write(list(found.rows()), reports.COLUMNS, output)
        return
    if not module or out is None:
        name = "out" if module else "module"
        raise RejectedError(name, f"give --{name}, or --check to write nothing")
    for line in found.write(module, out, tpi_scale):
        typer.echo(line, err=output is not Output.TABLE)


@app.command()
def evaluate(
    reports: Annotated[list[Path], typer.Option(help="Report of EAR; again for another report.")],
    coefficients: Annotated[
        Path | None,
        typer.Option(help="Table of coefficients; else the other applications teach them."),
    ] = None,
    tpi_scale: TpiScale = "",
    output: OutputName = Output.TABLE,
) -> None:
    """Compare predictions of time and power at clocks left out with what EAR measured there: by
    coefficients, by each application's own history, and by both."""
    from cli.energy import evaluate as evaluation

    write(evaluation.rows(reports, coefficients, tpi_scale), evaluation.COLUMNS, output)


@app.command()
def push(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="Tables of coefficients, or of signatures, as `learn` has them."
        ),
    ],
    node_model: Annotated[
        str, typer.Option(help="Node model of all files; else the files say it.")
    ] = "",
    reason: Annotated[str, typer.Option(help="Why: it is recorded.")] = "",
    dry_run: Annotated[bool, typer.Option(help="Only show what would change.")] = False,
    yes: Annotated[bool, typer.Option(help="Publish without asking.")] = False,
    output: OutputName = Output.TABLE,
    ingest: Ingest = "127.0.0.1:50051",
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Publish coefficients and signatures to a running system, after saying what they change."""
    from cli.energy import push as pushing
    from cli.kafka_topics import KafkaTopics
    from shared.process.settings import settings
    from shared.streams.on_kafka.deployment import Deployment

    known = pushing.EnergyModels.read(KafkaTopics(Deployment.from_settings(settings())).topic)
    found = pushing.Files.read(files, node_model, known)
    events = list(found.envelopes(source, reason, clock_us()))
    note(found.doubts(known))
    write(pushing.changes(known, found), pushing.COLUMNS, output)
    told = f"{len(found.coefficients)} node models, {len(found.signatures)} signatures"
    if dry_run:
        typer.echo(f"not published: {told}", err=True)
        return
    if not yes:
        typer.confirm(f"publish coefficients of {told}?", abort=True, err=True)
    # Signatures are measurements: nobody owns them.
    done = order_all(ingest, [e for e in events if e.HasField("coefficients_declared")], wait)
    for event in events:
        if not event.HasField("coefficients_declared"):
            publish(ingest, event)
    typer.echo(f"published coefficients of {told}: jobs that wait are evaluated again", err=True)
    for each in done:
        typer.echo(in_words(each), err=True)


@app.command()
def ask(
    app_ids: Annotated[
        list[str], typer.Option("--app", help="Application; again for another application.")
    ],
    address: Annotated[
        str, typer.Option(envvar="COPLACE_ENERGY_ADDRESS", help="host:port of the energy API.")
    ] = "127.0.0.1:50052",
    node_model: Annotated[
        list[str] | None, typer.Option(help="Node model; all that have coefficients if none.")
    ] = None,
    ghz: Annotated[
        list[float] | None, typer.Option(help="P-state; all of the node model if none.")
    ] = None,
    via_intermediate: Via = False,
) -> None:
    """Ask a running system for time, power and energy of applications, over gRPC."""
    from cli.energy import ask as asked

    request = asked.request(app_ids, node_model or (), ghz or (), via_intermediate=via_intermediate)
    projections = asked.project(address, request)
    asked.require_any(projections)
    note(asked.gaps(projections))
    Console(width=TABLE_WIDTH).print(asked.table(projections))
