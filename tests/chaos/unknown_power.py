"""Random systems of jobs of which nothing says what they draw, under caps: by what the nameplates
say, no start lets more be drawn than a cap allows, now or at a later step.

`python -m tests.chaos.unknown_power --systems 1000` plays many; that of a failed one is printed.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from coplace.v1.control_pb2 import (
    POWER_SCOPE_CLUSTER,
    POWER_SCOPE_REGION,
    POWER_SCOPE_SITE,
    ClusterDeclared,
    NodeClass,
    PowerCapDeclared,
    PowerScope,
)
from coplace.v1.placement_pb2 import (
    ACTION_KIND_REQUEUE,
    ACTION_KIND_SUSPEND,
    VERDICT_ACTION,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    PlacementDecided,
)

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.catalogue.payloads.domain_types import cluster_of
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.cluster import Cluster
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from shared.streams.stages.stage import AlreadyAppliedError, Round
from tests.unit.shared.placement import region

_T0_US: Final = region.T0_US
_ROUND_S: Final = 60
_ROUNDS: Final = 14
_SCOPES: Final = (POWER_SCOPE_CLUSTER, POWER_SCOPE_SITE, POWER_SCOPE_REGION)
# Amounts are counted in whole milliwatts; what is left over is less than one a job.
_ROUNDING_W: Final = 0.5


@dataclass(slots=True)
class Held:
    """Nodes of a job by what part of each it has, and until when it may have them."""

    cluster: str
    parts: Mapping[int, float]
    until_s: float
    grant: int
    suspended_s: float | None = None


@dataclass(slots=True)
class System:
    """One region, what was declared of it, and which nodes jobs hold by what was published."""

    rng: Random
    now_s: int = 0
    number: int = 0
    told: int = 0
    jobs: int = 0
    starts: int = 0
    caps_refused: int = 0
    clusters: dict[str, Cluster] = field(default_factory=dict)
    caps: dict[tuple[PowerScope.ValueType, str], PowerCapDeclared] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)
    waiting: dict[str, dict[str, int]] = field(default_factory=dict)
    state: dict[str, bytes] = field(default_factory=dict)
    placement: Placement = field(init=False)
    _rules: PolicySettings = field(init=False)

    def __post_init__(self) -> None:
        rng = self.rng
        self._rules = PolicySettings(rng.choice([*Policy]), cap_slowdown=rng.choice([1.0, 1.5]))
        self.placement = Placement({}, self._rules, 7.0)
        for name in ("p1", "p2", "p3")[: rng.randint(1, 3)]:
            self._declare(name)
        if rng.random() < 0.5:
            models = [cluster.node_model for cluster in self.clusters.values()]
            means_w = {name: rng.uniform(60, 400) for name in models}
            self._tell(region.power(fallback_power_w=means_w))

    def play(self) -> None:
        """Play some rounds. Raises AssertionError where a start lets more be drawn than a cap
        allows."""
        for _ in range(_ROUNDS):
            for _ in range(self.rng.randint(0, 4)):
                self._something()
            self._end_round()

    def _something(self) -> None:
        happening = self.rng.choices(
            (self._submit, self._cap, self._finish, self._start_elsewhere, self._redeclare),
            (10, 4, 3, 1, 1),
        )[0]
        happening()
        if self.rng.random() < 0.03:
            self.state = region.saved(self.state, self.placement.changes())
            self.placement = Placement(self.state, self._rules, 7.0)

    def _declare(self, name: str) -> None:
        rng = self.rng
        kind = "p1" if name == "p1" else "p2"
        idle_w, nodes = float(rng.randint(50, 150)), rng.randint(2, 8)
        most_w = idle_w + rng.choice([0.0, rng.randint(1, 900), rng.uniform(1, 900)])
        gpus = rng.randint(1, 4)
        classes = [NodeClass(nodes=nodes)]
        if rng.random() < 0.5:
            with_gpus = rng.randint(1, nodes - 1)
            tdp_w = {"gpu": 200.0} if rng.random() < 0.6 else {}
            classes = [
                NodeClass(nodes=with_gpus, resources={"gpu": gpus}, tdp_w=tdp_w),
                NodeClass(nodes=nodes - with_gpus),
            ]
        how = rng.choice(("declared", "declared", "derived", "both", "neither"))
        event = region.declared(
            kind,
            nodes,
            self._time_us(),
            cluster=name,
            site=rng.choice(("north", "south")),
            node_model=f"model-{name}",
            cores_per_node=rng.choice((1, 2, 3, 8, 48)),
            idle_power_w=idle_w,
            nameplate_power_w=most_w if how in ("declared", "both") else 0.0,
            processors_tdp_w=float(rng.randint(50, 400)) if how in ("derived", "both") else 0.0,
            node_classes=classes,
        )
        if self._tell(event):
            self.clusters[name] = _declared(event)

    def _redeclare(self) -> None:
        """A cluster has another nameplate than before, or none any more."""
        name = self.rng.choice([*self.clusters])
        if not any(held.cluster == name for held in self.held.values()) or self.rng.random() < 0.5:
            before = self.clusters[name]
            most_w = self.rng.choice((0.0, before.idle_power_w + self.rng.randint(0, 900)))
            event = region.declared(
                "p1" if name == "p1" else "p2",
                before.nodes,
                self._time_us(),
                cluster=name,
                site=before.site,
                node_model=before.node_model,
                cores_per_node=before.cores_per_node,
                idle_power_w=before.idle_power_w,
                nameplate_power_w=most_w,
            )
            if self._tell(event):
                self.clusters[name] = _declared(event)

    def _time_us(self) -> int:
        """No two declarations are of one time."""
        self.told += 1
        return _T0_US + self.now_s * 1_000_000 + self.told

    def _submit(self) -> None:
        rng, job_id = self.rng, f"job-{self.jobs}"
        self.jobs += 1
        asked: dict[str, Any] = {"nodes": rng.randint(1, 4)}
        kind = rng.choice(("whole", "shares", "cores", "gpus"))
        if kind == "shares":
            asked["shareable"] = True
        elif kind != "whole":
            asked["cores_per_unit"] = rng.choice((1, 2, 8))
            if kind == "gpus":
                asked["resources_per_unit"] = {"gpu": rng.randint(1, 2)}
        event = region.submitted(
            job_id,
            _T0_US + self.now_s * 1_000_000,
            app_id=f"unknown-{rng.randint(0, 5)}",
            user=f"user-{rng.randint(0, 3)}",
            walltime_s=float(rng.choice((120, 600, 3_600))),
            reference_cluster=rng.choice([*self.clusters]),
            **asked,
        )
        self._tell(event)

    def _cap(self) -> None:
        rng, scope = self.rng, self.rng.choice(_SCOPES)
        sites = sorted({cluster.site for cluster in self.clusters.values()})
        name = ""
        if scope != POWER_SCOPE_REGION:
            name = rng.choice([*self.clusters] if scope == POWER_SCOPE_CLUSTER else sites)
        covered = self._covered(scope, name)
        idle_w = sum(each.nodes * each.idle_power_w for each in covered)
        full_w = sum(each.nodes * (each.most_node_w or 500.0) for each in covered)
        steps: list[tuple[int, float | None]] = []
        from_s = self.now_s
        for _ in range(rng.randint(1, 3)):
            watts = idle_w + rng.random() * (full_w - idle_w) + 1
            steps.append((from_s, None if rng.random() < 0.15 else watts))
            from_s += rng.randint(1, 900)
        time_us = self._time_us()
        event = region.capped(scope, name, *steps, time_us=time_us)
        message = event.payload
        assert isinstance(message, PowerCapDeclared)
        unrated = [each.name for each in covered if not each.most_node_w]
        limits = any(watts is not None for _, watts in steps)
        is_refused = not self._tell(event)
        assert is_refused == bool(unrated and limits), f"a cap over {unrated or 'rated clusters'}"
        if is_refused:
            self.caps_refused += 1
        else:
            self.caps[scope, name] = message

    def _finish(self) -> None:
        if self.held:
            self._end(self.rng.choice(sorted(self.held)))

    def _end(self, job_id: str) -> None:
        held = self.held.pop(job_id)
        self._tell(region.finished(job_id, _T0_US + self.now_s * 1_000_000, grant=held.grant))

    def _start_elsewhere(self) -> None:
        """A resource manager starts a job of its own on whole nodes that are free."""
        job_id, name = f"own-{self.jobs}", self.rng.choice([*self.clusters])
        self.jobs += 1
        cluster = self.clusters[name]
        taken = {node for held in self.held.values() if held.cluster == name for node in held.parts}
        free = sorted(set(range(cluster.nodes)) - taken)
        if not free:
            return
        nodes = self.rng.sample(free, self.rng.randint(1, min(2, len(free))))
        at_us = _T0_US + self.now_s * 1_000_000
        asked = region.submitted(
            job_id, at_us, app_id="own", nodes=len(nodes), reference_cluster=name, walltime_s=600.0
        )
        if self._tell(asked):
            decided = PlacementDecided(
                job_id=job_id,
                attempt=1,
                cluster=name,
                node_indices=sorted(nodes),
                decided_at_us=at_us,
            )
            self._tell(region.started(decided))
            self.held[job_id] = Held(name, dict.fromkeys(nodes, 1.0), self.now_s + 600.0, 0)

    def _end_round(self) -> None:
        self.now_s += _ROUND_S
        for job_id in self._over():
            self._end(job_id)
        self.number += 1
        ended = Round(self.number, _T0_US + self.now_s * 1_000_000)
        answers: list[Event] = []
        touched: dict[str, float] = {}
        for decided in region.decisions(self.placement.end_round(ended)):
            if decided.verdict == VERDICT_START:
                self._start(decided)
                held = self.held[decided.job_id]
                touched[held.cluster] = max(held.until_s, touched.get(held.cluster, 0.0))
                answers.append(region.started(decided))
            elif decided.verdict == VERDICT_ACTION:
                answers.append(self._act(decided, ended.ended_at_us, touched))
            elif decided.verdict == VERDICT_WITHDRAWN:
                raise AssertionError(f"{decided.job_id} is withdrawn: {decided.reason}")
        for event in answers:
            self._tell(event)
        for name, until_s in sorted(touched.items()):
            self._require_caps_over(name, until_s)

    def _over(self) -> list[str]:
        """The jobs whose limits are over."""
        running = [(job_id, held) for job_id, held in self.held.items() if held.suspended_s is None]
        return [job_id for job_id, held in running if held.until_s <= self.now_s]

    def _start(self, decided: PlacementDecided) -> None:
        self.starts += 1
        cluster = self.clusters[decided.cluster]
        counts = list(decided.node_units) or [1] * len(decided.node_indices)
        share = decided.cores_per_node / cluster.cores_per_node
        parts = {n: count * share for n, count in zip(decided.node_indices, counts, strict=True)}
        until_s = self.now_s + decided.walltime_s
        self.held[decided.job_id] = Held(decided.cluster, parts, until_s, decided.grant)
        self._require_rated(decided)

    def _require_rated(self, decided: PlacementDecided) -> None:
        """Nothing unknown starts under a cap where nobody says what nodes draw at most."""
        cluster = self.clusters[decided.cluster]
        if not cluster.most_node_w:
            caps = [cap for key, cap in self.caps.items() if cluster in self._covered(*key)]
            assert not any(self._limits_w(cap, self.now_s) for cap in caps), decided.job_id

    def _act(self, decided: PlacementDecided, now_us: int, touched: dict[str, float]) -> Event:
        held = self.held[decided.job_id]
        if self.rng.random() < 0.2 or decided.action.kind == ACTION_KIND_REQUEUE:
            return region.refused(decided, now_us)
        if decided.action.kind == ACTION_KIND_SUSPEND:
            held.suspended_s = self.now_s
        elif held.suspended_s is not None:
            held.until_s += self.now_s - held.suspended_s
            held.suspended_s = None
            touched[held.cluster] = max(held.until_s, touched.get(held.cluster, 0.0))
        return region.done(decided, now_us)

    def _require_caps_over(self, name: str, until_s: float) -> None:
        """By the nameplates, all caps over a cluster where something started allow what runs there
        now, and at their steps until that ends at the latest what may still run then."""
        for key, cap in self.caps.items():
            covered = self._covered(*key)
            if self.clusters[name] not in covered or any(not c.most_node_w for c in covered):
                continue
            for at_s, cap_w in self._limits_w(cap, self.now_s):
                if at_s >= until_s:
                    continue
                drawn_w = self._drawn_w(covered, at_s)
                assert drawn_w <= cap_w + _ROUNDING_W, (
                    f"{drawn_w:,.3f} W under {key} at {at_s} s, which allows {cap_w:,.3f} W"
                )

    def _covered(self, scope: PowerScope.ValueType, name: str) -> list[Cluster]:
        return [
            cluster
            for cluster in self.clusters.values()
            if scope == POWER_SCOPE_REGION
            or name == (cluster.name if scope == POWER_SCOPE_CLUSTER else cluster.site)
        ]

    def _limits_w(self, cap: PowerCapDeclared, now_s: float) -> list[tuple[float, float]]:
        """What a cap allows now and at its later steps."""
        found = [((each.from_us - _T0_US) / 1e6, each) for each in cap.steps]
        past = [(at_s, each) for at_s, each in found if at_s <= now_s][-1:]
        later = [(at_s, each) for at_s, each in found if at_s > now_s]
        steps = [(now_s, each) for _, each in past] + later
        return [(at_s, each.watts) for at_s, each in steps if each.HasField("watts")]

    def _drawn_w(self, covered: Sequence[Cluster], at_s: float) -> float:
        """What their nodes draw together: by nameplate as far as jobs have them, idle the rest."""
        return sum(self._cluster_w(cluster, at_s) for cluster in covered)

    def _cluster_w(self, cluster: Cluster, at_s: float) -> float:
        used = sum(self._parts(cluster.name, at_s))
        beyond_w = cluster.most_node_w - cluster.idle_power_w
        return cluster.nodes * cluster.idle_power_w + used * beyond_w

    def _parts(self, cluster: str, at_s: float) -> Iterator[float]:
        for held in self.held.values():
            if held.cluster == cluster and held.until_s > at_s and held.suspended_s is None:
                yield sum(held.parts.values())

    def _tell(self, event: Event) -> bool:
        try:
            self.placement.handle(event)
        except (AlreadyAppliedError, RejectedError):
            return False
        return True


def _declared(event: Event) -> Cluster:
    assert isinstance(event.payload, ClusterDeclared)
    return cluster_of(event.payload)


@dataclass(slots=True)
class Played:
    """What so many systems had."""

    systems: int = 0
    jobs: int = 0
    starts: int = 0
    caps: int = 0
    caps_refused: int = 0

    def add(self, system: System) -> None:
        """Count one more."""
        self.systems += 1
        self.jobs += system.jobs
        self.starts += system.starts
        self.caps += len(system.caps)
        self.caps_refused += system.caps_refused


def main() -> None:
    """Play systems by their seeds."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--systems", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first system")
    given, played = parser.parse_args(), Played()
    for seed in range(given.seed, given.seed + given.systems):
        system = System(Random(seed))
        try:
            system.play()
        except AssertionError as error:
            raise SystemExit(f"system {seed}: {error}") from error
        played.add(system)
    print(played)


if __name__ == "__main__":
    main()
