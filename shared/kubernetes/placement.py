"""What placement knows of clusters and nodes."""

import asyncio
from typing import Any, Final

import grpc
import structlog
from coplace.v1.placement_service_pb2 import (
    ExplainRequest,
    ExplainResponse,
    ListClustersRequest,
    ShowNodesRequest,
    ShowNodesResponse,
)
from coplace.v1.placement_service_pb2_grpc import PlacementServiceStub

from coplace_client.channels import grpc_aio_channel
from shared.process.settings import Settings

_CALL_S: Final = 30.0
_LOOK_S: Final = 1.0
_EXPLAIN_S: Final = 2.0

log = structlog.get_logger(__name__)


class PlacementClient:
    """Asks until it is answered."""

    def __init__(self, address: str, settings: Settings) -> None:
        self._address, self._settings = address, settings

    async def knows(self, clusters: frozenset[str]) -> None:
        """Return when all clusters are declared: before that placement rejects their jobs."""
        while True:
            answer = await self._asked("ListClusters", ListClustersRequest())
            if clusters <= {each.name for each in answer.clusters}:
                return
            await asyncio.sleep(_LOOK_S)

    async def round_us(self) -> int:
        """Return when the round of placement's that ended last did; 0 where it does not say so at
        once."""
        async with grpc_aio_channel(self._address, self._settings) as channel:
            call = PlacementServiceStub(channel).ListClusters
            try:
                answer = await call(ListClustersRequest(), timeout=_EXPLAIN_S)
            except grpc.aio.AioRpcError as error:
                log.warning("placement does not answer", code=error.code().name)
                return 0
        return int(answer.as_of_us)

    async def nodes(self, cluster: str) -> ShowNodesResponse:
        """Return the states of the nodes of a cluster."""
        answer: ShowNodesResponse = await self._asked(
            "ShowNodes", ShowNodesRequest(cluster=cluster)
        )
        return answer

    async def explain(self, job_id: str) -> ExplainResponse | None:
        """Return why a job waits, and when it is expected to start; None where placement does not
        say so at once."""
        async with grpc_aio_channel(self._address, self._settings) as channel:
            request = ExplainRequest(job_id=job_id)
            try:
                answer: ExplainResponse = await PlacementServiceStub(channel).Explain(
                    request, timeout=_EXPLAIN_S
                )
            except grpc.aio.AioRpcError as error:
                log.info("not explained", job=job_id, code=error.code().name)
                return None
        return answer

    async def _asked(self, method: str, request: Any) -> Any:
        while True:
            async with grpc_aio_channel(self._address, self._settings) as channel:
                call = getattr(PlacementServiceStub(channel), method)
                try:
                    return await call(request, timeout=_CALL_S)
                except grpc.aio.AioRpcError as error:
                    log.warning("placement does not answer", code=error.code().name)
            await asyncio.sleep(_LOOK_S)
