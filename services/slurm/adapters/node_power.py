"""Publishes which nodes Slurm has switched off, and which boot."""

from collections.abc import Iterable, Mapping
from typing import Any

import structlog
from coplace.v1.control_pb2 import NodePowerDeclared

from coplace_client.calls import UnansweredError
from coplace_client.facts import fact
from services.slurm.adapters.region import AskedRegion
from services.slurm.model.node_power import Boot, power_of
from shared.process.clock import now_us

log = structlog.get_logger(__name__)


class NodePowerPublisher:
    """Declares it where it changed, and once at first: what a process before declared may not be so
    any more."""

    def __init__(self, region: AskedRegion, site: str, cluster: str, boot: Boot) -> None:
        self._region, self._site, self._cluster, self._boot = region, site, cluster, boot
        self._told: NodePowerDeclared | None = None

    def tell(self, shown: Iterable[Mapping[str, Any]]) -> None:
        """Declare it as these nodes are. Raises UnansweredError, but where ingest refuses it, which
        is noted."""
        found = power_of(shown, self._cluster, self._boot)
        if found == self._told:
            return
        dated = NodePowerDeclared()
        dated.CopyFrom(found)
        dated.declared_at_us = at_us = now_us()
        source = f"{self._site}/{self._cluster}"
        try:
            self._region.publish(fact(source, dated, f"{self._cluster}/{at_us}", at_us))
        except UnansweredError as error:
            if not error.is_refusal:
                raise
            log.warning("not declared which nodes are off", problem=str(error))
        self._told = found
