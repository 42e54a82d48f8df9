"""Signatures as they are measured."""

from collections.abc import Set as AbstractSet

from coplace.v1.telemetry_pb2 import SignatureMeasured

from coplace_client.errors import RejectedError
from coplace_client.signature import Signature
from shared.domain.cluster import MOST_PSTATES


def signature_of(message: SignatureMeasured) -> Signature:
    """Return the signature in an event. Raises RejectedError when it is invalid."""
    return Signature(
        app_id=message.app_id,
        node_model=message.node_model,
        freq_ghz=message.freq_ghz,
        time_s=message.time_s,
        power_w=message.power_w,
        cpi=message.cpi,
        tpi=message.tpi,
        mem_gbps=message.mem_gbps,
        tpi_scale=message.tpi_scale,
    )


def measured_of(signature: Signature, job_id: str) -> SignatureMeasured:
    """Return the event that holds a signature of a job."""
    return SignatureMeasured(
        app_id=signature.app_id,
        node_model=signature.node_model,
        job_id=job_id,
        freq_ghz=signature.freq_ghz,
        time_s=signature.time_s,
        power_w=signature.power_w,
        cpi=signature.cpi,
        tpi=signature.tpi,
        mem_gbps=signature.mem_gbps,
        tpi_scale=signature.tpi_scale,
    )


def require_few_pstates(pstates_ghz: AbstractSet[float]) -> None:
    """Raise RejectedError where measured clocks are given in place of P-states: a
    table of all of them would outgrow a message."""
    if len(pstates_ghz) > MOST_PSTATES:
        raise RejectedError("freq_ghz", f"must be a P-state: more than {MOST_PSTATES} are known")
