"""The clusters of a file: how to reach them, and what their nodes are."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import Field

from coplace_client.errors import CannotStartError, UnusableError
from shared.kubernetes.access import as_pod, by_kubeconfig
from shared.kubernetes.connection import ApiConnection
from shared.kubernetes.nodes import NodeTraits
from shared.process.node_entries import NodesEntry


class ClusterEntry(NodesEntry):
    """One cluster of the file."""

    kubeconfig: Path | None = Field(None, description="Else that of the pod's service account")
    context: str = Field("", description="Of the kubeconfig; its current one")
    node_selector: str = Field("", description="Labels of the nodes that Jobs may have; all")

    def traits(self, site: str, architecture: str) -> NodeTraits:
        """Return what Kubernetes does not know of its nodes."""
        return NodeTraits(
            cluster=self.name,
            site=site,
            node_model=self.node_model,
            pstates_ghz=self.pstates_ghz,
            idle_power_w=self.idle_power_w,
            peak_bandwidth_gbps=self.peak_bandwidth_gbps,
            architecture=architecture,
            tdp_w=self.tdp_w,
            nameplate_power_w=self.nameplate_power_w,
            processors_tdp_w=self.processors_tdp_w,
        )


@asynccontextmanager
async def api_client(
    name: str, kubeconfig: Path | None, context: str
) -> AsyncIterator[ApiConnection]:
    """Yield the connections to the API server of a cluster, by its kubeconfig or as the pod that
    this process is in. Raises CannotStartError."""
    try:
        found = as_pod() if kubeconfig is None else by_kubeconfig(kubeconfig, context)
        await found.credentials.authorization()
    except UnusableError as error:
        advice = "set its kubeconfig and context in the file of clusters"
        raise CannotStartError(f"cluster {name}: {error}: {advice}") from error
    async with ApiConnection(found) as client:
        yield client


def labels_of(cluster: ClusterEntry) -> dict[str, str]:
    """Return the labels that all nodes of a cluster have, as far as its selector says `key=value`:
    what else it says no node selector of pods can."""
    pairs = (each.partition("=") for each in cluster.node_selector.split(","))
    return {
        name.strip(): value.lstrip("=").strip()
        for name, sign, value in pairs
        if sign and name.strip() and not name.strip().endswith("!")
    }
