"""An application database that a test fills, and the service that asks it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc
from coplace.v1.energy_pb2 import CoefficientsPublished, SignatureAt, SignatureUpdated
from opentelemetry.metrics import NoOpMeter

from services.energy.api import service
from services.energy.api.meter import EnergyApiMeter
from shared.catalogue.digest import model_sha256
from tests.unit.services.calls import served

SCALE = "per-instruction"
PSTATES_GHZ = (1.2, 2.0, 3.1)


def row(app_id: str, node_model: str = "gold", freq_ghz: float = 3.1, **changes: str) -> bytes:
    """An application that was measured at one P-state."""
    at = SignatureAt(freq_ghz=freq_ghz, time_s=50, power_w=300, cpi=0.8, tpi=0.01, count=1)
    values = {"app_id": app_id, "node_model": node_model, "tpi_scale": SCALE} | changes
    return SignatureUpdated(**values, at=[at]).SerializeToString()


def coefficients(
    node_model: str = "gold",
    version: str = "gold@1",
    pstates_ghz: tuple[float, ...] = PSTATES_GHZ,
    never_measured: frozenset[tuple[int, int]] = frozenset(),
) -> CoefficientsPublished:
    """Power in proportion to frequency, CPI the same at every P-state."""
    pairs = [(i, j) for i in range(len(pstates_ghz)) for j in range(len(pstates_ghz))]
    zeros, ones = [0.0] * len(pairs), [1.0] * len(pairs)
    message = CoefficientsPublished(
        node_model=node_model,
        version=version,
        tpi_scale=SCALE,
        pstates_ghz=pstates_ghz,
        a=[pstates_ghz[j] / pstates_ghz[i] for i, j in pairs],
        b=zeros,
        c=zeros,
        d=ones,
        e=zeros,
        f=zeros,
        available=[pair not in never_measured for pair in pairs],
    )
    message.sha256 = model_sha256(message)
    return message


@dataclass
class AppDB:
    """Rows and coefficients as the cache would hold them."""

    rows: dict[str, bytes] = field(default_factory=dict)
    tables: dict[str, bytes] = field(default_factory=dict)
    fails_with: Exception | None = None

    def learn(self, *published: CoefficientsPublished) -> None:
        """Keep coefficients."""
        self.tables |= {message.node_model: message.SerializeToString() for message in published}

    def measure(self, app_id: str, node_model: str = "gold", **changes: object) -> None:
        """Keep a row."""
        self.rows[f"{app_id}|{node_model}"] = row(app_id, node_model, **changes)  # type: ignore[arg-type]

    async def signatures(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        """Those that there are."""
        return {key: self.rows[key] for key in keys if key in self.rows}

    async def coefficients(self, node_models: Sequence[str] = ()) -> Mapping[str, bytes]:
        """Those that there are."""
        if self.fails_with:
            raise self.fails_with
        wanted = node_models or tuple(self.tables)
        return {name: self.tables[name] for name in wanted if name in self.tables}


@asynccontextmanager
async def serving(
    appdb: service.AppDBReader, crashes: list[Exception], most_points: int = 1_000
) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to a running service."""
    meter = EnergyApiMeter(NoOpMeter("test"))
    handlers = service.EnergyService(appdb, meter, most_points, crashes.append).handlers()
    async with served(handlers) as channel:
        yield channel
