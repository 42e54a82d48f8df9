"""`coplace simulate`: what a log or a model's jobs come to under policies, weights and caps."""

from collections.abc import Mapping
from dataclasses import replace
from math import inf, isnan
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

from shared.domain.errors import UnusableError
from shared.eamc.frequency import Reading
from shared.eamc.ranking import Policy
from shared.scheduling.lookahead import Prices
from shared.scheduling.runtimes import Runtimes
from shared.simulation.lookahead import AS_TUNED as USUAL
from shared.simulation.lookahead import Ahead
from shared.simulation.policy import SimulatedPolicy
from shared.simulation.recorded.caps import CapChanges, NewCap
from shared.simulation.sweep import THRESHOLD
from shared.simulation.system import Unit

_Number = TypeVar("_Number", int, float)

# No figure of a simulation comes near; squares and products of such still have room.
MOST: Final = 1e12
MOST_JOBS: Final = 10_000_000


def _amount(what: str) -> Any:
    return typer.Option(min=0, max=MOST, help=what)


Policies = Annotated[
    list[SimulatedPolicy] | None,
    typer.Option("--policy", help="What decides; easy if none; again to compare."),
]
Out = Annotated[Path | None, typer.Option(help="Folder of tables, summaries and pictures.")]
Kill = Annotated[bool, typer.Option("--kill/--no-kill", help="End jobs at their walltime.")]
CapW = Annotated[
    float | None,
    _amount("Power of all jobs at most, W; of each of --clusters."),
]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes; as many as cores if not said")]

# One pool of processors.
Swf = Annotated[Path | None, typer.Option(help="Log in the Standard Workload Format.")]
Procs = Annotated[
    int | None, typer.Option(min=1, help="Processors of the pool; else what the log says.")
]
JobsCsv = Annotated[
    Path | None, typer.Option(help="File of job_id, submit_s, start_s, end_s, procs.")
]
ProcW = Annotated[float | None, _amount("Power of a busy processor, W.")]
RuntimesName = Annotated[
    Runtimes | None, typer.Option(help="What backfilling expects; requested. Of easy alone.")
]
IdleW = Annotated[float | None, _amount("Power of an idle processor, W.")]

# Nodes that are given out in parts.
Eurora = Annotated[
    Path | None,
    typer.Option(help="An instance of Eurora, or a folder of them, by EASY without a cap."),
]

# Clusters of nodes whose energy is known.
Clusters = Annotated[
    str | None, typer.Option(help="Built-in clusters, the primary one first: p1,p2.")
]
SystemFile = Annotated[Path | None, typer.Option(help="Clusters as YAML, docs/simulation.md.")]
Coefficients = Annotated[
    Path | None, typer.Option(help="Folder of *_coefficients.csv and apps.csv.")
]
Workload = Annotated[str | None, typer.Option(help="cirne (if not said), lublin or a log's file.")]
Counts = Annotated[Unit | None, typer.Option(help="What the sizes of a log count; nodes.")]
Jobs = Annotated[
    int | None, typer.Option(min=1, max=MOST_JOBS, help="Jobs; 5000 of a model, all of a log.")
]
Speed = Annotated[float | None, _amount("How many times as fast jobs arrive; 1.")]
Mixes = Annotated[
    list[str] | None,
    typer.Option(
        "--mix",
        help="Applications: uniform, or the share of jobs that are best off elsewhere than on the "
        "first cluster; again to compare.",
    ),
]
Weights = Annotated[
    list[float] | None,
    typer.Option(
        "--t-weight", min=0, max=MOST, help="Weight of time over energy; 1; again to compare."
    ),
]
Seeds = Annotated[
    list[int] | None, typer.Option("--seed", min=0, help="Of the jobs; 1 if none; again for more.")
]
Threshold = Annotated[float | None, _amount("Of priority-inc-v; 0.35.")]
ReadingName = Annotated[
    Reading | None, typer.Option(help="Of equations 4 and 5 and the threshold, ADR 0003.")
]
Tariffs = Annotated[
    Path | None, typer.Option(help="CSV of cluster, hour and price_per_kwh or gco2_per_kwh.")
]

# Of look-ahead.
ResponsePrice = Annotated[
    float | None,
    _amount("Of an hour of a job's response, tariff's unit; 1.5."),
]
UnitPrice = Annotated[
    float | None,
    _amount("Of an hour that a job holds a node or core; 0.33."),
]
MakespanPrice = Annotated[float | None, _amount("Of an hour until the last limit; 0.")]
Head = Annotated[int | None, typer.Option(min=2, help="Jobs that are played forward; 12.")]
Budget = Annotated[int | None, typer.Option(min=0, help="Proposals at one instant; 1.")]
Large = Annotated[
    float | None,
    _amount("Units x root of h from which jobs count alike; 120."),
]
PatienceH = Annotated[
    float | None,
    _amount("Who has waited so long is passed no more, h; 96."),
]


# A region's own record.
Recorded = Annotated[
    Path | None,
    typer.Option(help="Record of a region: lines of `coplace tail placement.inputs`, or a demo's."),
]
FromKafka = Annotated[
    bool | None, typer.Option("--from-kafka", help="The record that this deployment's topics hold.")
]
Decisions = Annotated[
    Path | None,
    typer.Option(help="What was decided on --recorded; decisions.jsonl beside it if there is one."),
]
NewCaps = Annotated[
    list[str] | None,
    typer.Option(
        "--cap",
        metavar="SCOPE[:NAME]=WATTS",
        help="Takes the place of the recorded cap of cluster:NAME, site:NAME or region; again.",
    ),
]
NoCaps = Annotated[bool | None, typer.Option("--no-caps", help="Recorded caps are left out.")]


def simulate(
    policy: Policies = None,
    out: Out = None,
    kill: Kill = True,
    cap_w: CapW = None,
    workers: Workers = None,
    swf: Swf = None,
    procs: Procs = None,
    jobs_csv: JobsCsv = None,
    proc_w: ProcW = None,
    idle_w: IdleW = None,
    runtimes: RuntimesName = None,
    clusters: Clusters = None,
    system: SystemFile = None,
    coefficients: Coefficients = None,
    workload: Workload = None,
    counts: Counts = None,
    jobs: Jobs = None,
    speed: Speed = None,
    mix: Mixes = None,
    t_weight: Weights = None,
    seed: Seeds = None,
    threshold: Threshold = None,
    reading: ReadingName = None,
    tariffs: Tariffs = None,
    response_price: ResponsePrice = None,
    unit_price: UnitPrice = None,
    makespan_price: MakespanPrice = None,
    head: Head = None,
    budget: Budget = None,
    large: Large = None,
    patience_h: PatienceH = None,
    eurora: Eurora = None,
    recorded: Recorded = None,
    from_kafka: FromKafka = None,
    decisions: Decisions = None,
    cap: NewCaps = None,
    no_caps: NoCaps = None,
) -> None:
    """Play a log on one pool (--swf), jobs on clusters (--clusters or --system), instances of
    Eurora on its nodes (--eurora), or a region's own record under other rules (--recorded); more
    than one policy, weight, mix or seed is a comparison."""
    of_a_pool: dict[str, object] = {
        "--swf": swf,
        "--procs": procs,
        "--jobs-csv": jobs_csv,
        "--proc-w": proc_w,
        "--idle-w": idle_w,
        "--runtimes": runtimes,
    }
    of_clusters: dict[str, object] = {
        "--coefficients": coefficients,
        "--workload": workload,
        "--counts": counts,
        "--jobs": jobs,
        "--speed": speed,
        "--mix": mix,
        "--t-weight": t_weight,
        "--seed": seed,
        "--threshold": threshold,
        "--reading": reading,
        "--tariffs": tariffs,
        "--response-price": response_price,
        "--unit-price": unit_price,
        "--makespan-price": makespan_price,
        "--head": head,
        "--budget": budget,
        "--large": large,
        "--patience-h": patience_h,
    }
    of_a_record = {"--decisions": decisions, "--cap": cap, "--no-caps": no_caps}
    _require_numbers({"--cap-w": cap_w, **of_a_pool, **of_clusters})
    if recorded is not None or from_kafka:
        if recorded is not None and from_kafka:
            raise UnusableError("give --recorded or --from-kafka, not both")
        used = ("--t-weight", "--threshold", "--tariffs")
        unused = {name: value for name, value in of_clusters.items() if name not in used}
        of_both: dict[str, object] = {"--cap-w": cap_w, "--workers": workers, "--eurora": eurora}
        where = {"--clusters": clusters, "--system": system}
        _refuse("a record", {**of_both, **where, **of_a_pool, **unused})
        _simulate_record(
            recorded, decisions, policy, t_weight, threshold, cap, no_caps, tariffs, out
        )
        return
    _refuse("anything but a record", of_a_record)
    if eurora is not None:
        of_both = {
            "--policy": policy,
            "--out": out,
            "--cap-w": cap_w,
            "--workers": workers,
            "--clusters": clusters,
            "--system": system,
        }
        _refuse("Eurora", {**of_both, **of_a_pool, **of_clusters})
        from cli.simulate import eurora as on_eurora

        on_eurora.run(eurora)
    elif clusters is None and system is None:
        _refuse("one pool", of_clusters)
        from cli.simulate import pool as on_pool

        on_pool.run(
            on_pool.Options(
                swf=_needed("--swf", swf),
                policies=tuple(policy or [SimulatedPolicy.EASY]),
                procs=procs,
                jobs_csv=jobs_csv,
                out=out,
                kill_at_limit=kill,
                cap_w=inf if cap_w is None else cap_w,
                proc_w=proc_w or 0.0,
                idle_w=idle_w or 0.0,
                runtimes=runtimes or Runtimes.REQUESTED,
                workers=workers,
            )
        )
    else:
        _refuse("clusters", of_a_pool)
        from cli.simulate import clusters as on_clusters

        on_clusters.run(
            on_clusters.Options(
                system=on_clusters.system_of(clusters, system, cap_w, tariffs),
                coefficients=_needed("--coefficients", coefficients),
                policies=tuple(policy or [SimulatedPolicy.EASY]),
                workload=workload or "cirne",
                counts=counts or Unit.NODE,
                jobs=jobs,
                speed=1.0 if speed is None else speed,
                mixes=tuple(mix or ["uniform"]),
                t_weights=tuple(t_weight or [1.0]),
                seeds=tuple(seed or [1]),
                threshold=THRESHOLD if threshold is None else threshold,
                reading=reading or Reading.DIMENSIONLESS,
                ahead=Ahead(
                    prices=Prices(
                        _or(response_price, USUAL.prices.response_per_h),
                        _or(unit_price, USUAL.prices.unit_per_h),
                        _or(makespan_price, USUAL.prices.makespan_per_h),
                    ),
                    bounds=replace(
                        USUAL.bounds,
                        head=_or(head, USUAL.bounds.head),
                        budget=_or(budget, USUAL.bounds.budget),
                        large=_or(large, USUAL.bounds.large),
                        patience_s=3600 * _or(patience_h, USUAL.bounds.patience_s / 3600),
                    ),
                ),
                kill_at_limit=kill,
                out=out,
                workers=workers,
            )
        )


def _simulate_record(
    recorded: Path | None,
    decisions: Path | None,
    policy: list[SimulatedPolicy] | None,
    t_weight: list[float] | None,
    threshold: float | None,
    cap: list[str] | None,
    no_caps: bool | None,
    tariffs: Path | None,
    out: Path | None,
) -> None:
    from cli.simulate import recorded as on_record

    on_record.run(
        on_record.Options(
            inputs=recorded,
            decisions=decisions,
            policies=tuple(map(_online, policy or ())),
            t_weights=tuple(t_weight or ()),
            threshold=threshold,
            caps=CapChanges(bool(no_caps), tuple(map(NewCap.parse, cap or ()))),
            tariffs=tariffs,
            out=out,
        )
    )


def _online(policy: SimulatedPolicy) -> Policy:
    """A policy that placement has. Raises UnusableError."""
    if policy not in [*Policy]:
        raise UnusableError(f"placement has no policy {policy}: it has {', '.join(Policy)}")
    return Policy(policy)


def _require_numbers(options: Mapping[str, object]) -> None:
    """The bounds of options let nan through."""
    for name, value in options.items():
        several = value if isinstance(value, list) else [value]
        if any(isinstance(each, float) and isnan(each) for each in several):
            raise UnusableError(f"{name} must be a number, got nan")


def _or(value: _Number | None, usual: _Number) -> _Number:
    return usual if value is None else value


def _refuse(played_on: str, options: Mapping[str, object]) -> None:
    if given := [name for name, value in options.items() if value is not None]:
        raise UnusableError(f"{', '.join(given)}: of no use on {played_on}: leave it out")


def _needed(option: str, value: Path | None) -> Path:
    if value is None:
        raise UnusableError(f"{option} is needed: give a path")
    return value
