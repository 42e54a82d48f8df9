"""One line of the table of authority: an identity, its role, and of what it has it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final

from coplace_client.checks import require_text
from coplace_client.errors import RejectedError

EVERY: Final = "*"
# What other pattern languages give a meaning: here it is refused rather than read as text.
_NO_PATTERN: Final = "?[]{}\\"
_MOST_PATTERNS: Final = 1_000


class Role(StrEnum):
    """What an identity may do at all."""

    VIEWER = "viewer"
    USER = "user"
    OPERATOR = "operator"
    BILLING = "billing"
    RESOURCE_MANAGER = "resource-manager"
    AGENT = "agent"


# The lists by which each role may be limited; of one at least it must name something.
_LIMITED_BY: Final = {
    Role.VIEWER: ("sites", "clusters", "accounts", "users"),
    Role.USER: ("accounts", "users", "jobs"),
    Role.OPERATOR: ("sites", "clusters", "accounts", "users", "jobs"),
    Role.BILLING: ("accounts",),
    Role.RESOURCE_MANAGER: ("sites", "clusters", "accounts", "jobs"),
    Role.AGENT: ("sites", "clusters", "jobs"),
}
# Roles that have a scope of places.
_OF_PLACES: Final = (Role.OPERATOR, Role.RESOURCE_MANAGER, Role.AGENT)


@dataclass(frozen=True, slots=True)
class SitedCluster:
    """A cluster, and the site that it is declared of; empty where it is not declared."""

    name: str
    site: str = ""

    def __str__(self) -> str:
        return f"cluster {self.name!r}" + (f" of site {self.site!r}" if self.site else "")


@dataclass(frozen=True, slots=True)
class Binding:
    """An identity has a role of what the patterns name, in which * matches any text.

    Raises RejectedError, naming the field, for an invalid pattern, for a list that means
    nothing to the role, and for a role with an empty scope.
    """

    who: str
    role: Role
    sites: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_text("who", self.who)
        if "/" in self.who or EVERY in self.who:
            problem = "must be a name without / and *: what is below it (north/alpha) is its too"
            raise RejectedError("who", f"{problem}, got {self.who[:40]!r}")
        for name in ("sites", "clusters", "accounts", "users", "jobs"):
            self._check(name, getattr(self, name))
        if self.role in _OF_PLACES and not self.sites + self.clusters:
            raise RejectedError("sites", f"must name what {self.who!r} is {self.role} of")
        if self.role in (Role.VIEWER, Role.BILLING) and not self._patterns():
            lists = ", ".join(_LIMITED_BY[self.role])
            raise RejectedError("role", f"{self.role} needs one of {lists}")

    def _check(self, name: str, patterns: tuple[str, ...]) -> None:
        if patterns and name not in _LIMITED_BY[self.role]:
            lists = ", ".join(_LIMITED_BY[self.role])
            raise RejectedError(
                name, f"do not limit the role {self.role}: leave them out, or limit it by {lists}"
            )
        if len(patterns) > _MOST_PATTERNS:
            raise RejectedError(name, f"must be at most {_MOST_PATTERNS}, got {len(patterns)}")
        for number, pattern in enumerate(patterns):
            _require_pattern(f"{name}[{number}]", pattern)

    def _patterns(self) -> tuple[str, ...]:
        return (*self.sites, *self.clusters, *self.accounts, *self.users, *self.jobs)

    @property
    def is_of_region(self) -> bool:
        """Return whether it is of all sites there are and will be."""
        return EVERY in self.sites

    def covers(self, cluster: SitedCluster) -> bool:
        """Return whether it covers a cluster, by its name or by its site."""
        by_site = self.is_of_region or self.has_site(cluster.site)
        return by_site or _is_one(cluster.name, self.clusters)

    def has_site(self, site: str) -> bool:
        """Return whether it covers all of a site."""
        return _is_one(site, self.sites)

    def charges(self, account: str) -> bool:
        """Return whether it may have an account charged, limit it or ask about it."""
        return _is_one(account, self.accounts) or (self.is_of_region and not self.accounts)

    def speaks_for(self, user: str) -> bool:
        """Return whether it speaks for a user, or may limit or ask about this one."""
        if self.role is Role.USER:
            return _is_one(user, self.users or (self.who,))
        return _is_one(user, self.users) or (self.is_of_region and not self.users)

    def owns(self, job_id: str) -> bool:
        """Return whether jobs of this id are its own."""
        return _is_one(job_id, self.jobs or [f"{site}/*" for site in self.sites])


def _is_one(text: str, patterns: Iterable[str]) -> bool:
    return bool(text) and any(fnmatchcase(text, pattern) for pattern in patterns)


def _require_pattern(field: str, pattern: str) -> None:
    require_text(field, pattern)
    if found := [sign for sign in _NO_PATTERN if sign in pattern]:
        problem = f"must be a name in which * matches any text, got {found[0]} in"
        raise RejectedError(field, f"{problem} {pattern[:40]!r}")
