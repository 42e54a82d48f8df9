"""The home cluster, as an executor may use it: its own namespace there."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from services.kubernetes.adapters.assigned import LEASE, assignments_path, path_of_kind
from services.kubernetes.model.assignments import assignment_name
from services.kubernetes.model.bodies import Body
from services.kubernetes.model.executor_nodes import PLURAL
from services.kubernetes.model.jobs import JobKey
from shared.kubernetes.api import ApiServer
from shared.kubernetes.connection import ApiConnection
from shared.kubernetes.leases import LeaseName, renew

HOME: Final = "home"
"""What an executor calls the home cluster: it does not know how that calls itself."""


def nodes_path(namespace: str) -> str:
    """Return where the nodes are that an executor reports."""
    return path_of_kind(namespace, PLURAL)


class HomeServer(ApiServer):
    """Of the executor of a cluster, whose `namespace` it is."""

    def __init__(
        self,
        cluster: str,
        client: ApiConnection,
        namespace: str,
        refused: Callable[[str], object] = str,
    ) -> None:
        super().__init__(HOME, client, refused)
        self._holder, self._lease = cluster, LeaseName(namespace, LEASE)
        self.assignments, self._nodes = assignments_path(namespace), nodes_path(namespace)

    async def get_assignment(self, key: JobKey) -> Mapping[str, Any]:
        """Return an assignment as it is now."""
        return await self.read(self._assignment(key))

    async def say(self, key: JobKey, body: Body) -> Mapping[str, Any]:
        """Merge into the status of an assignment; returns what it is then."""
        return await self.merge(f"{self._assignment(key)}/status", body)

    async def nodes(self) -> Sequence[Mapping[str, Any]]:
        """Return the nodes that were reported."""
        return (await self.list(self._nodes, ""))[0]

    async def create_node(self, body: Body) -> Mapping[str, Any]:
        """Report a node."""
        return await self.add(self._nodes, body)

    async def patch_node(self, name: str, body: Body) -> Mapping[str, Any]:
        """Merge into what was reported of a node; returns what that is then."""
        return await self.merge(f"{self._nodes}/{quote(name)}", body)

    async def delete_node(self, name: str) -> None:
        """Take back that a node is there."""
        await self.remove(f"{self._nodes}/{quote(name)}", {})

    async def renew(self, lasts_s: int) -> None:
        """Say that the executor goes on, and that its cluster answers."""
        await renew(self, self._lease, self._holder, lasts_s)

    def _assignment(self, key: JobKey) -> str:
        return f"{self.assignments}/{quote(assignment_name(key))}"
