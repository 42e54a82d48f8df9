"""How a run ended, as its resource manager reported it."""

from collections.abc import Mapping
from typing import NamedTuple

from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.placement_service_pb2 import EndedRun as EndedRunMessage

from shared.catalogue.payloads.domain_types import run_us
from shared.domain.folding import fold, names_of
from shared.domain.node import NodeNames
from shared.placement.state.job_allocation import JobAllocation


class RunEnding(NamedTuple):
    """A run that has ended. Its nodes are host lists; what nobody said is empty or 0."""

    cluster: str
    nodes: tuple[str, ...]
    started_at_us: int
    ended_at_us: int
    suspended_s: float
    outcome: int
    ended_as: str
    exit_code: int
    signal: int
    failed_nodes: tuple[str, ...]

    def message(self) -> EndedRunMessage:
        """Return it as an answer has it."""
        return EndedRunMessage(**self._asdict())


def ended_run(
    told: JobFinished, on: JobAllocation | None, names: Mapping[str, NodeNames]
) -> RunEnding:
    """Return how a run ended; on the nodes that it was granted where nobody names them."""
    nodes = tuple(fold(names_of(told.node_names)))
    if not nodes and on is not None and told.started_at_us and on.cluster in names:
        known = names[on.cluster]
        nodes = tuple(fold(map(known.name, on.nodes)))
    shown_us = told.ended_at_us - told.started_at_us if told.started_at_us else 0
    return RunEnding(
        cluster=told.cluster,
        nodes=nodes,
        started_at_us=told.started_at_us,
        ended_at_us=told.ended_at_us,
        suspended_s=(shown_us - run_us(told)) / 1e6,
        outcome=told.outcome,
        ended_as=told.ended_as,
        exit_code=told.exit_code,
        signal=told.signal,
        failed_nodes=tuple(fold(names_of(told.failed_nodes))),
    )
