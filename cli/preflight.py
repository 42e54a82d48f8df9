"""Whether a deployment can start on the servers that its settings name, before anything starts."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated

import typer
from kafka import KafkaAdminClient

from cli.stages import every_stage
from shared.domain.errors import UnusableError
from shared.messaging.access import load_principals
from shared.messaging.admin import admin_client, wanted_topics, when_coordinated
from shared.messaging.deployment import Deployment
from shared.runtime.redis_client import redis_client
from shared.runtime.settings import settings


def preflight(
    new: Annotated[
        bool, typer.Option("--new", help="And that nobody runs under its COPLACE_NAMESPACE yet.")
    ] = False,
) -> None:
    """Find what a deployment could not start with, or would start wrongly with, and change
    nothing: servers that do not answer, topics with other counts of Kafka partitions, its name
    taken."""
    deployment = Deployment.of(settings())
    asyncio.run(_require_redis(deployment))
    with admin_client(deployment) as client:
        found = kafka_partitions_of(client)
        members = members_of(client, deployment) if new else {}
    wanted = {
        name: int(str(options["num_partitions"]))
        for name, options in wanted_topics(deployment, every_stage(deployment.settings)).items()
    }
    problems = [
        *count_problems(wanted, found),
        *name_problems(members, deployment.settings.namespace),
    ]
    for problem in problems:
        typer.echo(problem, err=True)
    if problems:
        raise UnusableError(f"{len(problems)} things to mend before anything starts")
    typer.echo(f"ready to start: {len(wanted.keys() - found.keys())} topics are to be created")


def count_problems(wanted: Mapping[str, int], found: Mapping[str, int]) -> Iterator[str]:
    """Topics that are there with another count of Kafka partitions than declared, in words."""
    for name in sorted(wanted.keys() & found.keys()):
        if wanted[name] != found[name]:
            yield (
                f"topic {name} has {found[name]} Kafka partitions instead of {wanted[name]}: "
                "name the count of keyed topics in COPLACE_KAFKA_PARTITIONS, or where it holds "
                "nothing yet delete it; docs/how-to/restore.md has the rest"
            )


def name_problems(members: Mapping[str, Iterable[str]], namespace: str) -> Iterator[str]:
    """Groups of consumers that somebody is in, in words."""
    for group, hosts in sorted(members.items()):
        yield (
            f"somebody at {', '.join(sorted(set(hosts)))} is already in the consumer group "
            f"{group}: another deployment runs with COPLACE_NAMESPACE={namespace!r} on this Kafka; "
            "give one of both a name of its own"
        )


def kafka_partitions_of(client: KafkaAdminClient) -> Mapping[str, int]:
    """The count of Kafka partitions of each topic there is. Raises KafkaError."""
    described = client.describe_topics()
    return {topic["name"]: len(topic["partitions"]) for topic in described}


def members_of(client: KafkaAdminClient, deployment: Deployment) -> Mapping[str, list[str]]:
    """The hosts of the members of each of the deployment's groups that has some. Raises
    KafkaError."""
    ours = {deployment.name(group) for one in load_principals().values() for group in one.consumers}
    there = {found["group_id"] for found in client.list_groups()}
    hosts = {group: _hosts(client, group) for group in sorted(ours & there)}
    return {group: found for group, found in hosts.items() if found}


def _hosts(client: KafkaAdminClient, group: str) -> list[str]:
    described = when_coordinated(lambda: client.describe_groups([group]))[group]
    return [member["client_host"] for member in described["members"]]


async def _require_redis(deployment: Deployment) -> None:
    async with redis_client(deployment.settings) as redis:
        await redis.ping()
