"""`coplace topics` and `coplace tail`: create topics, say who may use them, list and read them."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import orjson
import typer

from cli import completion
from coplace_client.errors import RejectedError, UnusableError
from deploy.local.credentials import Credentials
from shared.catalogue.access.rules import Access, kafka_commands, redis_commands, strimzi_users
from shared.catalogue.codec import Codec
from shared.catalogue.event_json import plain
from shared.catalogue.record import Record
from shared.catalogue.topics import load_topics
from shared.process.settings import settings
from shared.streams.on_kafka.clients import Reader
from shared.streams.on_kafka.deployment import Deployment

app = typer.Typer(no_args_is_help=True, help="Create and list the topics. Create their ACLs.")


class AclForm(StrEnum):
    """How access control lists are written."""

    LIST = "list"
    KAFKA = "kafka"
    STRIMZI = "strimzi"
    REDIS = "redis"


Clients = Annotated[
    list[str] | None,
    typer.Option(
        "--client",
        metavar="NAME=ROLE",
        help="A client from outside: resource-manager, slurm, billing or agent; may be repeated.",
    ),
]


@app.command()
def create(
    acls: Annotated[
        bool, typer.Option("--acls", help="Also create the ACLs of each service.")
    ] = False,
    client: Clients = None,
    passwords: Annotated[
        Path | None,
        typer.Option(
            help="Also create the users in Kafka, each with the password of USER.password in this "
            "folder, for SCRAM-SHA-512.",
        ),
    ] = None,
) -> None:
    """Create every topic, dead-letter queue and changelog that does not exist yet."""
    from cli.stages import create_topics

    deployment = Deployment.from_settings(settings())
    for name in create_topics(deployment):
        typer.echo(f"created {name}")
    access = _access(client)
    if acls:
        _create_acls(deployment, access)
    if passwords:
        _tell_passwords(deployment, access, Credentials(passwords))


@app.command("acls")
def show_acls(
    form: Annotated[AclForm, typer.Option(help="As whom it is for reads it.")] = AclForm.LIST,
    client: Clients = None,
    cluster: Annotated[str, typer.Option(help="Name of Strimzi's Kafka.")] = "kafka",
) -> None:
    """Print what each service may do at Kafka and Redis, as proto/topics says."""
    for line in _acl_lines(_access(client), form, cluster):
        typer.echo(line)


def _acl_lines(access: Access, form: AclForm, cluster: str) -> Iterable[str]:
    match form:
        case AclForm.LIST:
            return map(str, [*access.rules(), *access.redis_users()])
        case AclForm.KAFKA:
            return kafka_commands(access.rules())
        case AclForm.STRIMZI:
            import yaml

            documents = strimzi_users(access.rules(), cluster)
            return [yaml.safe_dump_all(documents, sort_keys=False).rstrip()]
        case AclForm.REDIS:
            return redis_commands(access.redis_users())


def _create_acls(deployment: Deployment, access: Access) -> None:
    from kafka.errors import SecurityDisabledError

    from shared.catalogue.access.kafka import ensure_acls
    from shared.streams.on_kafka.admin import admin_client

    with admin_client(deployment) as connected:
        try:
            created = ensure_acls(connected, access)
        except SecurityDisabledError as error:
            raise UnusableError(
                f"Kafka at {deployment.settings.kafka_bootstrap} lets everybody do anything: set "
                "its authorizer.class.name, or leave --acls out"
            ) from error
    for rule in created:
        typer.echo(f"created {rule}")


def _tell_passwords(deployment: Deployment, access: Access, kept: Credentials) -> None:
    from shared.catalogue.access.kafka import set_scram_passwords
    from shared.streams.on_kafka.admin import admin_client

    users = access.principals
    if missing := [str(kept.password_file(user)) for user in users if not kept.has_password(user)]:
        raise UnusableError(f"{', '.join(missing)}: no such file; each user needs a password")
    with admin_client(deployment) as connected:
        set_scram_passwords(connected, {user: kept.password(user) for user in users})
    typer.echo(f"gave Kafka the passwords of {len(users)} users")


def named_clients(clients: list[str] | None) -> Mapping[str, str]:
    """Return the names of `--client` with their roles, which are not looked at."""
    return dict(one.partition("=")[::2] for one in clients or ())


def _access(clients: list[str] | None) -> Access:
    from cli.stages import access

    return access(settings().namespace, named_clients(clients))


@app.command("list")
def list_topics() -> None:
    """List the topics, one a line: name, Kafka partitions, what it contains."""
    for spec in load_topics().values():
        typer.echo(f"{spec.name}\t{spec.kafka_partitions}\t{spec.description}")


def tail(
    topic: Annotated[
        str,
        typer.Argument(help="As `coplace topics list` names it.", autocompletion=completion.topics),
    ],
    follow: Annotated[bool, typer.Option(help="Go on with what comes.")] = False,
) -> None:
    """Print a topic's events as JSON lines, from its start, and what is wrong with the rest."""
    deployment = Deployment.from_settings(settings())
    with Reader(deployment, deployment.topics.partitions(topic)) as reader:
        for record in reader.to_end():
            typer.echo(_line(deployment.codec, record))
        while follow:
            for record in reader.poll():
                typer.echo(_line(deployment.codec, record))


def _line(codec: Codec, record: Record) -> str:
    try:
        return orjson.dumps(plain(codec.decode(record))).decode()
    except RejectedError as error:
        topic, kafka_partition = record.partition
        where = f"{topic}/{kafka_partition}/{record.offset}"
        return orjson.dumps({"rejected": where, "problem": str(error)}).decode()
