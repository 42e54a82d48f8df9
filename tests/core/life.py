"""A script played on placement, and every pass that it makes held to the plain rules."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import singledispatchmethod
from math import inf
from typing import Any, Final

from coplace.v1.control_pb2 import (
    LIMIT_SUBJECT_USER,
    POWER_SCOPE_CLUSTER,
    POWER_SCOPE_REGION,
    POWER_SCOPE_SITE,
    ClusterDeclared,
    NodeClass,
    PowerCapDeclared,
    PowerCapStep,
)
from coplace.v1.energy_pb2 import CoefficientsPublished, SignatureAt, SignatureUpdated
from coplace.v1.jobs_pb2 import JOB_OUTCOME_CANCELLED, JOB_OUTCOME_COMPLETED
from coplace.v1.placement_pb2 import (
    VERDICT_CANCELLED,
    VERDICT_START,
    PlacementDecided,
)
from coplace.v1.plans_pb2 import PlanItem

from shared.domain.errors import RejectedError
from shared.messaging.event import Event, Publish
from shared.messaging.stage import AlreadyAppliedError, Round
from shared.placement.explanation import NOTHING
from shared.placement.jobs import Tracked
from shared.placement.model import Rules
from shared.placement.outcomes import Decisions, Outcomes
from shared.placement.processor import Placement
from shared.scheduling.backfill import ClusterScheduler, Dispatch, schedule
from shared.scheduling.forecast import Expected, forecast
from shared.scheduling.wait_queue import Entry
from tests.core import systems
from tests.core.plain import Budget, Lack, Members, Nodes, Region, Shape, Start, Stay, Waiting
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import T0_US

CLUSTERS: Final = ("a", "b", "c")
SITES: Final = {"a": "s", "b": "s", "c": "t"}
# All are powers of two or sums of few, so that no time and no power is ever rounded.
PSTATES: Final = (1.0, 2.0, 4.0)
POWER_SHARE: Final = (0.625, 0.75, 1.0)
NOMINAL_S: Final = {"a": (64.0, 64.0, 64.0, 64.0), "b": (128.0, 64.0, 128.0, 32.0)}
IDLE_W, PEAK_GBPS, WEIGHT, MAX_SLOWDOWN = 64.0, 256.0, 8.0, 1.25
GBPS: Final = (0.0, 64.0, 128.0, 256.0)
SCOPES: Final = (POWER_SCOPE_CLUSTER, POWER_SCOPE_SITE, POWER_SCOPE_REGION)
CAP_STEP_W: Final = 64.0
_UNKNOWN: Final = 2**40
_RELAXED_TIMES: Final = 8


class BrokenError(AssertionError):
    """A rule of the core does not hold."""


def nominal_s(cluster: str, app: int) -> float:
    """One run of an application at the nominal P-state."""
    return NOMINAL_S.get(cluster, NOMINAL_S["a"])[app]


def node_w(cluster: str, app: int) -> float:
    """What it draws on a node used whole, at the nominal P-state."""
    return 192.0 + 64.0 * app + (32.0 if cluster == "b" else 0.0)


@dataclass(frozen=True)
class Run:
    """A job that runs, as its start was decided."""

    cluster: str
    units: tuple[tuple[int, int], ...]
    release_s: float
    draw_mw: int


@dataclass
class Pass:
    """One pass of a round: how the region stood before, and what came of it."""

    before: Region
    plan: Dispatch | None = None


class Watched(Placement):
    """Placement that shows each of its passes."""

    life: "Life"

    def _pass(self, decisions: Decisions) -> Outcomes:
        self.life.passes.append(Pass(self.life.stands(decisions.ended.now_s)))
        outcomes = super()._pass(decisions)
        self.life.passes[-1].plan = outcomes.refusals.plan
        return outcomes


@dataclass
class Life:
    """Two placements get the same events; one of them is killed again and again."""

    rules: Rules = field(
        default_factory=lambda: Rules(start_timeout_s=0.0, most_missed_starts=0, cap_measures=())
    )
    clusters: dict[str, systems.Declare] = field(default_factory=dict)
    jobs: dict[str, systems.Submit] = field(default_factory=dict)
    running: dict[str, Run] = field(default_factory=dict)
    overrun: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    caps: dict[tuple[int, str], list[tuple[float, int | None]]] = field(default_factory=dict)
    passes: list[Pass] = field(default_factory=list)
    rounds: int = 0
    now_s: float = T0_US / 1e6

    def __post_init__(self) -> None:
        self._sequence, self._is_limited, self._planned_until_s = 0, False, -inf
        self._inbox: list[PlacementDecided] = []
        # The first of the queue was promised a start then, and nothing came in between.
        self._promised: tuple[str, float] | None = None
        self._expected: dict[int, Expected] = {}
        self._begin()

    def _begin(self) -> None:
        self.steady, self.killed = self._placement({}), Placement({}, self.rules, 7.0)
        self._states: tuple[dict[str, bytes], dict[str, bytes]] = ({}, {})
        self._tell(region.pair_model((0.0, 0.0, 0.0, WEIGHT)))
        self._tell(region.power())

    def _placement(self, state: Mapping[str, bytes]) -> Watched:
        made = Watched(state, self.rules, 7.0)
        made.life = self
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
        if not self.clusters:
            policy = systems.POLICIES[step.policy % len(systems.POLICIES)]
            self.rules = Rules(
                policy,
                cap_counts_idle=step.counts_idle,
                cap_slowdown=1.0,  # who starts at a lower P-state is raised by an action
                start_timeout_s=0.0,
                most_missed_starts=0,
                cap_measures=(),  # the plain rules know no actions on what runs
            )
            self._begin()

    @do.register
    def _(self, step: systems.Declare) -> None:
        name = CLUSTERS[step.cluster]
        gpu_nodes = min(step.gpu_nodes, step.nodes - 1)
        classes = [
            NodeClass(nodes=gpu_nodes, memory_gib=64, resources={"gpu": 2}),
            NodeClass(nodes=step.nodes - gpu_nodes, memory_gib=32),
        ]
        declared = ClusterDeclared(
            cluster=name,
            site=SITES[name],
            node_model=f"model-{name}",
            nodes=step.nodes,
            cores_per_node=step.cores,
            pstates_ghz=PSTATES,
            idle_power_w=IDLE_W,
            peak_bandwidth_gbps=PEAK_GBPS,
            node_classes=classes if gpu_nodes else [],
        )
        self.clusters[name] = step
        self._tell(region.event(f"declared/{name}", declared, self._time_us()))
        self._tell(_coefficients(name))
        for app in range(len(GBPS)):
            self._tell(_signature(name, app))

    @do.register
    def _(self, step: systems.Submit) -> None:
        if not self.clusters:
            return
        job_id, at_us = f"job-{len(self.jobs)}", self._time_us()
        references = sorted(self.clusters)
        asked: dict[str, Any] = {
            "nodes": step.units,
            "walltime_s": float(step.walltime_s),
            "app_id": region.APPS[step.app],
            "reference_cluster": references[step.reference % len(references)],
            "shareable": step.shares,
            "priority": step.priority,
            "user": f"user-{step.user}",
        }
        if step.cores:
            asked |= {"cores_per_unit": step.cores, "units_per_node": step.most}
            asked |= {"memory_gib_per_unit": float(step.memory_gib)}
            asked |= {"resources_per_unit": {"gpu": step.gpus} if step.gpus else {}}
        if self._tell(region.submitted(job_id, at_us, **asked)):
            self.jobs[job_id] = step

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
        if not self.clusters:
            return
        scope = step.scope % len(SCOPES)
        names = [sorted(self.clusters), sorted({SITES[c] for c in self.clusters}), [""]][scope]
        name = names[step.pick % len(names)]
        idle_w = self._idle_mw(self._covered(scope, name)) / 1000
        steps = [
            (float(int(self.now_s) + later), None if level is None else idle_w + level * CAP_STEP_W)
            for later, level in step.levels
        ]
        at_us = self._time_us()
        message = PowerCapDeclared(
            scope=SCOPES[scope],
            name=name,
            steps=[PowerCapStep(from_us=round(s * 1e6), watts=watts) for s, watts in steps],
            declared_at_us=at_us,
        )
        if self._tell(region.event(f"capped/{at_us}", message, at_us)):
            self.caps[scope, name] = [
                (s, None if watts is None else round(watts * 1000)) for s, watts in steps
            ]

    @do.register
    def _(self, step: systems.LoseOrReturn) -> None:
        if name := _picked(self.clusters, step.pick):
            kind = region.returned if name in self.lost else region.lost
            self.lost ^= {name}
            self._tell(kind(name, self._time_us()))

    @do.register
    def _(self, step: systems.Ask) -> None:
        if job_id := _picked(self.jobs, step.pick):
            ask = (region.cancelled, region.held, region.released)[step.what % 3]
            self._tell(ask(job_id, self._time_us()))

    @do.register
    def _(self, step: systems.Limit) -> None:
        self._is_limited = True
        most = {"most_running_jobs": step.jobs, "most_nodes": step.nodes}
        self._tell(region.limits(LIMIT_SUBJECT_USER, "user-0", self._time_us(), **most))

    @do.register
    def _(self, step: systems.Plan) -> None:
        if not (self.jobs and self.rounds):
            return
        now_us = round(self.now_s * 1e6)
        cluster = sorted(self.clusters)[step.cluster % len(self.clusters)]
        how: dict[str, Any] = {
            "freq_ghz": PSTATES[step.pstate % len(PSTATES)],
            "not_before_us": now_us + step.wait_s * 1_000_000 if step.wait_s else 0,
            "walltime_s": 30 * 86_400.0,
            "draw_w": 1e9,
        }
        items = [
            PlanItem(job_id=_picked(self.jobs, pick), attempt=1, cluster=cluster, **how)
            for pick in step.picks
        ]
        until_us = now_us + step.valid_s * 1_000_000
        based = {"based_at_us": now_us - 1, "valid_until_us": until_us}
        self._planned_until_s = max(self._planned_until_s, until_us / 1e6)
        self._tell(region.proposed(self.rounds - 1, *items, **based))

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
        ended = Round(self.rounds, round(self.now_s * 1e6))
        both = [list(placement.end_round(ended)) for placement in (self.steady, self.killed)]
        self.rounds += 1
        require(_told(both[0]) == _told(both[1]), "who was restored decides something else")
        self._take_changes()
        require(self._states[0] == self._states[1], "who was restored writes something else")
        decisions = region.decisions(both[0])
        for one in decisions:
            require("please report" not in str(one), f"no explanation: {one.reason}")
            if one.verdict == VERDICT_START:
                self._note(one)
        self._inbox += [d for d in decisions if d.verdict in (VERDICT_START, VERDICT_CANCELLED)]
        self._check()

    def _go_on(self) -> None:
        """To the next instant at which something is due, and end a round there."""
        next_s = self._next_s()
        self.now_s = next_s if next_s < inf else self.now_s + 8.0
        for job_id, run in list(self.running.items()):
            if run.release_s <= self.now_s and job_id not in self.overrun:
                self._end(job_id, on_time=True)
        self.close()

    def _next_s(self) -> float:
        """When a job ends, or placement asks to be woken."""
        ends = (run.release_s for job, run in self.running.items() if job not in self.overrun)
        wake_us = self.steady.wake_us()
        wake_s = inf if wake_us is None else wake_us / 1e6
        return min((s for s in (*ends, wake_s) if s > self.now_s), default=inf)

    def _run_out(self) -> None:
        """All that runs ends at its limit, and what waits starts when a forecast says."""
        self.close()
        for job_id in self.overrun & self.running.keys():
            self._end(job_id)
        self.close()
        is_quiet = not self._is_limited and self._planned_until_s <= self.now_s
        self._expected = self._forecast() if is_quiet else {}
        for _ in range(4 * len(self.jobs) + 20):
            if self._next_s() == inf:
                break
            self._go_on()
        late = self._expected.keys() & {e.arrival for p in self.passes for e in p.before.waiting}
        require(not late, f"{late} never started, as a forecast said")

    # What is told ------------------------------------------------------------------------------

    def _tell(self, event: Event) -> bool:
        """Whether it was taken in."""
        self._promised = None
        outcomes = [_handled(placement, event) for placement in (self.steady, self.killed)]
        require(outcomes[0] == outcomes[1], f"who was restored takes {event.id} otherwise")
        return not outcomes[0]

    def _end(self, job_id: str, *, on_time: bool = False, cancelled: bool = False) -> None:
        promised = self._promised
        self.overrun.discard(job_id)
        del self.running[job_id]
        outcome = JOB_OUTCOME_CANCELLED if cancelled else JOB_OUTCOME_COMPLETED
        self._tell(region.finished(job_id, self._time_us(), 1, outcome))
        self._promised = promised if on_time else None

    def _obey(self, decided: PlacementDecided) -> None:
        """Start a job, or end it."""
        if decided.verdict == VERDICT_CANCELLED and decided.job_id in self.running:
            self._end(decided.job_id, cancelled=True)
        elif decided.verdict == VERDICT_START and decided.job_id in self.running:
            promised = self._promised
            self._tell(region.started(decided))
            self._promised = promised

    def _note(self, start: PlacementDecided) -> None:
        """What a decision says of a start, and when a forecast said that it would come."""
        counts = start.node_units or [1] * len(start.node_indices)
        units = tuple(zip(start.node_indices, counts, strict=True))
        job = self.jobs[start.job_id]
        draw_mw = self.draw_mw(job, start.cluster, start.freq_ghz, sum(counts))
        release_s = start.decided_at_us / 1e6 + start.walltime_s
        self.running[start.job_id] = Run(start.cluster, units, release_s, draw_mw)
        [arrival] = (
            a for a, job_id in self.steady._job_table.by_arrival.items() if job_id == start.job_id
        )
        expected = self._expected.pop(arrival, None)
        here = Expected(start.cluster, self.now_s)
        require(expected in (None, here), f"{start.job_id}: {here}, forecast {expected}")

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

    # How it stands, in plain words -------------------------------------------------------------

    def stands(self, now_s: float) -> Region:
        """The region before a pass."""
        nodes = {name: self._nodes(name) for name in self.clusters}
        return Region(now_s, nodes, self._budgets(), list(self._waiting()))

    def _nodes(self, cluster: str) -> Nodes:
        declared = self.clusters[cluster]
        gpu_nodes = min(declared.gpu_nodes, declared.nodes - 1)
        has = [
            {
                "cores": declared.cores,
                "memory": (64 if node < gpu_nodes else 32) * 1024 if gpu_nodes else _UNKNOWN,
                "gpu": 2 if node < gpu_nodes else 0,
            }
            for node in range(declared.nodes)
        ]
        stays = [
            Stay(
                held.holder,
                self.shape(self._job_of(held.holder), cluster),
                tuple(zip(*held.allocation, strict=True)),
                held.release_s,
                held.draw_mw,
            )
            for held in self.steady._job_table.holdings.occupancy[cluster].held
        ]
        return Nodes(has, lambda members: self._accepts(cluster, members), stays)

    def _waiting(self) -> Iterable[Waiting]:
        for cluster in self.clusters:
            if cluster not in self.lost:
                for entry in self.steady._waiting_jobs.queues.of(cluster):
                    yield self._as_waiting(entry, cluster)

    def _as_waiting(self, entry: Entry, cluster: str) -> Waiting:
        """An entry, after it was held to what its job asked for."""
        tracked = self.steady._job_table.of_arrival(entry.arrival)
        asked = self._job_of(entry.arrival)
        freq_ghz = self.steady._waiting_jobs.choice(tracked, cluster).candidate.freq_ghz
        right = asked.units, *self._mode(tracked, cluster, freq_ghz)
        found = entry.nodes, entry.limit_s, entry.draw_mw
        require(found == right, f"{entry} on {cluster} should be of {right}")
        lowest_ghz = freq_ghz / self.rules.cap_slowdown
        lower = [ghz for ghz in PSTATES if lowest_ghz <= ghz < freq_ghz]
        others = tuple((mode.limit_s, mode.draw_mw) for mode in entry.others)
        possible = {self._mode(tracked, cluster, ghz) for ghz in lower}
        require(possible.issuperset(others), f"{entry} on {cluster} has {possible} at lower clocks")
        shape = self.shape(asked, cluster)
        return Waiting(entry.order, entry.arrival, cluster, *right, shape, others)

    def _mode(self, tracked: Tracked, cluster: str, freq_ghz: float) -> tuple[float, int]:
        """Limit and draw at a P-state."""
        asked = self._job_of(tracked.arrival)
        limit_s = self.limit_s(tracked, cluster, freq_ghz)
        return limit_s, self.draw_mw(asked, cluster, freq_ghz, asked.units)

    def _job_of(self, arrival: int) -> systems.Submit:
        return self.jobs[self.steady._job_table.by_arrival[arrival]]

    def shape(self, job: systems.Submit, cluster: str) -> Shape:
        """A unit of a job on a cluster."""
        declared, app = self.clusters[cluster], region.APPS[job.app]
        least_mib = 32 * 1024 if min(declared.gpu_nodes, declared.nodes - 1) else 0
        if job.cores:
            needs = {"cores": job.cores, "memory": job.memory_gib * 1024, "gpu": job.gpus}
            return Shape(app, tuple(needs.items()), not job.shares, job.most)
        if job.shares:
            needs = {"cores": declared.cores // 2, "memory": least_mib // 2}
            return Shape(app, tuple(needs.items()), False, 1)
        return Shape(app, (("cores", declared.cores),), True, 1)

    def limit_s(self, tracked: Tracked, cluster: str, freq_ghz: float) -> float:
        """As far as the walltime goes there, which is of the reference cluster."""
        job = self._job_of(tracked.arrival)
        allowance = MAX_SLOWDOWN if job.shares else 1.0
        time_s = nominal_s(cluster, job.app) * PSTATES[-1] / freq_ghz
        return (
            job.walltime_s * allowance * time_s / nominal_s(tracked.job.reference_cluster, job.app)
        )

    def draw_mw(self, job: systems.Submit, cluster: str, freq_ghz: float, units: int) -> int:
        """What it draws beyond idle, by the cores that it holds."""
        cores = self.clusters[cluster].cores
        watts = node_w(cluster, job.app) * POWER_SHARE[PSTATES.index(freq_ghz)] - IDLE_W
        held = self.shape(job, cluster).cores * units
        return round(watts * 1000) * held // cores

    def _accepts(self, cluster: str, members: Members) -> bool:
        """Nobody is slowed down more than is allowed: 1 + w x own share x share of the others."""
        cores = self.clusters[cluster].cores
        shares = [GBPS[region.APPS.index(app)] * n / cores / PEAK_GBPS for app, n in members]
        total = sum(shares)
        return all(1 + WEIGHT * own * (total - own) <= MAX_SLOWDOWN for own in shares)

    def _covered(self, scope: int, name: str) -> list[str]:
        return [c for c in self.clusters if name in ((c,), (SITES[c],), ("",))[scope]]

    def _idle_mw(self, clusters: Iterable[str]) -> int:
        return sum(round(IDLE_W * 1000) * self.clusters[c].nodes for c in clusters)

    def _budgets(self) -> list[Budget]:
        found = []
        for (scope, name), steps in self.caps.items():
            covered = self._covered(scope, name)
            idle_mw = self._idle_mw(covered) if self.rules.cap_counts_idle else 0
            found.append(Budget(f"{scope} {name}", frozenset(covered), steps, idle_mw))
        return found

    # What has to hold --------------------------------------------------------------------------

    def _check(self) -> None:
        """All passes of a round."""
        for one in self.passes:
            assert one.plan is not None
            starts = [_start(s.entry, s.cluster, s.allocation) for s in one.plan.starts]
            one.before.check(starts)
            require(not one.before.faults, "; ".join(one.before.faults))
            found = {c: tuple(p) for c, p in one.plan.reservations().items()}
            right = {c: tuple(p) for c, p in one.before.promises.items()}
            require(found == right, f"promised {found}, should be {right}")
        self._check_holdings()
        last = self.passes[-1]
        for number, waiting in enumerate(last.before.waiting):
            self._check_reasons(last, waiting)
            if (number + self.rounds) % 6 == 0:
                self._check_relaxed(waiting)
        self._check_promise(last.before)
        if self._promised is not None and self.rounds % 3 == 0:
            self._check_forecast(*self._promised)

    def _check_holdings(self) -> None:
        """What placement thinks that runs is what its decisions said."""
        for cluster in self.clusters:
            held = {
                (self.steady._job_table.by_arrival[stay.arrival], *stay[2:])
                for stay in self._nodes(cluster).stays
            }
            said = {
                (job_id, run.units, run.release_s, run.draw_mw)
                for job_id, run in self.running.items()
                if run.cluster == cluster
            }
            require(held == said, f"{cluster} holds {held}, decided was {said}")

    def _check_reasons(self, one: Pass, waiting: Waiting) -> None:
        """What is said to stand against an entry does so, and nothing else."""
        assert one.plan is not None
        refusals, where = self.steady.queries._last, waiting.cluster
        assert refusals is not None
        entry = _entry_of(self.steady, waiting)
        why, told = refusals.refusals.why(where, entry)
        require(NOTHING not in why, f"{waiting}: {why}")
        lacks = one.before.lacks(waiting)
        shortages = [
            Lack(
                f"{[*_SCOPE_NAMES].index(s.cap.scope)} {s.cap.name}",
                s.at_s,
                s.available_mw,
                s.until_s,
            )
            for s in told
        ]
        require(sorted(shortages) == sorted(lacks), f"{waiting}: {why}; should be {lacks}")
        counted = type(one.plan.schedulers[where]).__name__ == "EasyScheduler"
        expected = (
            self._by_counting(one.before, waiting)
            if counted
            else self._in_parts(one.before, waiting)
        )
        parts = why.split("; ")
        of_nodes = "; ".join(p for p in parts if "power cap" not in p and "lower P-state" not in p)
        is_right = expected in of_nodes if expected else not of_nodes
        may_be_greedy = "leave less than" in of_nodes and waiting.shape.most != 1
        require(is_right or may_be_greedy, f"{waiting}: {why}; should be {expected!r}")

    def _by_counting(self, stood: Region, waiting: Waiting) -> str:
        """What stood against an entry when its turn came last."""
        total, was = len(stood.clusters[waiting.cluster].has), stood.refused.get(waiting[1:3])
        if waiting.units > total:
            return f"needs {waiting.units} nodes, the cluster has {total}"
        assert was is not None
        if waiting.units > was.free:
            return f"needs {waiting.units} nodes, {was.free} free"
        promise = was.promise
        if promise is None or stood.now_s + waiting.limit_s <= promise.start_s:
            return ""
        return f"its {was.extra} extra nodes" if waiting.units > was.extra else ""

    def _in_parts(self, stood: Region, waiting: Waiting) -> str:
        """What stands against an entry when the pass is over."""
        nodes, shape = stood.clusters[waiting.cluster], waiting.shape
        if waiting.units > nodes.most(shape):
            return f"has room for {nodes.most(shape)} when it is empty"
        if waiting.units > (free := nodes.units_beside_anyone(shape)):
            return f", {free} free"
        if waiting.units > (free := sum(nodes.room(shape, nodes.stays))):
            return f"{free} free beside neighbours that suit it"
        if stood.leaves_promise(waiting):
            return ""
        job_id = self.steady._job_table.by_arrival[stood.promises[waiting.cluster].arrival]
        return f"leave less than the reservation of {job_id} at"

    def _check_relaxed(self, waiting: Waiting) -> None:
        """An entry that asks no more than what there is, by what is named against it, starts."""
        entry = _entry_of(self.steady, waiting)
        require(not _starts(self._with(waiting, entry)), f"{waiting} starts in a second pass")
        for _ in range(_RELAXED_TIMES):
            plan = self._with(waiting, entry)
            if (waiting.arrival, waiting.cluster) in _starts(plan):
                return
            less = self._relaxed(plan, entry._replace(others=()), waiting.cluster)
            if less is None:
                return
            require(less != entry, f"{waiting}: what is named is no constraint")
            entry = less
        raise BrokenError(f"{waiting} does not start as {entry}")

    def _with(self, waiting: Waiting, entry: Entry) -> Dispatch:
        """A pass with an entry in the place of one that waits."""
        schedulers: dict[str, ClusterScheduler] = self.steady._schedulers(self.now_s, apart=True)
        queue = schedulers[waiting.cluster].queue
        queue.remove(entry.arrival)
        queue.add(entry)
        return schedule(self.now_s, schedulers)

    def _relaxed(self, plan: Dispatch, entry: Entry, cluster: str) -> Entry | None:
        """The entry with no more than what there is of each that is named; None where there is
        nothing."""
        scheduler = plan.schedulers[cluster]
        left_mw = [s.available_mw for s in scheduler.shortages(entry)]
        if left_mw:
            return entry._replace(draw_mw=min(left_mw)) if min(left_mw) >= 0 else None
        if type(scheduler).__name__ == "EasyScheduler":
            before = scheduler.standing_before(entry)  # type: ignore[union-attr]
            free, promise = before.free, before.reservation
        else:
            free, promise = scheduler.units_now(entry), scheduler.reservation  # type: ignore[union-attr]
        if entry.nodes > free:
            return entry._replace(nodes=free) if free else None
        if promise is None:
            return entry
        rest_s = promise.start_s - self.now_s
        return entry._replace(limit_s=min(rest_s, entry.limit_s)) if rest_s > 0 else None

    def _check_promise(self, stood: Region) -> None:
        """The first of the queue starts when it was promised to, as long as nothing comes in
        between."""
        if self._promised is not None:
            job_id, start_s = self._promised
            waits = any(self._id(e.arrival) == job_id for e in stood.waiting)
            require(not waits or self.now_s < start_s, f"{job_id} was promised {start_s}")
        self._promised = None
        if self._is_limited or self.overrun or self._planned_until_s > self.now_s:
            return
        promised = {(p.arrival, c): p.start_s for c, p in stood.promises.items()}
        first = min((e for e in stood.waiting if e[1:3] in promised), default=None)
        if first is not None:
            start_s = min(s for (arrival, _), s in promised.items() if arrival == first.arrival)
            before = {e.arrival for e in stood.waiting if e.order < first.order}
            if before <= {first.arrival}:
                self._promised = self._id(first.arrival), start_s

    def _check_forecast(self, job_id: str, start_s: float) -> None:
        """Schedulers that live on while limits hold start the first of the queue by the time that
        it was promised."""
        expected = self._forecast()
        found = [one for arrival, one in expected.items() if self._id(arrival) == job_id]
        require(bool(found), f"{job_id} was promised {start_s}, and is not expected to start")
        require(found[0].start_s <= start_s, f"{job_id}: promised {start_s}, expected {found[0]}")

    def _forecast(self) -> dict[int, Expected]:
        snapshot = self.steady.queries.snapshot()
        return dict(forecast(snapshot.now_s, snapshot.schedulers))

    def _id(self, arrival: int) -> str:
        return self.steady._job_table.by_arrival[arrival]


_SCOPE_NAMES: Final = ("cluster", "site", "region")


def require(is_so: bool, problem: str) -> None:
    """Raise BrokenError unless it is."""
    if not is_so:
        raise BrokenError(problem)


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


def _start(entry: Entry, cluster: str, allocation: Any) -> Start:
    units = tuple(zip(*allocation, strict=True)) if allocation else ()
    return Start(entry.arrival, cluster, entry.draw_mw, units)


def _starts(plan: Dispatch) -> set[tuple[int, str]]:
    return {(start.entry.arrival, start.cluster) for start in plan.starts}


def _entry_of(placement: Placement, waiting: Waiting) -> Entry:
    tracked = placement._job_table.of_arrival(waiting.arrival)
    entry = placement._waiting_jobs.entry(tracked, waiting.cluster)
    assert entry is not None
    return entry


def _coefficients(cluster: str) -> Event:
    """Times go with the clock alone, powers as POWER_SHARE says."""
    count = len(PSTATES)
    power = [to / of for of in POWER_SHARE for to in POWER_SHARE]
    payload = CoefficientsPublished(
        node_model=f"model-{cluster}",
        version=f"coefficients-{cluster}@0",
        tpi_scale="test",
        pstates_ghz=PSTATES,
        a=power,
        b=[0.0] * count**2,
        c=[0.0] * count**2,
        d=[1.0] * count**2,
        e=[0.0] * count**2,
        f=[0.0] * count**2,
        available=[True] * count**2,
    )
    return region.event(f"coefficients/{cluster}", region.sealed(payload))


def _signature(cluster: str, app: int) -> Event:
    at = SignatureAt(
        freq_ghz=PSTATES[-1],
        time_s=nominal_s(cluster, app),
        power_w=node_w(cluster, app),
        cpi=0.5,
        tpi=0.0,
        mem_gbps=GBPS[app],
        count=1,
    )
    payload = SignatureUpdated(
        app_id=region.APPS[app], node_model=f"model-{cluster}", tpi_scale="test", at=[at]
    )
    return region.event(f"signature/{app}/{cluster}", payload)
