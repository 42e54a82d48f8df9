"""What caps of power leave for jobs, and what meters show of it."""

from collections.abc import Iterator, Mapping, Set
from math import inf

from coplace.v1.prediction_pb2 import NodeMetersRead, NodePowerPublished
from google.protobuf.message import Message

from shared.catalogue.event import Event, Publish
from shared.placement.budgets.cap_budgets import CapBudgets, UnratedClusters
from shared.placement.budgets.joint_margin import JointMargin
from shared.placement.budgets.licence_budgets import licences_of_a_pass
from shared.placement.budgets.meters import Meters
from shared.placement.budgets.overshoots import Overshoots
from shared.placement.budgets.reserved import Reserved
from shared.placement.state.layer import Folds, StateLayer
from shared.scheduling.licences import Licences
from shared.scheduling.power import PowerBudget
from shared.streams.stages.stage import Round
from shared.streams.state.state import State


class BudgetLayer:
    """Caps, margins, meters, and watts that are reserved between passes."""

    def __init__(self, kept: State, state: StateLayer) -> None:
        self._state, models, jobs = state, state.models, state.jobs
        self.caps, self.unrated = CapBudgets(models), UnratedClusters(models)
        self.meters = Meters(kept, jobs, models)
        self.overshoots = Overshoots(kept, jobs.allocations, models)
        self.margin = JointMargin(jobs, models, self.meters)
        self.reserved = Reserved(kept, jobs, self.margin)
        self._now_s = 0.0
        self.folds: Folds = {NodeMetersRead: self._read, NodePowerPublished: self._power_published}
        self.prefer_nodes()

    def begin_round(self, now_s: float) -> None:
        """Begin a round: nobody was sent back yet for want of a margin."""
        self._now_s = now_s
        self.margin.begin_round()

    def pass_time(self, ended: Round) -> Iterator[Publish]:
        """Let time pass, and publish which meters fell silent and which caps are exceeded."""
        silent = self.meters.of_round(ended)
        yield from silent
        yield from self._state.guarantees.of_round(ended)
        if silent:
            self.prefer_nodes()
        yield from self.overshoots.of_round(ended)

    def close_nodes(self) -> bool:
        """Take drained nodes from what jobs may have, and give nodes that failed of late last.
        Returns whether any are closed or opened."""
        nodes, allocations = self._state.nodes, self._state.jobs.allocations
        touched = nodes.take_touched() & self._state.models.declared.keys()
        for cluster in sorted(touched):
            allocations.close(cluster, nodes.unavailable(cluster))
        if touched:
            self.prefer_nodes()
        return bool(touched)

    def prefer_nodes(self) -> None:
        """Give nodes that draw less first, and those last that failed of late or whose meters are
        silent."""
        models, nodes = self._state.models, self._state.nodes
        factors = {name: dict(each) for name, each in models.node_factors.items()}
        for cluster in models.clusters:
            for node in [*nodes.failing(cluster), *self.meters.silent(cluster).tolist()]:
                factors.setdefault(cluster, {})[node] = inf
        self._state.jobs.allocations.prefer(factors)

    def of_a_pass(self, now_s: float) -> dict[str, list[PowerBudget]]:
        """Return the budgets that each cluster is under in a pass, less what is kept for suspended
        jobs and for those that watts are being freed for."""
        budgets = self.margin.budgets(now_s)
        self.reserved.keep(budgets)
        return budgets

    def licences_of_a_pass(self, needed: Set[str]) -> Mapping[str, Licences]:
        """Return the licences that jobs of each cluster may have in a pass, of those needed."""
        pools, occupancy = self._state.licences, self._state.jobs.allocations.occupancy
        return licences_of_a_pass(pools, self._state.models.clusters, occupancy, needed)

    def due_s(self) -> Iterator[float]:
        """Return when a cap changes, a meter may fall silent, or a time above a cap is over."""
        yield from self.meters.due_s()
        yield from self.overshoots.due_s()
        yield self.caps.next_step_s(self._now_s)

    def _read(self, event: Event, message: NodeMetersRead) -> None:
        self.meters.read(event, message)
        self.overshoots.read(message)

    def _power_published(self, _event: Event, _message: Message) -> None:
        self.prefer_nodes()
