"""What a binding covers, and which are invalid."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.authority.binding import Binding, Role, SitedCluster

_NAMES = st.text("abcdefgh-.", min_size=1, max_size=12)


@given(_NAMES, _NAMES)
def test_a_name_without_a_star_is_itself_alone(one: str, other: str) -> None:
    binding = Binding("who", Role.OPERATOR, sites=(one,))
    assert binding.has_site(other) == (one == other)
    assert binding.covers(SitedCluster("c", other)) == (one == other)


@given(_NAMES, st.text("abcdefgh-./", max_size=12))
def test_a_star_matches_any_text(prefix: str, rest: str) -> None:
    binding = Binding("who", Role.RESOURCE_MANAGER, sites=("s",), jobs=(f"{prefix}*",))
    assert binding.owns(prefix + rest)
    assert not binding.owns(f"x{prefix}{rest}") or f"x{prefix}{rest}".startswith(prefix)


def test_nothing_is_covered_for_want_of_a_name() -> None:
    """A cluster that is not declared is of no site, and a job that is not known of no user."""
    binding = Binding("who", Role.OPERATOR, sites=("**",), accounts=("*",), users=("*",))
    assert not binding.covers(SitedCluster("new"))
    assert not binding.charges("")
    assert not binding.speaks_for("")


def test_jobs_are_those_of_its_sites_and_a_user_is_itself_unless_others_are_named() -> None:
    assert Binding("ada", Role.USER).speaks_for("ada")
    assert not Binding("ada", Role.USER).speaks_for("bob")
    assert not Binding("ada@north", Role.USER, users=("ada",)).speaks_for("ada@north")
    assert Binding("n", Role.RESOURCE_MANAGER, sites=("north",)).owns("north/alpha/1")
    assert not Binding("n", Role.RESOURCE_MANAGER, sites=("north",)).owns("northern/alpha/1")
    assert not Binding("n", Role.RESOURCE_MANAGER, clusters=("alpha",)).owns("north/alpha/1")
    named = Binding("n", Role.RESOURCE_MANAGER, sites=("north",), jobs=("n/*",))
    assert not named.owns("north/alpha/1")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"who": ""}, "who"),
        ({"who": "north/alpha"}, "who"),
        ({"who": "*"}, "who"),
        ({"sites": ("nor[th",)}, "sites[0]"),
        ({"sites": ("ok", "n?")}, "sites[1]"),
        ({"sites": ("",)}, "sites[0]"),
        ({"sites": ()}, "sites"),
        ({"users": ("ada",)}, "users"),
        ({"role": Role.BILLING}, "sites"),
        ({"role": Role.VIEWER, "sites": ()}, "role"),
        ({"role": Role.USER}, "sites"),
        ({"accounts": ("a",) * 1001}, "accounts"),
    ],
)
def test_what_is_no_binding_is_refused_with_the_field(
    changes: dict[str, object], field: str
) -> None:
    whole = {"who": "north", "role": Role.RESOURCE_MANAGER, "sites": ("north",)}
    with pytest.raises(RejectedError) as error:
        Binding(**{**whole, **changes})  # type: ignore[arg-type]
    assert error.value.field == field
