"""What operators declare of the rules and of energy, which jobs they requeue, and what
goes on where they undeclared a cluster.

These come in some seeds alone (`episode.py`), so that the others play as they did before.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from coplace.v1.energy_pb2 import CoefficientsDeclared
from coplace.v1.jobs_pb2 import JobRequeueAsked

from shared.catalogue.policy_declarations import declaration_of
from shared.catalogue.policy_settings import DECLARABLE
from shared.domain.cap_measures import Measure
from shared.domain.eamc_policy import Policy, Reading
from tests.chaos.events import MODELS, publish, run_alone, some_job
from tests.chaos.squeezes import squeeze
from tests.chaos.world import World

_SETTINGS: Final[Mapping[str, Sequence[Any]]] = {
    "policy": [*Policy],
    "t_weight": [0.0, 0.5, 1.0, 2.0],
    "threshold": [0.0, 0.35, 1.0],
    "reading": [*Reading],
    "max_slowdown": [1.0, 1.25, 2.0],
    "quantile": [0.5, 0.9],
    "cap_counts_idle": [False, True],
    "cap_slowdown": [1.0, 1.5, 2.0],
    "cap_margin": [0.0, 0.01, 0.05],
    "cap_risk": [0.01, 0.1, 0.5],
    "cap_power_sd": [0.0, 0.16],
    "cap_user_correlation": [0.0, 0.6, 1.0],
    "cap_measures": [(), ("lower-frequency",), ("suspend",), (*Measure,), ("end",)],
    "cap_sharing": [False, True],
    "action_timeout_s": [0.0, 60.0, 600.0],
    "start_timeout_s": [0.0, 10.0, 300.0],
    "most_missed_starts": [0, 1, 3],
    "most_requeues": [0, 1, 5],
    "most_node_failures": [0, 1, 3],
    "node_failure_window_s": [60.0, 86_400.0],
}
_UNLIKELY: Final = 0.1  # coefficients are those of another machine


def declare_policy(world: World) -> None:
    """By what placement decides from now on: some settings, and some as it was started with."""
    rng, now_us = world.rng, world.clock.now_us
    named = rng.sample(sorted(_SETTINGS), rng.randint(1, 4))
    kept = rng.randint(0, len(named))
    values = {name: DECLARABLE[name].write(rng.choice(_SETTINGS[name])) for name in named[:kept]}
    declared = declaration_of(values, named[kept:], "too many wait", now_us)
    publish(world, "policy", f"{now_us}-{world.events}", policy_declared=declared)


def push_coefficients(world: World) -> None:
    """Those that were measured elsewhere; some are no machine's."""
    rng, now_us = world.rng, world.clock.now_us
    model = rng.choice(sorted(MODELS))
    if world.declared_us.get(f"coefficients/{model}") == now_us:
        return  # nobody could say which of the two is the later
    world.declared_us[f"coefficients/{model}"] = now_us
    _, pstates_ghz = MODELS[model]
    ratios = [to_ghz / from_ghz for from_ghz in pstates_ghz for to_ghz in pstates_ghz]
    offset_w = 1e5 if rng.random() < _UNLIKELY else rng.uniform(0, 50)
    declared = CoefficientsDeclared(
        node_model=model,
        tpi_scale="chaos",
        pstates_ghz=pstates_ghz,
        a=ratios,
        b=[rng.uniform(-1, 1) for _ in ratios],
        c=[offset_w if ratio != 1 else 0.0 for ratio in ratios],
        d=[1.0 for _ in ratios],
        e=[rng.uniform(-1, 1) if ratio != 1 else 0.0 for ratio in ratios],
        f=[0.0 for _ in ratios],
        available=[rng.random() < 0.9 for _ in ratios],
        reason="measured in the laboratory",
        declared_at_us=now_us,
    )
    publish(world, model, now_us, coefficients_declared=declared)


def ask_back(world: World) -> None:
    """Somebody requeues an attempt: one that runs, one that waits, or one that is over."""
    rng, now_us = world.rng, world.clock.now_us
    runs = [run for run in world.journal.runs[-20:] if run.ended_us is None]
    if runs and rng.random() < 0.7:
        run = rng.choice(runs)
        job_id, attempt = run.job_id, run.attempt
    else:
        job_id, attempt = some_job(world), rng.choice([1, 1, 2])
    if job_id:
        asked = JobRequeueAsked(
            job_id=job_id, attempt=attempt, reason="a node is slow", asked_at_us=now_us
        )
        publish(world, job_id, f"{now_us}-{world.events}", job_requeue_asked=asked)


def run_alone_unasked(world: World) -> None:
    """The resource manager of a cluster that was undeclared goes on running jobs by itself, also
    those that were meant for another one."""
    rng = world.rng
    there = sorted(world.clusters.keys() - world.undeclared)
    if not world.undeclared or not there:
        return
    run_alone(world, on=rng.choice(sorted(world.undeclared)), meant_for=rng.choice(there))


DECLARATIONS: Final[Mapping[Callable[[World], None], float]] = {
    declare_policy: 3,
    push_coefficients: 2,
    ask_back: 4,
    run_alone_unasked: 8,
    squeeze: 10,
}
