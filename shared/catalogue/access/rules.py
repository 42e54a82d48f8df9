"""Who may do what at Kafka and Redis: rules that follow from `proto/topics` and
`proto/principals.yaml`. Pure: `access_control` and `redis_access` speak to the servers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from coplace_client.errors import UnusableError
from shared.catalogue.topics import DLQ_PREFIX, TOPIC_FILES, TopicSpec

PRINCIPALS_FILE: Final = TOPIC_FILES.parent / "principals.yaml"
OPERATOR: Final = "operator"
# How Kafka names every resource of a kind, and itself.
ANY_NAME: Final = "*"
# What Kafka Connect puts before its group's name to make its leader's transactional id.
CONNECT_LEADER: Final = "connect-cluster-"
CLUSTER_NAME: Final = "kafka-cluster"

_READING: Final = ("get", "hget", "hgetall", "hmget", "mget")
# The script of a read model, and the commands that it calls.
_WRITING: Final = ("del", "eval", "evalsha", "hincrby", "hset", "script|load", "set")
_CONNECTING: Final = ("ping",)
_EVERY_COMMAND: Final = "+@all"


class Resource(StrEnum):
    """What a rule of Kafka is about, as its own tools name it."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"
    CLUSTER = "cluster"
    DELEGATION_TOKEN = "delegation-token"
    USER = "user"


class Operation(StrEnum):
    """What may be done with it, as Kafka has it; READ and WRITE include to describe."""

    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DELETE = "Delete"
    ALTER = "Alter"
    DESCRIBE = "Describe"
    CLUSTER_ACTION = "ClusterAction"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    ALTER_CONFIGS = "AlterConfigs"
    IDEMPOTENT_WRITE = "IdempotentWrite"
    CREATE_TOKENS = "CreateTokens"
    DESCRIBE_TOKENS = "DescribeTokens"
    ALL = "All"


@dataclass(frozen=True, slots=True, order=True)
class AclRule:
    """An entry of Kafka's access control list that allows something; with `is_prefix` about all
    names that begin so."""

    principal: str
    resource: Resource
    name: str
    operation: Operation
    is_prefix: bool = False
    host: str = ANY_NAME

    def __str__(self) -> str:
        name = f"{self.name}*" if self.is_prefix else self.name
        where = "" if self.host == ANY_NAME else f" from {self.host}"
        return f"{self.principal} may {self.operation} {self.resource} {name}{where}"


@dataclass(frozen=True, slots=True)
class RedisUser:
    """A user of Redis: patterns of keys as ACL rules write them (`~`, or `%R~` to read alone), and
    the commands, each allowed by name."""

    name: str
    keys: tuple[str, ...]
    commands: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name} may in Redis {' '.join((*self.keys, *self.commands))}"

    @property
    def rules(self) -> tuple[str, ...]:
        """Return its ACL rules as Redis lists them, without a password."""
        nothing_else = () if _EVERY_COMMAND in self.commands else ("-@all",)
        return ("resetchannels", *nothing_else, *self.keys, *self.commands)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who connects: see `proto/principals.yaml`, which documents each field."""

    name: str
    stages: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    dead_letters: bool = False
    group_prefix: str = ""
    reads_rows: tuple[str, ...] = ()
    writes_rows: tuple[str, ...] = ()
    operates: bool = False
    mirrors: bool = False
    is_role: bool = False

    @property
    def consumers(self) -> tuple[str, ...]:
        """Return those of its names that are consumer groups."""
        return (*self.stages, *self.groups)

    @property
    def writers_of_dead_letters(self) -> tuple[str, ...]:
        """Return those of its names that write dead letters of what they read."""
        return self.called if self.dead_letters else self.consumers

    @property
    def called(self) -> tuple[str, ...]:
        """Return all of its names among producers and consumers."""
        return (*self.consumers, *self.names)


@cache
def load_principals(file: Path = PRINCIPALS_FILE) -> Mapping[str, Principal]:
    """Read every principal by name, once a process."""
    return {name: _parse(name, one) for name, one in yaml.safe_load(file.read_text()).items()}


def _parse(name: str, document: Mapping[str, Any]) -> Principal:
    given = dict(document)
    rows = given.pop("rows", {})
    plain: dict[str, Any] = {
        key: tuple(one) if isinstance(one, list) else one for key, one in given.items()
    }
    reads, writes = (tuple(rows.get(how, ())) for how in ("read", "write"))
    return Principal(name, reads_rows=reads, writes_rows=writes, **plain)


class Access:
    """What one deployment's principals may do: its `namespace` goes before the names of topics,
    groups, transactional ids, keys and users.

    `topics` say which stages read them (`read_by`), `clients` are the names of those outside with
    their role. Raises UnusableError for a role that does not exist, and for a client with the name
    of a service.
    """

    def __init__(
        self,
        topics: Mapping[str, TopicSpec],
        namespace: str = "",
        clients: Mapping[str, str] | None = None,
        principals: Mapping[str, Principal] | None = None,
    ) -> None:
        self._prefix = f"{namespace}." if namespace else ""
        self._topics = topics
        known = load_principals() if principals is None else principals
        self._roles = {name: one for name, one in known.items() if one.is_role}
        self._own = {name: one for name, one in known.items() if not one.is_role}
        self._clients = {name: self._role(name, role) for name, role in (clients or {}).items()}

    @property
    def principals(self) -> Mapping[str, Principal]:
        """Return the principals that connect, by the name that Kafka and Redis know."""
        every = {**self._own, **self._clients}
        return {self._prefix + name: one for name, one in every.items()}

    @property
    def roles(self) -> tuple[str, ...]:
        """Return what clients outside can be."""
        return tuple(self._roles)

    def rules(self) -> list[AclRule]:
        """Return every entry of Kafka's access control list, sorted."""
        return sorted(
            {rule for user, one in self.principals.items() for rule in self._rules(user, one)}
        )

    def redis_users(self) -> list[RedisUser]:
        """Return every user of Redis; a principal without keys there is none."""
        users = (self._redis_user(user, one) for user, one in self.principals.items())
        return [user for user in users if user.keys]

    def is_ours(self, rule: AclRule) -> bool:
        """Return whether a rule is about this deployment: its principals, or its resources."""
        if rule.principal in self.principals:
            return True
        if rule.resource is Resource.CLUSTER or not self._prefix:
            return rule.resource is not Resource.CLUSTER
        reaches = rule.is_prefix and self._prefix.startswith(rule.name)
        named = rule.name.removeprefix(CONNECT_LEADER)
        return reaches or rule.name == ANY_NAME or named.startswith(self._prefix)

    def is_of_a_role(self, rule: AclRule) -> bool:
        """Return whether some role allows it: clients outside are the operator's to name."""
        every = (r for one in self._roles.values() for r in self._rules(rule.principal, one))
        return rule in set(every)

    def _role(self, client: str, role: str) -> Principal:
        if role not in self._roles:
            raise UnusableError(f"{role} is not a role: give one of {', '.join(self._roles)}")
        if client in self._own:
            raise UnusableError(f"{client} is the name of a service: give the client another one")
        return self._roles[role]

    def _rules(self, user: str, one: Principal) -> Iterator[AclRule]:
        if one.operates:
            yield from self._of_operator(user)
        for spec in self._topics.values():
            yield from self._of_topic(user, one, spec)
        for name in one.consumers:
            yield self._rule(user, Resource.GROUP, name, Operation.READ)
        for name in one.stages:
            # One for each unit; more Kafka partitions need no new rule.
            yield self._rule(
                user, Resource.TRANSACTIONAL_ID, f"{name}.", Operation.WRITE, is_prefix=True
            )
            for operation in (Operation.READ, Operation.WRITE):
                yield self._rule(user, Resource.TOPIC, f"changelog.{name}", operation)
        if one.group_prefix:
            yield self._rule(user, Resource.GROUP, one.group_prefix, Operation.READ, is_prefix=True)
        if one.mirrors:
            yield from self._of_mirror(user)

    def _of_topic(self, user: str, one: Principal, spec: TopicSpec) -> Iterator[AclRule]:
        if set(one.called) & set(spec.producers):
            yield self._rule(user, Resource.TOPIC, spec.name, Operation.WRITE)
        if set(one.called) & set(spec.consumers):
            yield self._rule(user, Resource.TOPIC, spec.name, Operation.READ)
        if set(one.writers_of_dead_letters) & set(spec.consumers):
            yield self._rule(user, Resource.TOPIC, DLQ_PREFIX + spec.name, Operation.WRITE)

    def _of_mirror(self, user: str) -> Iterator[AclRule]:
        """Yield what exactly-once Kafka Connect needs of a group of its own (KIP-618)."""
        own = f"mirror.{user.removeprefix(self._prefix)}."
        for operation in (
            *(Operation.CREATE, Operation.READ, Operation.WRITE),
            # It looks whether its topics are compacted.
            Operation.DESCRIBE_CONFIGS,
        ):
            yield self._rule(user, Resource.TOPIC, own, operation, is_prefix=True)
        yield self._rule(user, Resource.GROUP, own, Operation.READ, is_prefix=True)
        yield self._rule(user, Resource.TRANSACTIONAL_ID, own, Operation.WRITE, is_prefix=True)
        leader = f"{CONNECT_LEADER}{self._prefix}{own}"
        yield AclRule(user, Resource.TRANSACTIONAL_ID, leader, Operation.WRITE, is_prefix=True)

    def _of_operator(self, user: str) -> Iterator[AclRule]:
        for resource in (Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID):
            yield AclRule(
                user, resource, self._prefix or ANY_NAME, Operation.ALL, bool(self._prefix)
            )
        for operation in (Operation.ALTER, Operation.DESCRIBE):
            yield AclRule(user, Resource.CLUSTER, CLUSTER_NAME, operation)

    def _rule(
        self,
        user: str,
        resource: Resource,
        name: str,
        operation: Operation,
        *,
        is_prefix: bool = False,
    ) -> AclRule:
        return AclRule(user, resource, self._prefix + name, operation, is_prefix)

    def _redis_user(self, user: str, one: Principal) -> RedisUser:
        if one.operates:
            return RedisUser(user, (f"~{self._prefix}*",), (_EVERY_COMMAND,))
        positions = [
            f"{what}:{spec.name}:*"
            for spec in self._topics.values()
            if one.writes_rows and set(one.consumers) & set(spec.consumers)
            for what in ("applied", "failures", "position")
        ]
        written = [f"~{self._prefix}{key}" for key in (*one.writes_rows, *positions)]
        read = [f"%R~{self._prefix}{key}" for key in one.reads_rows]
        commands = sorted({*_CONNECTING, *_READING, *(_WRITING if written else ())})
        return RedisUser(user, (*written, *read), tuple(f"+{command}" for command in commands))


def kafka_commands(rules: Iterable[AclRule]) -> Iterator[str]:
    """Yield the rules as arguments of Kafka's own tool, a line each."""
    for rule in rules:
        pattern = "prefixed" if rule.is_prefix else "literal"
        what = (
            "--cluster"
            if rule.resource is Resource.CLUSTER
            else f"--{rule.resource} '{rule.name}' --resource-pattern-type {pattern}"
        )
        yield (
            "kafka-acls.sh --bootstrap-server $BROKER --command-config $ADMIN --add "
            f"--allow-principal 'User:{rule.principal}' --operation {rule.operation} {what}"
        )


def strimzi_users(rules: Sequence[AclRule], cluster: str) -> list[dict[str, Any]]:
    """Return the rules as Strimzi's KafkaUser resources for the Kafka of this name; the names of
    users have to be names of Kubernetes."""
    of_user: dict[str, list[AclRule]] = {}
    for rule in sorted(rules):
        of_user.setdefault(rule.principal, []).append(rule)
    return [_strimzi_user(user, of, cluster) for user, of in of_user.items()]


def _strimzi_user(user: str, rules: Sequence[AclRule], cluster: str) -> dict[str, Any]:
    by_resource: dict[tuple[Resource, str, bool], list[str]] = {}
    for rule in rules:
        of = by_resource.setdefault((rule.resource, rule.name, rule.is_prefix), [])
        of.append(rule.operation.value)
    return {
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "KafkaUser",
        "metadata": {"name": user, "labels": {"strimzi.io/cluster": cluster}},
        "spec": {
            "authentication": {"type": "scram-sha-512"},
            "authorization": {
                "type": "simple",
                "acls": [
                    {"resource": _strimzi_resource(*of), "operations": operations}
                    for of, operations in by_resource.items()
                ],
            },
        },
    }


def _strimzi_resource(resource: Resource, name: str, is_prefix: bool) -> dict[str, str]:
    if resource is Resource.CLUSTER:
        return {"type": "cluster"}
    kind = "transactionalId" if resource is Resource.TRANSACTIONAL_ID else resource.value
    return {"type": kind, "name": name, "patternType": "prefix" if is_prefix else "literal"}


def redis_commands(users: Iterable[RedisUser]) -> Iterator[str]:
    """Yield users of Redis as commands for it; the passwords are the operator's to give."""
    for user in users:
        rules = " ".join(user.rules)
        yield f"ACL SETUSER {user.name} on resetkeys -@all {rules}"
