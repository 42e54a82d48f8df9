"""Commands as changes: what each sets, what that was before and what it is after. Pure.

Of one subject the changes have an order: event time and id, by which the owners of commands choose
the newer one; of tables of authority that of their topic, since only the next version counts. What
one leaves is what the next one finds.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

import orjson
from coplace.v1.accounts_pb2 import PeriodClosed
from coplace.v1.authority_pb2 import AuthorityDeclared
from coplace.v1.control_pb2 import (
    COMMAND_RESULT_EARLY,
    COMMAND_RESULT_REFUSED,
    COMMAND_RESULT_UNSPECIFIED,
    LicencesDeclared,
    ModelRolledBack,
    NodesDrained,
    NodesResumed,
    PairsAllowed,
    PolicyDeclared,
    ReservationRemoved,
)
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobCancelled, JobHeld, JobReleased, JobRequeueAsked, JobSeized
from coplace.v1.plans_pb2 import PlanProposed
from coplace.v1.pricing_pb2 import RepriceAsked
from coplace.v1.tariffs_pb2 import TariffDeclared
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message

from coplace_client.errors import RejectedError
from shared.authority.table import AuthorityTable, TableInForce
from shared.catalogue.event import Event
from shared.catalogue.event_json import data_of
from shared.catalogue.options import owners, rule_of
from shared.catalogue.policy_declarations import names_in
from shared.catalogue.schemas import MESSAGES, descriptor_of, names_of
from shared.domain.hostlist import expand

_OPERATOR: Final = "operator"
# What each is of, where no option of its message says it (`sets`), or one says more: words, and
# names of its fields.
_SUBJECTS: Final[Mapping[type[Message], tuple[str, ...]]] = {
    AuthorityDeclared: ("authority",),
    JobCancelled: ("job", "job_id"),
    JobHeld: ("hold", "job_id"),
    JobReleased: ("hold", "job_id"),
    JobRequeueAsked: ("job", "job_id"),
    JobSeized: ("job", "job_id"),
    ModelRolledBack: ("model", "model"),
    NodesDrained: ("drains", "cluster"),
    NodesResumed: ("drains", "cluster"),
    PairsAllowed: ("pairs", "node_model", "app_id", "co_runner_app_id"),
    PeriodClosed: ("period",),
    PlanProposed: ("plan",),
    RepriceAsked: ("charge", "charge.job_id", "charge.attempt"),
    TariffDeclared: ("tariff", "name"),
}
_ANY: Final = "*"
_MOST_ID: Final = 256
_NOT_IN_FORCE: Final = (COMMAND_RESULT_REFUSED, COMMAND_RESULT_EARLY)
_ACTIONS: Final[Mapping[str, str]] = {
    field.message_type.full_name: field.name
    for field in descriptor_of(Envelope).oneofs_by_name["payload"].fields
    if field.message_type is not None
}


def kinds() -> frozenset[str]:
    """Return the full names of all messages that change something: commands, and what operators
    alone may send."""
    rules = {name: rule_of(descriptor_of(message)) for name, message in MESSAGES.items()}
    of_operators = (name for name, rule in rules.items() if list(rule.roles) == [_OPERATOR])
    return frozenset([*owners(), *of_operators])


CHANGES: Final = kinds()


class OutcomeRow(NamedTuple):
    """What came of a command, as in the table `outcomes`."""

    id: str
    result: int
    reason: str


_UNKNOWN: Final = OutcomeRow("", COMMAND_RESULT_UNSPECIFIED, "")


class ChangeRow(NamedTuple):
    """One thing that a command sets, as in the table `changes`. `declared`, `before` and `after`
    are JSON."""

    event_id: str
    number: int
    subject: str
    sequence: int
    at_us: int
    who: str
    action: str
    declared: str
    before: str = ""
    after: str = ""
    result: int = COMMAND_RESULT_UNSPECIFIED
    reason: str = ""

    @property
    def order(self) -> tuple[int, int, str, int]:
        """Return its place among the changes of its subject."""
        return self.sequence, self.at_us, self.event_id, self.number


def entry_id(name: str) -> str:
    """Return the id of an event, a subject, or who is in the audit, as tables have it: the longest
    do not fit into an index, and end with their digest."""
    if len(name) <= _MOST_ID:
        return name
    digest = sha256(name.encode()).hexdigest()
    return f"{name[: _MOST_ID - len(digest)]}{digest}"


def changes_of(event: Event, offset: int) -> list[ChangeRow]:
    """Return what a command sets, at its offset in its topic."""
    sequence = offset if isinstance(event.payload, AuthorityDeclared) else 0
    action = _ACTIONS[event.type]
    return [
        ChangeRow(
            *(entry_id(event.id), number, entry_id(subject), sequence, event.time_us),
            *(event.source, action, _text(declared)),
        )
        for number, (subject, declared) in enumerate(_declared(event.payload))
    ]


def _declared(payload: Message) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each subject with what is declared of it."""
    data = data_of(payload)
    if isinstance(payload, PolicyDeclared):
        yield from _settings(payload, data)
        return
    if isinstance(payload, PlanProposed):
        # What it is made of is in its topic: a planner proposes thousands a day.
        data["items"] = len(payload.items)
    rule = rule_of(descriptor_of(payload))
    words = _SUBJECTS.get(type(payload)) or (rule.sets, *rule.of)
    for field in words[1:]:
        data.pop(field.partition(".")[0], None)
    found = [_value(payload, field) for field in words[1:]]
    # What is of the region names nothing more; of pairs an empty name is any.
    of = [value or _ANY for value in found] if not rule.sets else filter(None, found)
    yield " ".join([words[0], *of]), data


def _settings(payload: PolicyDeclared, data: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """A declaration may name several settings, each a subject of its own."""
    values = {**data, **{each.name: each.value for each in payload.settings}}
    why = {name: data[name] for name in ("reason", "declared_at_us") if name in data}
    for name in names_in(payload):
        is_reset = name in payload.reset
        yield f"policy {name}", {"reset": True} | why if is_reset else {"value": values[name]} | why


def _value(payload: Message, field: str) -> str:
    name, _, inner = field.partition(".")
    value = getattr(payload, name)
    if inner:
        return _value(value, inner)
    kind = descriptor_of(payload).fields_by_name[name].enum_type
    if kind is None:
        return str(value)
    if not value:
        return ""
    # Of `POWER_SCOPE_CLUSTER` the last word.
    known = kind.values_by_number.get(value)
    return known.name.rpartition("_")[2].lower() if known else str(value)


def followed(
    before: str, rows: Iterable[ChangeRow], outcomes: Mapping[str, OutcomeRow]
) -> Iterator[ChangeRow]:
    """Yield changes of one subject, which are in their order, with what it was before and after
    each; `before` is what the change before them has left."""
    for row in rows:
        _, result, reason = outcomes.get(row.event_id, _UNKNOWN)
        after = before
        if result not in _NOT_IN_FORCE:
            try:
                after = _AFTER.get(row.action, _replaced)(before, row)
            except RejectedError as error:
                result, reason = COMMAND_RESULT_REFUSED, str(error)
        yield row._replace(before=before, after=after, result=result, reason=reason)
        before = after


def _replaced(_before: str, row: ChangeRow) -> str:
    return row.declared


def _removed(_before: str, _row: ChangeRow) -> str:
    return ""


def _counted(_before: str, row: ChangeRow) -> str:
    """Return nothing where a name is removed, which goes without a count."""
    return row.declared if "count" in orjson.loads(row.declared) else ""


def _drained(before: str, row: ChangeRow) -> str:
    found, said = _drains(before), orjson.loads(row.declared)
    drain = {"by": row.who, **{name: value for name, value in said.items() if name != "nodes"}}
    names = _names(said)
    if not names:
        found = {name: each for name, each in found.items() if each is not None}
    found |= dict.fromkeys(names or (_ANY,), drain)
    return _drains_text(found)


def _resumed(before: str, row: ChangeRow) -> str:
    found = _drains(before)
    names = _names(orjson.loads(row.declared))
    for name in names:
        found.pop(name, None)
        if _ANY in found:
            found[name] = None
    return _drains_text(found if names else {})


def _names(declared: Mapping[str, Any]) -> list[str]:
    return [name for hosts in declared.get("nodes", ()) for name in expand(hosts)]


# By node, or all, its drain; None: it takes jobs although all others are drained.
_Drains = dict[str, Mapping[str, Any] | None]


def _drains(text: str) -> _Drains:
    found = orjson.loads(text or "{}")
    drains: _Drains = {
        name: {key: value for key, value in drain.items() if key != "nodes"}
        for drain in found.get("drained", ())
        for name in drain.get("nodes", (_ANY,))
    }
    return drains | dict.fromkeys(found.get("resumed", ()))


def _drains_text(drains: _Drains) -> str:
    """Nodes that are drained alike are listed together; a drain without nodes is of all."""
    alike: dict[str, list[str]] = {}
    for name in sorted(drains):
        drain = drains[name]
        if drain is not None:
            alike.setdefault(_text(drain), []).append(name)
    drained = [
        orjson.loads(drain) | ({} if names == [_ANY] else {"nodes": names})
        for drain, every in alike.items()
        for names in ([_ANY] if _ANY in every else [], [each for each in every if each != _ANY])
        if names
    ]
    resumed = sorted(name for name, drain in drains.items() if drain is None)
    return _text({"drained": drained} | ({"resumed": resumed} if resumed else {}))


def _authority(before: str, row: ChangeRow) -> str:
    """Raises RejectedError for a table that is not the next valid one."""
    table = TableInForce()
    if before:
        table.now = AuthorityTable.from_message(_table(before))
    table.successor(_table(row.declared), row.who.split("/")[0])
    return row.declared


def _table(text: str) -> AuthorityDeclared:
    return ParseDict(orjson.loads(text), AuthorityDeclared())


def _text(data: Any) -> str:
    return orjson.dumps(data).decode()


_AFTER: Final[Mapping[str, Callable[[str, ChangeRow], str]]] = {
    _ACTIONS[kind]: after
    for message, after in (
        (NodesDrained, _drained),
        (NodesResumed, _resumed),
        (ReservationRemoved, _removed),
        (LicencesDeclared, _counted),
        (AuthorityDeclared, _authority),
    )
    for kind in names_of(message)
}
