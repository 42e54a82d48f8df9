"""What each field must be of what was measured, on nodes and of runs."""

from collections.abc import Mapping
from typing import Final

from coplace.v1.energy_pb2 import AppIdMismatch, SignatureUpdated
from coplace.v1.prediction_pb2 import NodeMetersRead, NodePowerMeasured, RunningPowerMeasured
from coplace.v1.telemetry_pb2 import NodeSamples, ShuttersMeasured, SignatureMeasured
from google.protobuf.message import Message

from coplace_client.bounds import LENGTHS, READING_W
from coplace_client.checks import require_count
from shared.catalogue.field_checks import (
    ATTEMPT,
    Check,
    anything,
    ascending,
    each,
    each_of_any,
    fields,
    host_list,
    if_known,
    quantity,
    text,
    text_or_empty,
    time_us,
)

_METRICS: Final[Mapping[str, Check]] = {
    name: quantity(name) for name in ("freq_ghz", "time_s", "power_w", "cpi", "tpi", "mem_gbps")
}

_SIGNATURE: Final = fields(
    {
        "app_id": text,
        "node_model": text,
        "job_id": text_or_empty,
        **_METRICS,
        "tpi_scale": text,
        "kernel": anything,
    }
)

_SHUTTER: Final = fields(
    {name: quantity(name) for name in ("ipc_before", "ipc_during", "ipc_after")}
)

_SAMPLE: Final = fields({"time_us": time_us, "power_w": quantity("samples.power_w")})


def _reading_mw(value: int) -> None:
    READING_W.require("", value / 1000)


def _samples(count: int) -> None:
    require_count("", count)
    LENGTHS["samples"].require("", count)


TELEMETRY: Final[Mapping[type[Message], Check]] = {
    SignatureMeasured: _SIGNATURE,
    NodeSamples: fields(
        {"node": text, "cluster": text, "node_model": text, "samples": each("samples", _SAMPLE)}
    ),
    ShuttersMeasured: fields(
        {
            **ATTEMPT,
            "co_runner_job_id": text,
            "app_id": text_or_empty,
            "co_runner_app_id": text_or_empty,
            "node_model": text_or_empty,
            "began_at_us": time_us,
            "ended_at_us": time_us,
            "shutters": each("shutters", _SHUTTER),
            "co_runners": if_known("co_runners"),
            "core_share": if_known("core_share"),
            "co_runner_core_share": if_known("co_runner_core_share"),
            "progress_source": anything,
        },
        ascending("began_at_us", "ended_at_us"),
    ),
    NodePowerMeasured: fields(
        {
            "node": text,
            "cluster": text,
            "node_model": text,
            "power_w": quantity("samples.power_w"),
            "samples": _samples,
            "first_at_us": time_us,
            "last_at_us": time_us,
        }
    ),
    RunningPowerMeasured: fields(
        {
            **ATTEMPT,
            "cluster": text,
            "freq_ghz": quantity("freq_ghz"),
            "node_power_w": quantity("power_w"),
            "measured_at_us": time_us,
        }
    ),
    NodeMetersRead: fields(
        {
            "cluster": text,
            "nodes": each_of_any("nodes", host_list),
            "told_at_us": time_us,
            "node_power_mw": each_of_any("nodes", _reading_mw),
        }
    ),
    SignatureUpdated: fields(
        {
            "app_id": text,
            "node_model": text,
            "tpi_scale": text,
            "at": each("pstates_ghz", fields({**_METRICS, "count": quantity("count")})),
        }
    ),
    AppIdMismatch: fields(
        {
            "app_id": text,
            "node_model": text,
            "job_id": text_or_empty,
            "metrics": each_of_any("metrics", fields({"metric": text})),
            "measured": _SIGNATURE,
        }
    ),
}
