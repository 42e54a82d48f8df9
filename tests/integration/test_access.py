"""Each service's credentials against every topic, group, transactional id and key on real servers:
allowed and refused as the rules say, by raw requests that change nothing."""

import asyncio
from typing import Final

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ACLFilter, ResourcePatternFilter
from kafka.protocol.consumer import FetchRequest, JoinGroupRequest
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest
from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, RedisError
from typer.testing import CliRunner

from cli.main import app
from cli.restore.access import KAFKA, REDIS, examine_access
from cli.stages import every_stage
from shared.catalogue.access.kafka import acl_of
from shared.catalogue.access.redis import differences
from shared.catalogue.access.rules import Access, AclRule, Operation, Resource
from shared.process.redis_client import redis_client
from shared.process.settings import Settings, settings
from shared.streams.on_kafka.deployment import Deployment
from tests.support.secured import Secured

_NOT_ALLOWED: Final = {Resource.TOPIC: 29, Resource.GROUP: 30, Resource.TRANSACTIONAL_ID: 53}
# Of Redis: each kind of command that services use, which reads or writes one key.
_READING: Final = (("GET",), ("HGETALL",), ("HGET", "f"))
_WRITING: Final = (("SET", "v"), ("DEL",), ("HSET", "f", "v"), ("HINCRBY", "f", "1"))
_NOBODYS: Final = (("FLUSHALL",), ("CONFIG", "GET", "*"), ("ACL", "LIST"), ("KEYS", "*"))


class Attempts:
    """What one principal's credentials are answered at Kafka, over one connection."""

    def __init__(self, deployment: Deployment) -> None:
        self._client = KafkaAdminClient(**deployment.connection)

    def close(self) -> None:
        self._client.close()

    def refused(self, resource: Resource, operation: Operation, name: str) -> bool:
        """Whether the broker says that this principal may not."""
        return self._code(resource, operation, name) == _NOT_ALLOWED[resource]

    def _code(self, resource: Resource, operation: Operation, name: str) -> int:
        match resource, operation:
            case Resource.TOPIC, Operation.READ:
                return self._fetch(name)
            case Resource.TOPIC, Operation.WRITE:
                return self._produce(name)
            case Resource.GROUP, Operation.READ:
                return self._join(name)
            case Resource.TRANSACTIONAL_ID, Operation.WRITE:
                return self._init(name)
        raise ValueError(f"no request for {operation} {resource}")

    def _send(self, request: object) -> object:
        manager = self._client._manager
        return manager.run(manager.send, request, 1)

    def _fetch(self, topic: str) -> int:
        at = FetchRequest.FetchTopic.FetchPartition(
            partition=0, fetch_offset=0, partition_max_bytes=1
        )
        topics = [FetchRequest.FetchTopic(topic=topic, partitions=[at])]
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics, max_version=12)
        [found] = self._send(request).responses  # type: ignore[attr-defined]
        return int(found.partitions[0].error_code)

    def _produce(self, topic: str) -> int:
        """Records of no format: a client that may write gets the error that they are invalid."""
        data = ProduceRequest.TopicProduceData.PartitionProduceData(index=0, records=b"")
        topics = [ProduceRequest.TopicProduceData(name=topic, partition_data=[data])]
        request = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics, max_version=9)
        [found] = self._send(request).responses  # type: ignore[attr-defined]
        return int(found.partition_responses[0].error_code)

    def _join(self, group: str) -> int:
        """A client that may join is asked to come again with a member id."""
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=6_000,
            rebalance_timeout_ms=6_000,
            member_id="",
            protocol_type="consumer",
            protocols=[protocol],
            min_version=5,
        )
        return int(self._send(request).error_code)  # type: ignore[attr-defined]

    def _init(self, transactional_id: str) -> int:
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=1_000, max_version=4
        )
        return int(self._send(request).error_code)  # type: ignore[attr-defined]


def every_attempt(access: Access) -> list[tuple[Resource, Operation, str]]:
    """What could be tried: all that any rule is about, and all topics that there are."""
    deployment = Deployment.from_settings(Settings(kafka_partitions=1))
    stages = every_stage(deployment.settings)
    topics = [
        *(name for topic in deployment.topics.specs for name in (topic, f"dlq.{topic}")),
        *(stage.changelog for stage in stages),
    ]
    groups = [*(stage.name for stage in stages), "ingest-jobcomp", "accounts", "energy.appdb_cache"]
    named = {rule.name + "x" for rule in access.rules() if rule.is_prefix}
    return [
        *((Resource.TOPIC, how, t) for t in topics for how in (Operation.READ, Operation.WRITE)),
        *((Resource.GROUP, Operation.READ, name) for name in sorted({*groups, *named})),
        *((Resource.TRANSACTIONAL_ID, Operation.WRITE, f"{s.name}.0") for s in stages),
        (Resource.TRANSACTIONAL_ID, Operation.WRITE, "nobodys"),
    ]


def allows(
    rules: list[AclRule], user: str, resource: Resource, operation: Operation, name: str
) -> bool:
    """What the table says."""
    return any(
        (rule.principal, rule.resource) == (user, resource)
        and rule.operation in (operation, Operation.ALL)
        and (name.startswith(rule.name) if rule.is_prefix else rule.name in (name, "*"))
        for rule in rules
    )


def test_each_service_may_at_kafka_what_the_rules_say_and_nothing_else(secured: Secured) -> None:
    rules, attempts = secured.access.rules(), every_attempt(secured.access)
    wrong, tried = [], 0
    for user in secured.access.principals:
        client = Attempts(Deployment.from_settings(secured.settings(user)))
        for resource, operation, name in attempts:
            refused = client.refused(resource, operation, name)
            if refused == allows(rules, user, resource, operation, name):
                wrong.append((user, operation, name, "refused" if refused else "allowed"))
            tried += 1
        client.close()
    assert not wrong
    assert tried > 15 * 80
    log = secured.servers.log("kafka").read_text()
    assert "Principal = User:finance is Denied" in log


async def denied(redis: Redis, *command: str) -> bool:
    """Whether this user may not do that; anything else that is wrong with it is no matter."""
    try:
        await redis.execute_command(*command)  # type: ignore[no-untyped-call]
    except NoPermissionError:
        return True
    except RedisError:
        return False
    return False


def test_each_service_may_at_redis_what_the_rules_say_and_nothing_else(secured: Secured) -> None:
    users = {user.name: user for user in secured.access.redis_users()}
    patterns = {key for user in users.values() for key in user.keys if user.name != "operator"}
    keys = sorted({key.split("~")[1].replace("*", "x") for key in patterns} | {"nobodys"})

    async def wrong_of(name: str) -> list[tuple[str, ...]]:
        found: list[tuple[str, ...]] = []
        async with redis_client(secured.settings(name)) as redis:
            for key in keys:
                mine = [k for k in users[name].keys if key.startswith(k.split("~")[1][:-1])]
                writes = any(k.startswith("~") for k in mine)
                for commands, may in ((_READING, bool(mine)), (_WRITING, writes)):
                    for verb, *rest in commands:
                        if await denied(redis, verb, key, *rest) == may:
                            found.append((name, verb, key))
            found += [(name, *one) for one in _NOBODYS if not await denied(redis, *one)]
        return found

    services = [name for name in users if name != "operator"]
    assert services == ["appdb-cache", "energy-api", "accounts"]
    assert [asyncio.run(wrong_of(name)) for name in services] == [[], [], []]


def test_what_is_missing_or_too_much_is_named(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in secured.environment("operator").items():
        monkeypatch.setenv(name, value)
    settings.cache_clear()
    admin = KafkaAdminClient(**Deployment.from_settings(settings()).connection)
    mine = AclRule("pricing", Resource.TOPIC, "prices.charges", Operation.WRITE)
    strange = AclRule("eve", Resource.TOPIC, "prices.", Operation.READ, is_prefix=True)
    delete(admin, mine)
    create(admin, strange)
    deployment = Deployment.from_settings(settings())
    try:
        found = examine_access(deployment)
        assert found[KAFKA] == [
            "missing: pricing may Write topic prices.charges: `coplace topics create --acls` "
            "creates it",
            "too much: eve may Read topic prices.*: delete it with kafka-acls",
        ]
        assert found[REDIS] == []
        mended = CliRunner().invoke(app, ["topics", "create", "--acls"])
        assert mended.stdout == "created pricing may Write topic prices.charges\n"
    finally:
        delete(admin, strange)
        admin.close()
    assert examine_access(deployment)[KAFKA] == []
    settings.cache_clear()


def create(admin: KafkaAdminClient, rule: AclRule) -> None:
    """Allow something by hand."""
    assert not admin.create_acls([acl_of(rule)])["failed"]


def delete(admin: KafkaAdminClient, rule: AclRule) -> None:
    """Take something away by hand."""
    acl = acl_of(rule)
    resource = acl.resource_pattern
    pattern = ResourcePatternFilter(
        resource.resource_type, resource.resource_name, resource.pattern_type
    )
    admin.delete_acls(
        [ACLFilter(acl.principal, acl.host, acl.operation, acl.permission_type, pattern)]
    )


def test_what_redis_allows_otherwise_is_named(secured: Secured) -> None:
    async def said(*change: str) -> list[str]:
        users = secured.access.redis_users()
        async with redis_client(secured.settings("operator")) as redis:
            assert not await denied(redis, "ACL", "SETUSER", *change)
            found = await differences(redis, users)
            await redis.acl_load()  # closes every connection
        async with redis_client(secured.settings("operator")) as redis:
            assert await differences(redis, users) == []
        return found

    lacking = ["accounts is not a user of Redis: create it by `coplace topics acls`"]
    assert asyncio.run(said("energy-api", "~accounts:*")) == [
        "energy-api has beyond its rules ~accounts:*"
    ]
    assert asyncio.run(said("accounts", "-hincrby")) == ["accounts lacks +hincrby"]
    assert asyncio.run(said("accounts", "off")) == lacking
    assert asyncio.run(said("default", "on", "nopass")) == [
        "a client without a name may do what default may: turn that user off"
    ]
