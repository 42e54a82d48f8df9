"""Outcomes as messages, in words; and answers to questions."""

from collections.abc import Iterator

from shared.catalogue.event import Publish
from shared.placement.budgets.layer import BudgetLayer
from shared.placement.decide.layer import DecideLayer
from shared.placement.decide.refusals import Refusals
from shared.placement.evaluate.layer import EvaluateLayer
from shared.placement.explain.decisions import Decisions
from shared.placement.explain.notices import Notices
from shared.placement.explain.pass_decisions import PassDecisions
from shared.placement.explain.pending_words import PendingReasonWords
from shared.placement.explain.queries import Queries
from shared.placement.explain.refusals import RefusalWords
from shared.placement.explain.state_words import DrainWords
from shared.placement.state.layer import StateLayer
from shared.streams.stages.stage import Round


class ExplainLayer:
    """Writes what was decided, notes what was published of each job, and answers questions."""

    def __init__(
        self,
        state: StateLayer,
        evaluation: EvaluateLayer,
        budgets: BudgetLayer,
        decide: DecideLayer,
    ) -> None:
        self._state, self._decide = state, decide
        drains = DrainWords(state.nodes, lambda: state.models.clusters)
        self._words = PendingReasonWords(drains)
        self._notices = Notices(decide.pending_reasons, self._words, decide.waiting_jobs)
        self.queries = Queries(state, evaluation, budgets, decide, self._words)

    def decisions(self, ended: Round) -> Decisions:
        """Return what writes the decisions of a round."""
        models = self._state.models
        return Decisions(ended, models.rules, models.degradation_version)

    def of_pass(self, decisions: Decisions, refusals: Refusals) -> PassDecisions:
        """Return what writes what came of a pass."""
        models, decide = self._state.models, self._decide
        return PassDecisions(
            decisions=decisions,
            clusters=models.clusters,
            node_names=models.node_names,
            pending_reasons=decide.pending_reasons,
            pending_words=self._words,
            waiting_jobs=decide.waiting_jobs,
            refusals=RefusalWords(refusals, self._state.jobs.by_arrival),
        )

    def of_waiting(self, written: PassDecisions) -> Iterator[Publish]:
        """Publish why jobs wait, where that is not what was published last."""
        now_s = written.decisions.ended.now_s
        changed = self._decide.waiting_jobs.take_refreshed() | self._notices.take_due(now_s)
        for job in self._state.jobs.found(changed):
            situation = self._notices.of(job, now_s)
            if situation is not None:
                self._state.jobs.save(job)
                yield written.of_waiting(job, situation)

    def due_s(self) -> Iterator[float]:
        """Return when a reason that was put off is published."""
        yield from self._notices.due_s()
