"""Partitions: sets of nodes of a cluster that jobs ask for by name, with limits."""

from dataclasses import dataclass
from typing import Final

from coplace_client.bounds import LENGTHS, NODES, WALLTIME_S
from coplace_client.checks import require_text
from coplace_client.errors import RejectedError
from shared.domain.hostlist import expand

# Characters of the host lists of one partition.
_MOST_TEXT: Final = 65_536


@dataclass(frozen=True, slots=True)
class Partition:
    """A set of nodes, as host lists; empty: all of the cluster. Raises RejectedError on
    construction.

    `most_walltime_s` and `most_nodes` are 0 where there is no limit; `accounts` and `users` are
    empty where all may use it. Jobs that name no partition are in those that are a `default`.
    """

    name: str
    nodes: tuple[str, ...] = ()
    most_walltime_s: float = 0.0
    most_nodes: int = 0
    exclusive: bool = False
    down: bool = False
    default: bool = False
    accounts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_text("partitions.name", self.name)
        WALLTIME_S.require_if_known("partitions.most_walltime_s", self.most_walltime_s)
        NODES.require_if_known("partitions.most_nodes", self.most_nodes)
        if sum(map(len, self.nodes)) > _MOST_TEXT:
            raise RejectedError("partitions.nodes", f"must be at most {_MOST_TEXT} characters")
        if self.nodes:
            expand(",".join(self.nodes))
        for field in ("accounts", "users"):
            names = getattr(self, field)
            LENGTHS["allowed"].require(f"partitions.{field}", len(names))
            for name in names:
                require_text(f"partitions.{field}", name)

    def admits(self, account: str, user: str) -> bool:
        """Return whether a user may use it for an account."""
        is_account = not self.accounts or account in self.accounts
        return is_account and (not self.users or user in self.users)
