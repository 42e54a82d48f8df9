"""`coplace doctor` and `coplace restore`: whether data belong together, and what repairs them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from coplace_client.errors import UnusableError
from shared.process.settings import settings
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.stages.consistency import InconsistentError

app = typer.Typer(
    no_args_is_help=True,
    help="Repair what operators replaced, with the processes concerned stopped: see "
    "docs/how-to/restore.md.",
)
StageName = Annotated[str, typer.Argument(metavar="STAGE", help="As `coplace doctor` names it.")]


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except (InconsistentError, ValueError) as error:
        raise UnusableError(str(error)) from error


def doctor() -> None:
    """Compare state, positions, topics, read models, archive, history and who may use them,
    without starting anything."""
    from cli.restore.access import examine_access
    from cli.restore.restore import examine

    deployment = Deployment.from_settings(settings())
    with _told():
        examined = examine(deployment)
        allowed = examine_access(deployment)
    for name, wrong in [*examined.items(), *allowed.items()]:
        fits = "is not restricted" if wrong is None else "does not fit" if wrong else "fits"
        typer.echo(f"{name}\t{fits}")
        for one in wrong or ():
            typer.echo(f"\t{one}")
    if any(examined.values()) or any(allowed.values()):
        raise typer.Exit(1)


@app.command()
def accept(stage: StageName) -> None:
    """Accept the state as it is, on the topics as they are."""
    from cli.restore import restore

    deployment = Deployment.from_settings(settings())
    with _told():
        for line in restore.accept(deployment, restore.stage_named(deployment, stage)):
            typer.echo(line)


@app.command()
def replay(stage: StageName) -> None:
    """Delete the state and rebuild it from the inputs. Outputs are published a second time."""
    from cli.restore import restore

    deployment = Deployment.from_settings(settings())
    with _told():
        for line in restore.replay(deployment, restore.stage_named(deployment, stage)):
            typer.echo(line)


@app.command()
def rebuild(
    model: Annotated[str, typer.Argument(help="accounts or energy.appdb_cache.")],
) -> None:
    """Delete a read model in Redis. Its process rebuilds it from Kafka."""
    from cli.restore import restore

    with _told():
        restore.rebuild(Deployment.from_settings(settings()), model)
    typer.echo(f"{model} is empty: start its process")


@app.command()
def repartition(
    count: Annotated[int, typer.Argument(min=2, help="Kafka partitions of each keyed topic.")],
) -> None:
    """Give keyed topics more Kafka partitions, and move the state with the keys."""
    from cli.restore.repartition import repartition as move
    from cli.stages import every_stage

    deployment = Deployment.from_settings(settings())
    with _told():
        for line in move(deployment, count, every_stage(deployment.settings)):
            typer.echo(line)
    typer.echo(f"set COPLACE_KAFKA_PARTITIONS={count} for every process")
