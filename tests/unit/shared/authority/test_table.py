"""Which declaration of a table counts."""

from contextlib import suppress

import pytest
from coplace.v1.authority_pb2 import AuthorityDeclared, RoleBinding
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.authority.binding import Binding, Role
from shared.authority.rules import About
from shared.authority.table import AuthorityTable, TableInForce, message_of
from shared.catalogue.event import Event

_NOW_US = 1_767_225_600_000_000
_REGION = About(is_region=True)
OLGA = Binding("olga", Role.OPERATOR, sites=("*",))
OTTO = Binding("otto", Role.OPERATOR, sites=("*",))
NORA = Binding("nora", Role.OPERATOR, sites=("north",))


def declared(version: int, source: str, *bindings: Binding) -> Event:
    message = message_of(version, bindings, "", _NOW_US)
    return Event(f"{source}/{version}", source, _NOW_US, "region", message)


def in_force(*events: Event) -> TableInForce:
    """What comes of them, as a door folds them."""
    found = TableInForce()
    for event in events:
        with suppress(RejectedError):
            found.fold(event)
    return found


def test_a_message_says_the_whole_table() -> None:
    binding = Binding("n", Role.OPERATOR, ("a",), ("b",), ("c",), ("d",), ("e*",))
    users = [Binding(role, role, sites=("s",)) for role in (Role.AGENT, Role.RESOURCE_MANAGER)]
    table = AuthorityTable.from_message(message_of(3, [binding, *users], "", _NOW_US))
    assert (table.version, table.bindings) == (3, (binding, *users))
    assert not table.may("", "ShowPower", About()).is_allowed


def test_the_first_table_is_of_who_can_change_it() -> None:
    assert in_force(declared(1, "olga", OLGA)).version == 1
    assert in_force(declared(1, "olga/console", OLGA)).version == 1
    assert in_force(declared(1, "nora", OLGA, NORA)).version == 0
    assert in_force(declared(1, "mallory", OLGA)).version == 0


def test_a_table_is_changed_by_an_operator_of_all_sites_who_stays_one() -> None:
    first = declared(1, "olga", OLGA, NORA)
    assert in_force(first, declared(2, "olga", OLGA, OTTO)).version == 2
    promoted = Binding("nora", Role.OPERATOR, sites=("*",))
    assert in_force(first, declared(2, "nora", OLGA, promoted)).version == 1
    assert in_force(first, declared(2, "olga", OTTO)).version == 1
    handed_over = [declared(2, "olga", OLGA, OTTO), declared(3, "otto", OTTO)]
    assert in_force(first, *handed_over).version == 3
    both = [declared(2, "olga", OLGA, OTTO), declared(2, "olga", OLGA)]
    assert in_force(first, *both).declared == both[0], "of two at once one counts"


_EVENTS = st.builds(
    declared,
    st.integers(0, 4),
    st.sampled_from(["olga", "otto", "nora", "mallory"]),
    st.sampled_from([OLGA, NORA]),
    st.sampled_from([OLGA, OTTO]),
)


@given(st.lists(_EVENTS, max_size=12))
def test_whatever_is_declared_somebody_can_change_it_and_versions_follow(
    events: list[Event],
) -> None:
    found = TableInForce()
    for event in events:
        before = found.version
        try:
            found.fold(event)
        except RejectedError:
            assert found.version == before
            continue
        assert found.version == before + 1
        assert found.now is not None
        assert found.now.may(event.source, "authority_declared", _REGION).is_allowed


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (AuthorityDeclared(), "version"),
        (AuthorityDeclared(version=1), "bindings"),
        (AuthorityDeclared(version=1, bindings=[RoleBinding(who="x")]), "bindings[0].role"),
    ],
)
def test_what_is_no_table_is_refused_with_the_field(message: AuthorityDeclared, field: str) -> None:
    with pytest.raises(RejectedError) as error:
        AuthorityTable.from_message(message)
    assert error.value.field == field
