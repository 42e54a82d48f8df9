"""Who is there, what each has, and the table of authority that says so."""

from dataclasses import dataclass
from typing import Final

from shared.authority.binding import Binding, Role

OPERATOR: Final = "chaos"
BILLING: Final = "till"
VIEWER: Final = "guest"
STRANGER: Final = "nobody"


@dataclass(frozen=True, slots=True)
class User:
    """A user that submits by a portal, whose users share a pattern of job ids."""

    name: str
    site: str
    account: str

    @property
    def portal(self) -> str:
        """What the ids of its jobs begin with."""
        return f"{self.site}/portal"


SITES: Final = ("north", "south", "west")
# The clusters that are there from the beginning, each with its site and so many nodes.
CLUSTERS: Final = {
    "alpha": ("north", 6),
    "beta": ("north", 3),
    "sigma": ("south", 6),
    "omega": ("west", 4),
}
# How many clusters a site may declare here.
MOST_CLUSTERS: Final = 8
USERS: Final = (
    User("ada", "north", "north-phys"),
    User("ben", "north", "north-bio"),
    User("cyd", "south", "south-phys"),
    User("dan", "south", "south-bio"),
    User("eve", "west", "west-phys"),
)


def agents_of(site: str) -> str:
    """The identity of a site's node agents."""
    return f"{site}-agents"


def accounts_of(site: str) -> tuple[str, ...]:
    """The accounts of a site."""
    return (f"{site}-phys", f"{site}-bio")


def identity_of(source: str) -> str:
    """Who shows the credential of a source."""
    return source.partition("/")[0]


def role_of(source: str) -> str:
    """What a credential is, for counts of acts."""
    return next((str(each.role) for each in BINDINGS if each.who == identity_of(source)), "none")


BINDINGS: Final = (
    Binding(OPERATOR, Role.OPERATOR, sites=("*",)),
    Binding(BILLING, Role.BILLING, accounts=("*",)),
    Binding(VIEWER, Role.VIEWER, sites=("north",)),
    *(
        Binding(site, Role.RESOURCE_MANAGER, sites=(site,), accounts=(f"{site}-*",))
        for site in SITES
    ),
    *(Binding(agents_of(site), Role.AGENT, sites=(site,)) for site in SITES),
    *(
        Binding(user.name, Role.USER, accounts=(user.account,), jobs=(f"{user.portal}/*",))
        for user in USERS
    ),
)
