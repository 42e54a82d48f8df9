"""Events that the energy service takes."""

from typing import Any

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.telemetry_pb2 import SignatureMeasured

from shared.catalogue.event import Event
from shared.streams.stages.stage import Processor, Round

NODE_MODEL = "gold-6254"


def measured(event_id: str, time_us: int = 1, traceparent: str = "", **changes: Any) -> Event:
    values: dict[str, Any] = {
        "app_id": "lu.C",
        "node_model": NODE_MODEL,
        "freq_ghz": 3.1,
        "time_s": 50.0,
        "power_w": 360.0,
        "cpi": 0.7,
        "tpi": 0.006,
        "mem_gbps": 60.0,
        "tpi_scale": "per-instruction",
    }
    payload = SignatureMeasured(**(values | changes))
    key = f"{payload.app_id}|{payload.node_model}"
    return Event(event_id, "site/p2", time_us, key, payload, traceparent)


def declared(pstates_ghz: tuple[float, ...], node_model: str = NODE_MODEL) -> Event:
    payload = ClusterDeclared(cluster="p2", node_model=node_model, pstates_ghz=pstates_ghz)
    return Event("declared", "site/p2", 1, "p2", payload)


def in_round(processor: Processor, number: int, *events: Event) -> list[Event]:
    """What a processor publishes on one round of events."""
    published = [p.event for event in events for p in processor.handle(event)]
    return published + [p.event for p in processor.end_round(Round(number, number * 30_000_000))]
