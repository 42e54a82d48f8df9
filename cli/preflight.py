"""Whether a deployment can start on the servers that its settings name, before anything starts."""

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Final

import typer
from kafka import KafkaAdminClient

from cli.locations import ARCHIVE, HISTORY
from cli.stages import every_stage
from coplace_client.errors import UnusableError
from shared.catalogue.access.rules import load_principals
from shared.catalogue.topics import load_topics
from shared.process.redis_client import redis_client
from shared.process.settings import settings
from shared.streams.on_kafka.admin import admin_client, wanted_topics, when_coordinated
from shared.streams.on_kafka.deployment import Deployment

# Who writes and reads what is copied: at the hub `site`, at the site `mirror`.
_LINK: Final = frozenset(("site", "mirror"))
_NO_MEMBERS: Final = ("Empty", "Dead")


def preflight(
    new: Annotated[
        bool,
        typer.Option("--new", help="Also check that nothing runs under its COPLACE_NAMESPACE yet."),
    ] = False,
    without_redis: Annotated[
        bool, typer.Option("--without-redis", help="The deployment has no Redis, as at a site.")
    ] = False,
    link: Annotated[
        str, typer.Option("--link", metavar="SITE", help="Ask the hub of this site instead.")
    ] = "",
) -> None:
    """Check whether a deployment can start, and change nothing. It finds servers that do not
    answer, topics with other counts of Kafka partitions, its name taken, archive or history without
    a place."""
    deployment = Deployment.from_settings(settings())
    if not (without_redis or link):
        asyncio.run(_require_redis(deployment))
    wanted = {
        name: int(str(options["num_partitions"]))
        for name, options in wanted_topics(deployment, every_stage(deployment.settings)).items()
    }
    with admin_client(deployment) as client:
        found = kafka_partitions_of(client)
        if link:
            is_taken = new and _has_members(client, link_group(deployment, link))
            shared = {deployment.name(topic) for topic in linked_topics()}
            wanted = {name: count for name, count in wanted.items() if name in shared}
            problems = [*hub_problems(wanted, found), *link_problems(link, is_taken=is_taken)]
        else:
            members = members_of(client, deployment) if new else {}
            problems = list(name_problems(members, deployment.settings.namespace))
    problems = [*count_problems(wanted, found), *problems, *location_problems()]
    for problem in problems:
        typer.echo(problem, err=True)
    if problems:
        raise UnusableError(f"{len(problems)} problems to repair before anything starts")
    typer.echo(f"ready to start: {len(wanted.keys() - found.keys())} topics are to be created")


def location_problems() -> Iterator[str]:
    """Yield, in words, what keeps archive and history from opening their places, where the
    environment names these."""
    if where := os.environ.get(ARCHIVE):
        from cli.archive.examining import archive_problems

        yield from archive_problems(where)
    if os.environ.get(HISTORY):
        from cli.history.examining import database_problems
        from services.history.settings import DatabaseSettings

        yield from database_problems(DatabaseSettings())


def count_problems(wanted: Mapping[str, int], found: Mapping[str, int]) -> Iterator[str]:
    """Yield, in words, the topics whose count of Kafka partitions is not the declared one."""
    for name in sorted(wanted.keys() & found.keys()):
        if wanted[name] != found[name]:
            yield (
                f"topic {name} has {found[name]} Kafka partitions instead of {wanted[name]}: "
                "name the count of keyed topics in COPLACE_KAFKA_PARTITIONS, or where it holds "
                "nothing yet delete it; docs/how-to/restore.md has the rest"
            )


def name_problems(members: Mapping[str, Iterable[str]], namespace: str) -> Iterator[str]:
    """Yield, in words, the groups of consumers that have members."""
    for group, hosts in sorted(members.items()):
        yield (
            f"a process at {', '.join(sorted(set(hosts)))} is already in the consumer group "
            f"{group}: another deployment runs with COPLACE_NAMESPACE={namespace!r} on this Kafka; "
            "give one of both a name of its own"
        )


def linked_topics() -> frozenset[str]:
    """Return the topics that are copied between a site and its hub, one way each."""
    ends = {frozenset(("site",)), frozenset(("mirror",))}
    return frozenset(
        spec.name
        for spec in load_topics().values()
        if {_LINK & set(spec.producers), _LINK & set(spec.consumers)} == ends
    )


def link_group(deployment: Deployment, site: str) -> str:
    """Return the group of the processes of MirrorMaker 2 that write to the hub for a site."""
    return deployment.name(f"mirror.{site}.link")


def hub_problems(wanted: Iterable[str], found: Iterable[str]) -> Iterator[str]:
    """Yield, in words, the topics of the link that the hub does not have."""
    for name in sorted(set(wanted) - set(found)):
        yield f"the hub has no topic {name}: install the hub first, with the same COPLACE_NAMESPACE"


def link_problems(site: str, *, is_taken: bool) -> Iterator[str]:
    """Yield, in words, that a site of this name sends already."""
    if is_taken:
        yield (
            f"another process sends to the hub as the site {site} already: "
            "give one of both sites a name of its own"
        )


def kafka_partitions_of(client: KafkaAdminClient) -> Mapping[str, int]:
    """Return the count of Kafka partitions of each topic there is. Raises KafkaError."""
    described = client.describe_topics()
    return {topic["name"]: len(topic["partitions"]) for topic in described}


def members_of(client: KafkaAdminClient, deployment: Deployment) -> Mapping[str, list[str]]:
    """Return the hosts of the members of each of the deployment's groups that has some. Raises
    KafkaError."""
    ours = {deployment.name(group) for one in load_principals().values() for group in one.consumers}
    there = {found["group_id"] for found in client.list_groups()}
    hosts = {group: _hosts(client, group) for group in sorted(ours & there)}
    return {group: found for group, found in hosts.items() if found}


def _hosts(client: KafkaAdminClient, group: str) -> list[str]:
    described = when_coordinated(lambda: client.describe_groups([group]))[group]
    return [member["client_host"] for member in described["members"]]


def _has_members(client: KafkaAdminClient, group: str) -> bool:
    """Of any kind of group: the client cannot read what members of Kafka Connect say of
    themselves."""
    states = {found["group_id"]: found["group_state"] for found in client.list_groups()}
    return states.get(group, _NO_MEMBERS[0]) not in _NO_MEMBERS


async def _require_redis(deployment: Deployment) -> None:
    async with redis_client(deployment.settings) as redis:
        await redis.ping()
