"""The gRPC service: asks the cache, projects, answers."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol

import grpc
from coplace.v1.energy_pb2 import CoefficientsPublished, SignatureUpdated
from coplace.v1.energy_service_pb2 import ProjectResponse
from grpc.aio import ServicerContext

from coplace_client.errors import RejectedError
from coplace_client.signature import Signature
from services.energy.api.meter import EnergyApiMeter
from services.energy.api.model import Rows, answer
from services.energy.api.request import Asked, parse, require_few_points
from shared.authority.door import Door
from shared.authority.rules import About
from shared.catalogue.payloads.coefficients import coefficients_of
from shared.catalogue.payloads.domain_types import signatures_of
from shared.domain.coefficients import Coefficients
from shared.process.grpc_calls import ends_process
from shared.process.grpc_errors import RefusalReason, RefusedCallError

NAME: Final = "coplace.v1.EnergyService"


class AppDBReader(Protocol):
    """Where signatures and coefficients come from: messages in protobuf, those that there are."""

    async def signatures(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        """Return SignatureUpdated by `{app_id}|{node_model}`."""
        ...

    async def coefficients(self, node_models: Sequence[str] = ()) -> Mapping[str, bytes]:
        """Return CoefficientsPublished by node model; all when none is named."""
        ...


class EnergyService:
    """The RPC. `crash` ends the process for an exception that is no fault of a caller; without a
    `door` everybody is answered."""

    def __init__(
        self,
        appdb: AppDBReader,
        meter: EnergyApiMeter,
        most_points: int,
        crash: Callable[[Exception], object],
        door: Door | None = None,
    ) -> None:
        self._door = door
        self._appdb = appdb
        self._meter = meter
        self._most_points = most_points
        self._crash = crash

    def handlers(self) -> grpc.GenericRpcHandler:
        """Return the RPC on raw bytes, so that a message that is not protobuf is refused with a
        reason."""
        return grpc.method_handlers_generic_handler(
            NAME,
            {
                "Project": grpc.unary_unary_rpc_method_handler(
                    ends_process(self.project, self._crash),
                    response_serializer=ProjectResponse.SerializeToString,
                )
            },
        )

    async def project(self, data: bytes, context: ServicerContext[Any, Any]) -> ProjectResponse:
        """Project the subjects of a request."""
        began_s = time.monotonic()
        await self._require(context)
        try:
            response = await self._project(parse(data))
        except RejectedError as error:
            self._meter.rejected()
            raise RefusedCallError.invalid(error) from None
        self._meter.answered(*_count(response), time.monotonic() - began_s)
        return response

    async def _require(self, context: ServicerContext[Any, Any]) -> None:
        """Answer only who may ask."""
        if self._door is not None:
            verdict = await self._door.answer(context, "Project", About())
            if not verdict.is_allowed:
                code = grpc.StatusCode.PERMISSION_DENIED
                raise RefusedCallError(code, verdict.reason, RefusalReason.NOT_ALLOWED)

    async def _project(self, asked: Asked) -> ProjectResponse:
        states = await self._appdb.coefficients(asked.node_models)
        tables = {node_model: _table(state) for node_model, state in states.items()}
        node_models = asked.models_among(tables)
        require_few_points(asked, node_models, tables, self._most_points)
        found = await self._appdb.signatures(asked.rows_on(node_models))
        return answer(asked, node_models, tables, _rows(found))


# States are read again and again, and seldom change.
@lru_cache(maxsize=1 << 6)
def _table(state: bytes) -> Coefficients:
    return coefficients_of(CoefficientsPublished.FromString(state))


@lru_cache(maxsize=1 << 14)
def _row(state: bytes) -> tuple[Signature, ...]:
    return signatures_of(SignatureUpdated.FromString(state))


def _rows(states: Mapping[str, bytes]) -> Rows:
    rows = map(_row, states.values())
    return {(row[0].app_id, row[0].node_model): row for row in rows}


def _count(response: ProjectResponse) -> tuple[int, int]:
    """Points with and without a projection."""
    projected = sum(len(one.freq_ghz) for one in response.projections)
    gaps = (gap for one in response.projections for gap in one.gaps)
    return projected, sum(len(gap.freq_ghz) for gap in gaps)
