"""Signatures as they are measured."""

from coplace.v1.telemetry_pb2 import SignatureMeasured

from shared.domain.signature import Signature


def signature_of(message: SignatureMeasured) -> Signature:
    """The signature in an event. Raises RejectedError when it is none."""
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
