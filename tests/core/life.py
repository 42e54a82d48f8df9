"""A script played on placement, every round of which is held to the plain rules."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import singledispatchmethod
from math import ceil, inf
from typing import Any, Final

from coplace.v1.control_pb2 import (
    LICENCE_SCOPE_CLUSTER,
    LICENCE_SCOPE_REGION,
    LICENCE_SCOPE_SITE,
    LIMIT_SUBJECT_USER,
    POWER_SCOPE_CLUSTER,
    POWER_SCOPE_REGION,
    POWER_SCOPE_SITE,
    LicencesDeclared,
    PowerCapDeclared,
    PowerCapStep,
    ReservationDeclared,
)
from coplace.v1.jobs_pb2 import JOB_OUTCOME_CANCELLED, JOB_OUTCOME_COMPLETED
from coplace.v1.placement_pb2 import (
    ACTION_KIND_END,
    ACTION_KIND_RESUME,
    ACTION_KIND_SET_PSTATE,
    ACTION_KIND_SUSPEND,
    VERDICT_ACTION,
    VERDICT_CANCELLED,
    VERDICT_START,
    PlacementDecided,
)
from coplace.v1.plans_pb2 import PlanItem

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event, Publish
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.cap_measures import Measure
from shared.placement.processor.placement import Placement
from shared.scheduling.backfill import Dispatch
from shared.scheduling.forecast import Expected, StartsAhead
from shared.streams.stages.stage import AlreadyAppliedError, Round
from tests.core import systems
from tests.core.checks import Checks, Pass
from tests.core.figures import (
    CLUSTERS,
    PSTATES,
    SCOPES,
    SITES,
    WEIGHT,
    Job,
    Known,
    Mode,
    events_of,
    submission,
)
from tests.core.freed_watts import Sharing
from tests.core.managers import Managers
from tests.core.plain import Kept, Region, Window
from tests.core.plain_state import PlainState, require
from tests.core.runs import CLOCK, END, RESUME, SUSPEND, Acting, Action, Run, Runs
from tests.support.typed import untyped
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import T0_US

POWER_SCOPES: Final = (POWER_SCOPE_CLUSTER, POWER_SCOPE_SITE, POWER_SCOPE_REGION)
LICENCE_SCOPES: Final = (LICENCE_SCOPE_CLUSTER, LICENCE_SCOPE_SITE, LICENCE_SCOPE_REGION)
CAP_STEP_W: Final = 64.0
# Rounds are at multiples of it: so many microseconds are an integer.
_TICKS_PER_S: Final = 64
_MEASURES: Final = {Measure.LOWER_FREQUENCY: CLOCK, Measure.SUSPEND: SUSPEND, Measure.END: END}
_KINDS: Final = {
    ACTION_KIND_SET_PSTATE: CLOCK,
    ACTION_KIND_SUSPEND: SUSPEND,
    ACTION_KIND_RESUME: RESUME,
    ACTION_KIND_END: END,
}


class Watched(Placement):
    """Placement that shows each of its passes."""

    def show_to(self, life: "Life") -> None:
        """Let a life see each pass."""
        right = self.layers.decide.pass_over_queue

        def shown(now_s: float) -> Dispatch:
            life.begin_pass()
            plan = right(now_s)
            life.passes[-1].plan = plan
            return plan

        self.layers.decide.pass_over_queue = shown  # type: ignore[method-assign]


def _rules(**changes: Any) -> PolicySettings:
    return PolicySettings(start_timeout_s=0.0, most_missed_starts=0, **changes)


@dataclass
class Life:
    """Two placements get the same events; one of them is killed again and again."""

    rules: PolicySettings = field(default_factory=lambda: _rules(cap_measures=()))
    known: Known = field(default_factory=Known)
    running: Runs = field(default_factory=dict)  # as placement is to know them
    managers: Managers = field(default_factory=Managers)
    overrun: set[str] = field(default_factory=set)
    passes: list[Pass] = field(default_factory=list)
    rounds: int = 0
    now_s: float = T0_US / 1e6

    def __post_init__(self) -> None:
        self._sequence, self._is_limited, self._planned_until_s = 0, False, -inf
        self._inbox: list[PlacementDecided] = []
        # The first of the queue was promised a start then, and nothing came in between.
        self._promised: tuple[str, float] | None = None
        self._expected: dict[int, Expected] = {}
        # Watts that the last pass promised, and those that are reserved for suspended jobs.
        self._watts: list[tuple[str, int, Kept]] = []
        self._kept: list[tuple[str, int, Kept]] = []
        self._begin()

    def _begin(self) -> None:
        self.steady, self.killed = self._placement({}), Placement({}, self.rules, 7.0)
        self._states: tuple[dict[str, bytes], dict[str, bytes]] = ({}, {})
        rules = self.rules
        self._plain_state = PlainState(
            self.known, counts_idle=rules.cap_counts_idle, cap_slowdown=rules.cap_slowdown
        )
        self._checks = Checks(self.steady)
        self._sharing = Sharing(self.known, self.running, self._id)
        self._tell(region.pair_model((0.0, 0.0, 0.0, WEIGHT)))
        self._tell(region.power())

    def _placement(self, state: Mapping[str, bytes]) -> Watched:
        made = Watched(state, self.rules, 7.0)
        made.show_to(self)
        return made

    def play(self, script: systems.Script) -> "Life":
        """All steps, and what runs then to its end. Raises BrokenError, or whatever the core
        raises."""
        for step in script:
            self.do(step)
        self._run_out()
        return self

    # Steps ------------------------------------------------------------------------------------

    @singledispatchmethod
    def do(self, step: systems.Step) -> None:
        """Let it happen."""
        raise NotImplementedError(step)

    @do.register
    def _(self, step: systems.Rule) -> None:
        if not self.known.clusters:
            self.rules = _rules(
                policy=systems.POLICIES[step.policy % len(systems.POLICIES)],
                cap_counts_idle=step.counts_idle,
                cap_slowdown=step.cap_slowdown,
                cap_measures=tuple(map(Measure, step.measures)),
                cap_sharing=step.sharing,
            )
            self._begin()

    @do.register
    def _(self, step: systems.Declare) -> None:
        name = CLUSTERS[step.cluster]
        self.known.clusters[name] = step
        for event in events_of(name, step, self._time_us()):
            self._tell(event)

    @do.register
    def _(self, step: systems.Submit) -> None:
        if not self.known.clusters:
            return
        job_id, references = f"job-{len(self.known.jobs)}", sorted(self.known.clusters)
        job = Job(step, references[step.reference % len(references)])
        if self._tell(submission(job_id, job, self._time_us())):
            self.known.jobs[job_id] = job

    @do.register
    def _(self, step: systems.Change) -> None:
        job_id = _picked(self.known.jobs.keys() - self.running.keys(), step.pick)
        if not job_id:
            return
        before, at_us = self.known.jobs[job_id].asked, self._time_us()
        references = sorted(self.known.clusters)
        asked = replace(step.to, user=before.user, priority=before.priority)
        job = Job(asked, references[step.to.reference % len(references)])
        event = submission(job_id, job, at_us)
        event.payload.changed_at_us = at_us  # type: ignore[attr-defined]
        if self._tell(event):
            self.known.jobs[job_id] = job

    @do.register
    def _(self, step: systems.Wait) -> None:
        self.close()
        for _ in range(step.rounds):
            self._go_on()

    @do.register
    def _(self, step: systems.Pass) -> None:
        self.close()
        until_s = self.now_s + step.seconds
        while self._next_s() <= until_s:
            self._go_on()
        if self.now_s < until_s:
            self.now_s = until_s
            self.close()

    @do.register
    def _(self, step: systems.Finish) -> None:
        if job_id := _picked(self.running, step.pick):
            self._end(job_id)

    @do.register
    def _(self, step: systems.Overrun) -> None:
        if job_id := _picked(self.running, step.pick):
            self.overrun.add(job_id)
            self._promised = None

    @do.register
    def _(self, step: systems.Cap) -> None:
        if not self.known.clusters:
            return
        clusters, scope = self.known.clusters, step.scope % len(SCOPES)
        names = [sorted(clusters), sorted({SITES[c] for c in clusters}), [""]][scope]
        name = names[step.pick % len(names)]
        idle_w = self.known.idle_mw(self.known.covered(scope, name)) / 1000
        steps = [
            (float(int(self.now_s) + later), None if level is None else idle_w + level * CAP_STEP_W)
            for later, level in step.levels
        ]
        at_us = self._time_us()
        message = PowerCapDeclared(
            scope=POWER_SCOPES[scope],
            name=name,
            steps=[PowerCapStep(from_us=round(s * 1e6), watts=watts) for s, watts in steps],
            declared_at_us=at_us,
        )
        if self._tell(region.event(f"capped/{at_us}", message, at_us)):
            self.known.caps[scope, name] = [
                (s, None if watts is None else round(watts * 1000)) for s, watts in steps
            ]

    @do.register
    def _(self, step: systems.LoseOrReturn) -> None:
        if name := _picked(self.known.clusters, step.pick):
            kind = region.returned if name in self.known.lost else region.lost
            self.known.lost ^= {name}
            self._tell(kind(name, self._time_us()))

    @do.register
    def _(self, step: systems.Ask) -> None:
        if job_id := _picked(self.known.jobs, step.pick):
            ask = (region.cancelled, region.held, region.released)[step.what % 3]
            taken = self._tell(ask(job_id, self._time_us()))
            if taken and ask is region.cancelled:
                self._change(job_id, is_to_end=True)

    @do.register
    def _(self, step: systems.Stop) -> None:
        if job_id := _picked(self.running, step.pick):
            ask = region.unsuspended if step.is_over else region.suspended
            if self._tell(ask(job_id, self._time_us())):
                self._change(job_id, is_to_stand=not step.is_over)

    @do.register
    def _(self, step: systems.Manage) -> None:
        if name := _picked(self.known.clusters, step.cluster):
            self.managers.behaviour[name] = step

    @do.register
    def _(self, step: systems.Limit) -> None:
        self._is_limited = True
        most = {"most_running_jobs": step.jobs, "most_nodes": step.nodes}
        self._tell(region.limits(LIMIT_SUBJECT_USER, "user-0", self._time_us(), **most))

    @do.register
    def _(self, step: systems.Plan) -> None:
        if not (self.known.jobs and self.rounds):
            return
        now_us = round(self.now_s * 1e6)
        clusters = sorted(self.known.clusters)
        cluster = clusters[step.cluster % len(clusters)]
        how: dict[str, Any] = {
            "freq_ghz": PSTATES[step.pstate % len(PSTATES)],
            "not_before_us": now_us + step.wait_s * 1_000_000 if step.wait_s else 0,
            "walltime_s": 30 * 86_400.0,
            "draw_w": 1e9,
        }
        items = [
            PlanItem(job_id=_picked(self.known.jobs, pick), attempt=1, cluster=cluster, **how)
            for pick in step.picks
        ]
        until_us = now_us + step.valid_s * 1_000_000
        based = {"based_at_us": now_us - 1, "valid_until_us": until_us}
        self._planned_until_s = max(self._planned_until_s, until_us / 1e6)
        self._tell(region.proposed(self.rounds - 1, *items, **based))

    @do.register
    def _(self, step: systems.Reserve) -> None:
        if not (name := _picked(self.known.clusters, step.cluster)):
            return
        key, called = (name, step.number), f"reservation-{step.number}"
        there = range(self.known.clusters[name].nodes)
        nodes, at_us = [node for node in step.nodes if node in there], self._time_us()
        if not nodes:
            if self._tell(region.unreserved(called, at_us, name)):
                self.known.windows.pop(key, None)
            return
        from_s = self.now_s + step.wait_s
        until_s = from_s + step.lasts_s
        message = ReservationDeclared(
            cluster=name,
            name=called,
            nodes=[f"{name}-{node:04d}" for node in nodes],
            from_us=round(from_s * 1e6),
            until_us=round(until_s * 1e6),
            users=[] if step.user < 0 else [f"user-{step.user}"],
            declared_at_us=at_us,
        )
        if self._tell(region.event(f"reserved/{at_us}", message, at_us)):
            window = Window(step.number, from_s, until_s, frozenset(nodes), step.user)
            self.known.windows[key] = window

    @do.register
    def _(self, step: systems.License) -> None:
        if not self.known.clusters:
            return
        clusters, scope = self.known.clusters, step.scope % len(SCOPES)
        names = [sorted(clusters), sorted({SITES[c] for c in clusters}), [""]][scope]
        place, name = names[step.pick % len(names)], f"licence-{step.number}"
        at_us, key = self._time_us(), (scope, place, name)
        message = LicencesDeclared(
            scope=LICENCE_SCOPES[scope],
            place=place,
            name=name,
            count=step.count,
            declared_at_us=at_us,
        )
        if self._tell(region.event(f"licences/{at_us}", message, at_us)):
            self.known.licences.pop(key, None)
            if step.count is not None:
                self.known.licences[key] = step.count

    @do.register
    def _(self, step: systems.Kill) -> None:
        self._take_changes()
        self.killed = Placement(dict(self._states[1]), self.rules, 7.0)

    # Time -------------------------------------------------------------------------------------

    def close(self) -> None:
        """End a round now, and look at what it decided."""
        self.passes.clear()
        for decided in self._inbox:
            self._obey(decided)
        self._inbox.clear()
        self._hear_managers()
        acting = self._acting()
        asked = [*self._asked_before(acting)]
        ended = Round(self.rounds, round(self.now_s * 1e6))
        both = [list(placement.end_round(ended)) for placement in (self.steady, self.killed)]
        self.rounds += 1
        require(_told(both[0]) == _told(both[1]), "who was restored decides something else")
        self._take_changes()
        require(self._states[0] == self._states[1], "who was restored writes something else")
        decisions = region.decisions(both[0])
        parted = [problem for decided in decisions for problem in untyped(decided)]
        require(not parted, "; ".join(parted))
        self._checks.starts(self.passes)
        last = self.passes[-1].before
        freed = [*self._sharing.made(decisions, acting, last)]
        require(self.rules.cap_sharing or not freed, f"nobody shares, and {freed} are asked")
        asked += freed or acting.clock_up(last)
        self._watts = [*last.promised_watts()]
        self._note(decisions, asked)
        self._checks.waiting(self.passes[-1], self.rounds)
        self._check_promises(last)
        self._act()

    def _acting(self) -> Acting:
        measures = [_MEASURES[measure] for measure in self.rules.cap_measures]
        shares = self.rules.cap_sharing
        return Acting(self.now_s, self.running, self.known.lost, self._modes, measures, shares)

    def _asked_before(self, acting: Acting) -> Iterator[tuple[str, Action]]:
        """What is to be asked before a round's first pass; how the region is to be then."""
        yield from acting.for_operators()
        yield from acting.under_caps(self._plain_state.budgets())
        waits = {a for a, job_id in self._arrivals() if job_id not in self.running}
        watts = [
            (cluster, arrival, kept._replace(begin_s=begin_s, end_s=kept.end_s + later_s))
            for cluster, arrival, kept in self._watts
            for begin_s in [self._begins_s(cluster, kept, acting)]
            for later_s in [begin_s - kept.begin_s]
            if arrival in waits
        ]
        self._before = self._plain_state.of_runs(self.now_s, self.running, watts)
        self._sharing.begin(self.now_s, waits)
        self._sharing.keep(self._before.budgets, self.now_s)
        yield from acting.run_on(self._before)
        stands = {run.arrival: run.cluster for run in self.running.values() if run.stands}
        found = {
            (stands[arrival], arrival, kept)
            for budget in self._before.budgets
            for arrival, kept in budget.kept.items()
            if arrival in stands
        }
        self._kept = sorted(found)

    def _begins_s(self, cluster: str, kept: Kept, acting: Acting) -> float:
        """When reserved watts begin as it is now: where they were kept from the end of a suspended
        job on, under a cap of both, and the round ends after it was to run on, so much later."""
        begin_s, budgets = max(kept.begin_s, self.now_s), self._plain_state.budgets()
        suspended = {run.arrival for run in acting.to_run_on()}
        ends_s = [
            self.now_s + turn.end_s - turn.begin_s
            for other, arrival, turn in self._kept
            if arrival in suspended
            and turn.begin_s < self.now_s
            and turn.end_s <= begin_s
            and any({cluster, other} <= budget.clusters for budget in budgets)
        ]
        return max([begin_s, *ends_s])

    def begin_pass(self) -> None:
        """Placement looks at its queue: it holds what is to be held."""
        stood = self._plain_state.of(self.steady, self.now_s, self._kept)
        self._sharing.keep(stood.budgets, self.now_s)
        if not self.passes:
            for name, nodes in self._before.clusters.items():
                held, right = set(stood.clusters[name].stays), set(nodes.stays)
                require(held == right, f"{name} holds {held}, should hold {right}")
        self.passes.append(Pass(stood))

    def _go_on(self) -> None:
        """To the next instant at which something is due, and end a round there."""
        next_s = self._next_s()
        self.now_s = next_s if next_s < inf else self.now_s + 8.0
        for job_id, run in list(self.managers.truth.items()):
            if run.ends_s <= self.now_s and job_id not in self.overrun:
                self._end(job_id, on_time=True)
        self._act()
        self.close()

    def _next_s(self) -> float:
        """When a job ends, a manager acts or answers, or placement asks to be woken; at a tick."""
        wake_us = self.steady.wake_us()
        wake_s = inf if wake_us is None else wake_us / 1e6
        due = [*self.managers.next_s(self.overrun), wake_s]
        next_s = min(s for s in due if s > self.now_s)
        return ceil(next_s * _TICKS_PER_S) / _TICKS_PER_S if next_s < inf else inf

    def _run_out(self) -> None:
        """All that runs ends at its limit, and what waits starts when a forecast says."""
        self.managers.behaviour.clear()
        self.close()
        for job_id in self.overrun & self.running.keys():
            self._end(job_id)
        for job_id, run in self.running.items():
            if run.is_to_stand and self._tell(region.unsuspended(job_id, self._time_us())):
                self._change(job_id, is_to_stand=False)
        self.close()
        is_quiet = not self._is_limited and self._planned_until_s <= self.now_s
        self._expected = self._forecast() if is_quiet and not self._may_act() else {}
        for _ in range(8 * len(self.known.jobs) + 40):
            if self._next_s() == inf:
                break
            self._go_on()
        late = self._expected.keys() & {e.arrival for p in self.passes for e in p.before.waiting}
        require(not late, f"{late} never started, as a forecast said")
        self._check_none_stands()

    def _may_act(self) -> bool:
        """Whether anything may be asked of running jobs; a forecast knows nothing of that."""
        rules = self.rules
        acts = rules.cap_measures or rules.cap_sharing or rules.cap_slowdown > 1
        stands = any(run.stands or run.pending for run in self.running.values())
        return stands or bool(acts and self.known.caps)

    # What is reported --------------------------------------------------------------------------

    def _tell(self, event: Event) -> bool:
        """Whether it was taken in."""
        self._promised = None
        outcomes = [_handled(placement, event) for placement in (self.steady, self.killed)]
        require(outcomes[0] == outcomes[1], f"who was restored takes {event.id} otherwise")
        return not outcomes[0]

    def _change(self, job_id: str, **changes: Any) -> None:
        """Something else is known of a job, if it runs."""
        if job_id in self.running:
            self.running[job_id] = replace(self.running[job_id], **changes)

    def _end(self, job_id: str, *, on_time: bool = False, cancelled: bool = False) -> None:
        promised = self._promised
        self.overrun.discard(job_id)
        cluster = self.running.pop(job_id).cluster
        self.managers.gone(job_id)
        outcome = JOB_OUTCOME_CANCELLED if cancelled else JOB_OUTCOME_COMPLETED
        self._tell(region.finished(job_id, self._time_us(), 1, outcome, cluster=cluster))
        self._promised = promised if on_time else None

    def _obey(self, decided: PlacementDecided) -> None:
        """Start a job, or end it."""
        if decided.verdict == VERDICT_CANCELLED and decided.job_id in self.running:
            self._end(decided.job_id, cancelled=True)
        elif decided.verdict == VERDICT_START and decided.job_id in self.running:
            promised = self._promised
            if self._tell(region.started(decided)):
                self._change(decided.job_id, is_confirmed=True)
            self._promised = promised

    def _act(self) -> None:
        """Managers do what is due."""
        for job_id in list(self.managers.act(self.now_s)):
            self._end(job_id, cancelled=True)

    def _hear_managers(self) -> None:
        """What they did, or refused. A P-state that was raised breaks no promise."""
        for answer in self.managers.told(self.now_s):
            promised, run = self._promised, self.running.get(answer.job_id)
            is_taken = self._tell(answer.event)
            if run is None or not is_taken:
                continue
            if _is_raise(run, answer.action):
                self._promised = promised
            after = run.done if answer.is_done else run.refuses
            self.running[answer.job_id] = after(answer.action, answer.at_s)

    def _note(self, decisions: list[PlacementDecided], asked: list[tuple[str, Action]]) -> None:
        """What decisions say of starts and actions."""
        for one in decisions:
            require("please report" not in str(one), f"no explanation: {one.reason}")
            if one.verdict == VERDICT_START:
                self._note_start(one)
        self._inbox += [d for d in decisions if d.verdict in (VERDICT_START, VERDICT_CANCELLED)]
        actions = [one for one in decisions if one.verdict == VERDICT_ACTION]
        found = [(one.job_id, _action(one)) for one in actions]
        right = [
            (job_id, (a.number, a.kind, a.mode.ghz, a.mode.limit_s, a.draw_mw))
            for job_id, a in asked
        ]
        require(found == right, f"asked are {found}, should be {right}")
        for decided, (job_id, action) in zip(actions, asked, strict=True):
            if not _is_raise(self.running[job_id], action):
                self._promised = None
            self.managers.ask(action, decided)

    def _note_start(self, start: PlacementDecided) -> None:
        """What a decision says of a start, and when a forecast said that it would come."""
        counts = start.node_units or [1] * len(start.node_indices)
        units = tuple(zip(start.node_indices, counts, strict=True))
        mode = self.known.mode(start.job_id, start.cluster, start.freq_ghz, sum(counts))
        require(mode.limit_s == start.walltime_s, f"{start} should have the limit of {mode}")
        [arrival] = (a for a, job_id in self._arrivals() if job_id == start.job_id)
        own = start.instead_of.freq_ghz if start.HasField("instead_of") else start.freq_ghz
        run = Run(
            arrival,
            start.cluster,
            units,
            self.known.jobs[start.job_id].asked.priority,
            self.now_s,
            mode,
            own,
            self.now_s,
            mode.limit_s,
        )
        self.running[start.job_id] = run
        self.managers.run(start.job_id, run)
        expected = self._expected.pop(arrival, None)
        here = Expected(start.cluster, self.now_s)
        require(expected in (None, here), f"{start.job_id}: {here}, forecast {expected}")

    def _modes(self, job_id: str, run: Run) -> list[Mode]:
        """In which a job may run where it does."""
        units = sum(count for _, count in run.units)
        return [self.known.mode(job_id, run.cluster, ghz, units) for ghz in PSTATES]

    def _arrivals(self) -> Iterable[tuple[int, str]]:
        return self.steady.layers.state.jobs.by_arrival.items()

    def _time_us(self) -> int:
        """Now, and later than all before."""
        self._sequence += 1
        return round(self.now_s * 1e6) + self._sequence

    def _take_changes(self) -> None:
        for placement, state in zip((self.steady, self.killed), self._states, strict=True):
            for key, value in placement.changes().items():
                if value is None:
                    state.pop(key, None)
                else:
                    state[key] = value

    # What has to hold over time ----------------------------------------------------------------

    def _check_promises(self, stood: Region) -> None:
        """The first of the queue starts when it was promised to, as long as nothing comes in
        between; a forecast says so too."""
        if self._promised is not None:
            job_id, start_s = self._promised
            waits = any(self._id(e.arrival) == job_id for e in stood.waiting)
            require(not waits or self.now_s < start_s, f"{job_id} was promised {start_s}")
        self._promised = None
        if self._is_limited or self.overrun or self._planned_until_s > self.now_s:
            return
        if not all(map(_is_steady, self.running.values())):
            return
        self._promised = self._promise_of_first(stood)
        if self._promised is not None and self.rounds % 3 == 0:
            self._check_forecast(*self._promised)

    def _promise_of_first(self, stood: Region) -> tuple[str, float] | None:
        """That of the first job's entries before any of another job: what is between them may take
        what those behind wait for."""
        promised = {(p.arrival, c): p.start_s for c, p in stood.promises.items()}
        first = min((e for e in stood.waiting if e[1:3] in promised), default=None)
        if first is None:
            return None
        other = min((e.order for e in stood.waiting if e.arrival != first.arrival), default=inf)
        own = [e for e in stood.waiting if e.arrival == first.arrival and e.order < other]
        starts_s = [promised[e[1:3]] for e in own if e[1:3] in promised]
        return (self._id(first.arrival), min(starts_s)) if starts_s else None

    def _check_forecast(self, job_id: str, start_s: float) -> None:
        """Schedulers that live on while limits hold start the first of the queue by the time that
        it was promised."""
        expected = self._forecast()
        found = [one for arrival, one in expected.items() if self._id(arrival) == job_id]
        require(bool(found), f"{job_id} was promised {start_s}, and is not expected to start")
        require(found[0].start_s <= start_s, f"{job_id}: promised {start_s}, expected {found[0]}")

    def _check_none_stands(self) -> None:
        """At the end no job is suspended that the caps would ever let run on."""
        stood = self._plain_state.of_runs(self.now_s, self.running, ())
        for job_id, run in self.running.items():
            if run.stands and run.cluster not in self.known.lost:
                own = run.arrival, run.cluster, max(run.left_s, 1.0), run.mode.draw_mw
                start_s = stood.earliest_watts(*own)
                require(start_s == inf, f"{job_id} may run on at {start_s}, and does not")

    def _forecast(self) -> dict[int, Expected]:
        snapshot = self.steady.queries.snapshot()
        return dict(StartsAhead(snapshot.now_s, snapshot.schedulers).starts())

    def _id(self, arrival: int) -> str:
        return self.steady.layers.state.jobs.by_arrival[arrival]


def _is_raise(run: Run, action: Action) -> bool:
    return action.kind == CLOCK and action.mode.ghz > run.mode.ghz


def _is_steady(run: Run) -> bool:
    """True of one that runs, and of which nothing is asked but a higher P-state."""
    return not run.stands and all(_is_raise(run, each) for each in run.pending)


def _action(decided: PlacementDecided) -> tuple[int, str, float, float, int]:
    asked = decided.action
    draw_mw = round(asked.draw_w * 1000)
    return asked.number, _KINDS[asked.kind], asked.freq_ghz, asked.walltime_s, draw_mw


def _handled(placement: Placement, event: Event) -> str:
    try:
        list(placement.handle(event))
    except (AlreadyAppliedError, RejectedError) as error:
        return repr(error)
    return ""


def _told(published: Iterable[Publish]) -> list[bytes]:
    return [p.event.payload.SerializeToString(deterministic=True) for p in published]


def _picked(known: Iterable[str], pick: int) -> str:
    names = sorted(known)
    return names[pick % len(names)] if names else ""
