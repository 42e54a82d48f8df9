"""No start took what is drawn above a cap that placement knew of: worked out from the topics.

What is counted is the least that can be: a start draws until placement gets anything of its job
that may end it. So nothing is wrongly called a violation.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import exp, sqrt
from statistics import NormalDist
from typing import Final

from coplace.v1.control_pb2 import (
    POWER_SCOPE_CLUSTER,
    POWER_SCOPE_REGION,
    ClusterDeclared,
    ClusterLost,
    ClusterReturned,
    ClusterUndeclared,
    PowerCapDeclared,
    RoundEnded,
)
from coplace.v1.jobs_pb2 import (
    JobActionDone,
    JobActionRefused,
    JobCancelled,
    JobDeclined,
    JobFinished,
    JobRequeued,
    JobSeized,
    JobStarted,
    JobSubmitted,
)
from coplace.v1.placement_pb2 import (
    PREDICTION_BASIS_FIRST_RUN,
    VERDICT_ACTION,
    VERDICT_START,
    Candidate,
    PlacementDecided,
    Verdict,
)
from coplace.v1.prediction_pb2 import RunningPowerMeasured
from google.protobuf.message import Message

from shared.catalogue.event import Event
from tests.chaos.audit.evidence import Evidence
from tests.chaos.audit.meters import Nodes, SilentMeters, cores_of_unit, most_node_w
from tests.chaos.audit.rules import Rules

_MAY_END = (
    JobActionDone,
    JobDeclined,
    JobFinished,
    JobRequeued,
    JobSeized,
    JobStarted,
    JobSubmitted,
)
# Of sums of margins, where draws are whole milliwatts and caps are rounded down to one.
_ROUNDING_W: Final = 0.01
Stamp = tuple[int, str]


@dataclass(slots=True)
class _Run:
    """A start that was decided; confirmed once its resource manager said so, untouched until
    something is asked of it. Of an unknown one nothing said what it draws."""

    attempt: int
    grant: int
    cluster: str
    draw_w: float
    freq_ghz: float
    nodes: Nodes
    is_unknown: bool = False
    is_confirmed: bool = False
    is_untouched: bool = True


@dataclass(slots=True)
class _Known:
    """What placement knows, each as last published, and what runs."""

    silent: SilentMeters
    rules: Rules = field(default_factory=Rules)
    newest: dict[tuple[str, str], tuple[Stamp, Message]] = field(default_factory=dict)
    # By job: its start, until when, and what may err of what it draws, W, with its deviation.
    draws: dict[str, tuple[_Run, int, tuple[float, float]]] = field(default_factory=dict)
    runs: dict[str, _Run] = field(default_factory=dict)
    # Whose job each is.
    users: dict[str, str] = field(default_factory=dict)

    def learn(self, event: Event) -> None:
        self.rules.learn(event)
        self.silent.learn(event)
        if isinstance(event.payload, JobSubmitted):
            self.users[event.payload.job_id] = event.payload.user
        subject = _subject(event.payload)
        stamp = event.time_us, event.id
        if subject is not None:
            before = self.newest.get(subject)
            if before is None or stamp > before[0]:
                self.newest[subject] = stamp, event.payload
                if before is not None and isinstance(event.payload, ClusterDeclared):
                    self._estimate_anew(before[1], event.payload)
        elif isinstance(event.payload, _MAY_END):
            self.draws.pop(event.payload.job_id, None)
        self._follow(event.payload)

    def _estimate_anew(self, before: Message, now: ClusterDeclared) -> None:
        """Runs of which nothing said what they draw are estimated anew where the nodes of their
        cluster draw another power at most: by what is known then, which may be less."""
        if isinstance(before, ClusterDeclared) and _rating(before) == _rating(now):
            return
        runs = {**{job_id: run for job_id, (run, _, _) in self.draws.items()}, **self.runs}
        for job_id, run in runs.items():
            if run.is_unknown and run.cluster == now.cluster:
                self.runs.pop(job_id, None)
                self.draws.pop(job_id, None)

    def _follow(self, payload: Message) -> None:
        """What runs by the decisions, and what was asked of it."""
        match payload:
            case JobStarted() if payload.grant:
                run = self.runs.get(payload.job_id)
                if run is not None and (run.attempt, run.grant) == (payload.attempt, payload.grant):
                    run.is_confirmed = run.cluster == payload.cluster
            case RunningPowerMeasured():
                self._correct(payload)
            case JobActionDone() | JobActionRefused():
                run = self.runs.get(payload.job_id)
                if run is not None and run.attempt == payload.attempt:
                    run.is_untouched = False
            case JobStarted() | JobFinished() | JobDeclined() | JobRequeued() | JobSeized():
                self.runs.pop(payload.job_id, None)
            case JobCancelled() | JobSubmitted():
                self.runs.pop(payload.job_id, None)

    def _correct(self, measured: RunningPowerMeasured) -> None:
        """Meters say what a run draws that nothing was asked of."""
        run = self.runs.get(measured.job_id)
        if run is None or not (run.is_confirmed and run.is_untouched):
            return
        here = measured.attempt, measured.cluster, measured.freq_ghz
        cluster = self.clusters.get(run.cluster)  # none: it is undeclared, and under no cap
        if cluster is not None and here == (run.attempt, run.cluster, run.freq_ghz):
            run.draw_w = _least_w(measured.node_power_w, cluster, _whole(run.nodes, cluster))

    def ask(self, decided: PlacementDecided) -> None:
        """Placement asked for something to be done."""
        run = self.runs.get(decided.job_id)
        if run is not None:
            run.is_untouched = False
            self.draws.pop(decided.job_id, None)

    @property
    def clusters(self) -> dict[str, ClusterDeclared]:
        found = (payload for _, payload in self.newest.values())
        return {c.cluster: c for c in found if isinstance(c, ClusterDeclared)}

    @property
    def caps(self) -> list[PowerCapDeclared]:
        found = (payload for _, payload in self.newest.values())
        return [cap for cap in found if isinstance(cap, PowerCapDeclared)]

    def start(self, decided: PlacementDecided) -> None:
        if decided.cluster not in self.clusters:
            return  # undeclared by then: another check finds it
        draw_w = _draw_w(decided, self.clusters[decided.cluster])
        ends_us = decided.decided_at_us + round(decided.walltime_s * 1e6)
        errs = _errs(decided, self.clusters[decided.cluster])
        grant, mode = (decided.attempt, decided.grant), (draw_w, decided.freq_ghz)
        run = _Run(*grant, decided.cluster, *mode, Nodes.of(decided), _is_unknown(decided))
        self.draws[decided.job_id] = replace(run), ends_us, errs
        self.runs[decided.job_id] = run

    def counted_w(self, run: _Run) -> float:
        """Of a run: by nameplate where meters are silent."""
        if self.is_seen(run):
            return run.draw_w
        silent, cluster = self.silent.on(run.cluster), self.clusters[run.cluster]
        return run.nodes.counted_w(run.draw_w, silent, cluster)

    def is_seen(self, run: _Run) -> bool:
        """Whether all its meters are read."""
        return self.silent.on(run.cluster).isdisjoint(run.nodes.units)

    @property
    def lost(self) -> set[str]:
        """Clusters that are out of reach."""
        found = (payload for _, payload in self.newest.values())
        return {lost.cluster for lost in found if isinstance(lost, ClusterLost)}

    def covered_by(self, cap: PowerCapDeclared) -> set[str]:
        """The clusters that a cap is on."""
        return {name for name, cluster in self.clusters.items() if _covers(cap, cluster)}

    def idle_w(self, cap: PowerCapDeclared) -> float:
        """What nodes draw that nobody uses, where that counts."""
        if not self.rules["cap_counts_idle"]:
            return 0.0
        covered = [c for c in self.clusters.values() if _covers(cap, c)]
        return sum(c.nodes * c.idle_power_w for c in covered)

    def drawn_w(self, cap: PowerCapDeclared, at_us: int, now_us: int) -> float:
        """By what idles and runs of what a cap covers, at the joint quantile that is asked for; who
        is overdue draws on."""
        covered = self.covered_by(cap)
        there = {
            job_id: (
                self.counted_w(run),
                *(self._error_w(*errs) if self.is_seen(run) else (0.0, 0.0)),
            )
            for job_id, (run, ends_us, errs) in self.draws.items()
            if run.cluster in covered and (ends_us > at_us or ends_us <= now_us)
        }
        drawn_w = self.idle_w(cap) + sum(draw_w for draw_w, _, _ in there.values())
        if self.rules["cap_risk"] == 0.5:
            return drawn_w
        deviation_w = self._deviation_w({job_id: each[2] for job_id, each in there.items()})
        margin_w = NormalDist().inv_cdf(1 - self.rules["cap_risk"]) * deviation_w
        return drawn_w + sum(more_w for _, more_w, _ in there.values()) + margin_w

    def _deviation_w(self, deviations_w: dict[str, float]) -> float:
        """That of what jobs draw together: those of one user err alike in part."""
        variance, of_users = 0.0, dict[str, float]()
        for job_id, each_w in deviations_w.items():
            user = self.users.get(job_id) or job_id
            before_w = of_users.get(user, 0.0)
            variance += each_w * each_w
            variance += 2 * self.rules["cap_user_correlation"] * each_w * before_w
            of_users[user] = before_w + each_w
        return sqrt(variance)

    def _error_w(self, whole_w: float, sd: float) -> tuple[float, float]:
        """By how much more the job draws in the mean, and the deviation of that: a lognormal
        error of all that it draws, of its prediction and of runs of its application."""
        of_runs = self.rules["cap_power_sd"]
        square = exp(sd**2 + of_runs**2)
        return whole_w * (sqrt(square) - 1), whole_w * sqrt(square * (square - 1))


def no_start_breaks_a_cap(evidence: Evidence) -> Iterator[str]:
    """Now and at each step ahead until its limit, as predicted."""
    starts = _by_round(evidence, VERDICT_START)
    known = _Known(SilentMeters.of(evidence))
    for event in evidence.taken():
        if isinstance(event.payload, RoundEnded):
            known.silent.end_round(event.payload.round, known.clusters)
            # Another check is about what started on an undeclared cluster.
            of_round = starts.pop(event.payload.round, [])
            of_round = [each for each in of_round if each.cluster in known.clusters]
            for decided in of_round:
                known.start(decided)
            for decided in of_round:
                yield from _broken(known, decided, event.payload.ended_at_us)
        else:
            known.learn(event)


def what_exceeds_a_cap_is_asked_to_draw_less(evidence: Evidence) -> Iterator[str]:
    """Of what nobody was asked yet alone: the round in which it is more than a cap allows
    asks something of one of them."""
    starts, actions = _by_round(evidence, VERDICT_START), _by_round(evidence, VERDICT_ACTION)
    known = _Known(SilentMeters.of(evidence))
    for ended in evidence.ends_of_rounds(known.learn):
        known.silent.end_round(ended.round, known.clusters)
        for decided in actions.pop(ended.round, []):
            known.ask(decided)
        for cap in known.caps:
            yield from _unasked(known, cap, ended)
        for decided in starts.pop(ended.round, []):
            known.start(decided)


def _by_round(evidence: Evidence, verdict: Verdict.ValueType) -> dict[int, list[PlacementDecided]]:
    found: dict[int, list[PlacementDecided]] = {}
    for decided in evidence.decisions:
        if decided.verdict == verdict:
            found.setdefault(decided.round, []).append(decided)
    return found


def _unasked(known: _Known, cap: PowerCapDeclared, ended: RoundEnded) -> Iterator[str]:
    cap_w = _cap_w(cap, ended.ended_at_us)
    covered, idle_w = known.covered_by(cap), known.idle_w(cap)
    if not known.rules.measures & {"suspend", "end"}:
        return  # some have no lower P-state
    runs = {
        job_id: known.counted_w(run)
        for job_id, run in known.runs.items()
        if run.cluster in covered and run.cluster not in known.lost
        if run.is_confirmed and run.is_untouched and run.draw_w
    }
    if cap_w is not None and runs and idle_w + sum(runs.values()) > cap_w:
        yield (
            f"round {ended.round}: {', '.join(sorted(runs))} draw {sum(runs.values())} W beside "
            f"{idle_w} W of idle nodes, the cap of {cap.name or 'the region'} is {cap_w} W, and "
            "none of them was asked for anything"
        )


def _broken(known: _Known, decided: PlacementDecided, now_us: int) -> Iterator[str]:
    cluster = known.clusters[decided.cluster]
    ends_us = now_us + decided.walltime_s * 1e6
    for cap in known.caps:
        if not _covers(cap, cluster):
            continue
        ahead = [s.from_us for s in cap.steps if now_us < s.from_us < ends_us]
        for at_us in [now_us, *ahead]:
            cap_w, drawn_w = _cap_w(cap, at_us), known.drawn_w(cap, at_us, now_us)
            share = 1 - known.rules["cap_margin"]
            if cap_w is not None and drawn_w > share * cap_w + _ROUNDING_W:
                yield (
                    f"{decided.job_id} started in round {decided.round}: {drawn_w} W of {cap_w} W "
                    f"of {cap.name or 'the region'} at {at_us}"
                )


def _subject(payload: Message) -> tuple[str, str] | None:
    match payload:
        case ClusterDeclared() | ClusterUndeclared():
            return "cluster", payload.cluster
        case ClusterLost() | ClusterReturned():
            return "lost", payload.cluster
        case PowerCapDeclared():
            return "cap", f"{payload.scope}/{payload.name}"
    return None


def _covers(cap: PowerCapDeclared, cluster: ClusterDeclared) -> bool:
    if cap.scope == POWER_SCOPE_REGION:
        return True
    return cap.name == (cluster.cluster if cap.scope == POWER_SCOPE_CLUSTER else cluster.site)


def _cap_w(cap: PowerCapDeclared, at_us: int) -> float | None:
    passed = [step for step in cap.steps if step.from_us <= at_us]
    return passed[-1].watts if passed and passed[-1].HasField("watts") else None


def _errs(decided: PlacementDecided, cluster: ClusterDeclared) -> tuple[float, float]:
    """All that it draws, with idle power, and the deviation that its prediction gives; 0 where it
    is counted as drawing nothing."""
    if not _draw_w(decided, cluster):
        return 0.0, 0.0
    on = _chosen(decided)
    units = sum(decided.node_units) or len(decided.node_indices)
    whole_w = on.power_w * units * cores_of_unit(decided) / cluster.cores_per_node
    return whole_w, on.power_sd


def _draw_w(decided: PlacementDecided, cluster: ClusterDeclared) -> float:
    """Beyond idle, in whole milliwatts as placement counts them, rounded down; by nameplate where
    nothing says what the job draws."""
    node_w = most_node_w(cluster) if _is_unknown(decided) else _chosen(decided).power_w
    return _least_w(node_w, cluster, _whole(Nodes.of(decided), cluster))


def _is_unknown(decided: PlacementDecided) -> bool:
    """Whether nothing said what a job draws that starts."""
    on = _chosen(decided)
    return on.basis == PREDICTION_BASIS_FIRST_RUN and not on.HasField("power_sd")


def _chosen(decided: PlacementDecided) -> Candidate:
    [on] = [c for c in decided.candidates if c.cluster == decided.cluster]
    return on


def _rating(cluster: ClusterDeclared) -> tuple[object, ...]:
    """What the most that a run draws there follows from."""
    of_nodes = [each.SerializeToString(deterministic=True) for each in cluster.node_classes]
    return most_node_w(cluster), cluster.idle_power_w, cluster.cores_per_node, of_nodes


def _whole(nodes: Nodes, cluster: ClusterDeclared) -> float:
    """How many whole nodes its cores are."""
    return sum(nodes.units.values()) * nodes.cores_per_node / cluster.cores_per_node


def _least_w(node_w: float, cluster: ClusterDeclared, nodes: float) -> float:
    beyond_mw = (node_w - cluster.idle_power_w) * nodes * 1000
    return max(0, int(beyond_mw) - 1) / 1000
