"""What can be simulated: one model a kind, the only place that knows names, defaults, bounds and
help. Scenario files are validated by them, and the command's options are made of them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from math import nan
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from cli.cap.schedule import read_schedule, steps
from cli.region_policy import RegionPolicy
from coplace_client.numbers import finite_number
from lab.simulation.capping import AS_PREDICTED, CappingMethod
from lab.simulation.jobs import CIRNE, MODELS
from lab.simulation.lookahead import AS_TUNED, Ahead
from lab.simulation.policy import SimulatedPolicy
from lab.simulation.sweep import THRESHOLD
from lab.simulation.system import SizeUnit
from shared.catalogue.policy_settings import CAP_MARGIN, CAP_RISK
from shared.domain.cluster import Cluster
from shared.domain.eamc_policy import Reading
from shared.domain.runtimes import PASSING_SHARE, Runtimes
from shared.eamc.frequency import EVEN
from shared.process.plain_numbers import PlainModel
from shared.replay.caps import CapChanges, GivenCap
from shared.scheduling.lookahead import Prices
from shared.scheduling.pool import Discipline
from shared.scheduling.slurm import SLURM_DEFAULTS, SlurmBackfill

# Of Eurora: without a cap they say nothing.
_OF_A_CAP: Final = frozenset(
    (
        *("policy", "slowdown", "jobs_csv", "draws_csv"),
        *("cap_margin", "cap_risk", "power_sd", "queues"),
    )
)
# No figure of a simulation comes near; squares and products of such still fit.
MOST: Final = 1e12
MOST_JOBS: Final = 10_000_000
_T = TypeVar("_T")


def _listed(value: Any) -> Any:
    """One value is a list of one, and a text may have several with commas between them."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    return value if isinstance(value, list | tuple) else [value]


def _only(value: Any) -> Any:
    """The one that there is: the command line has several of what other kinds have several of."""
    return value[0] if isinstance(value, list | tuple) and len(value) == 1 else value


def _distinct(values: tuple[_T, ...]) -> tuple[_T, ...]:
    """Raise ValueError for a value that is listed twice: it would be played once more."""
    if twice := [value for value, count in Counter(values).items() if count > 1]:
        raise ValueError(f"{str(twice[0])[:40]!r} is given twice: leave one out")
    return values


def _require_chosen(discipline: Discipline) -> None:
    """Raise ValueError for a discipline that is not chosen beside a policy."""
    if discipline not in (Discipline.EASY, Discipline.SLURM):
        raise ValueError("{discipline} is easy or slurm")


def _require_threshold(policies: Iterable[str]) -> None:
    """Raise ValueError where none of the policies has a threshold."""
    if not any(SimulatedPolicy(policy).has_threshold for policy in policies):
        having = " and ".join(each for each in SimulatedPolicy if each.has_threshold)
        raise ValueError(f"{{threshold}} is of {having} alone: leave it out")


Amount = Annotated[float, Field(ge=0, le=MOST, allow_inf_nan=False)]
Duration = Annotated[float, Field(gt=0, le=MOST, allow_inf_nan=False)]
Watts = Annotated[float, Field(gt=0, le=MOST, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
# Several of a kind, each once: a list in a file, the option again on the command line.
Several = Annotated[tuple[_T, ...], BeforeValidator(_listed), AfterValidator(_distinct)]
UNIFORM: Final = "uniform"
# Each job has a factor of its own: drawn, or by its clocks per instruction.
MIXED: Final = "mixed"
OF_CPI: Final = "cpi"
# Of a field with several values: the option has them all, with commas between them.
TOGETHER: Final = "together"


def _field(default: Any, what: str, option: str = "") -> Any:
    """A field with its help, and its option where that has another name."""
    return Field(default, description=what, json_schema_extra={"option": option})


class Section(PlainModel):
    """Part of a scenario. Raises pydantic.ValidationError."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Scenario(Section):
    """One kind of simulation; `played_on` is it in words."""

    played_on: ClassVar[str]


class SlurmSection(Section):
    """The parameters of Slurm's backfill, of that policy or discipline alone."""

    bf_depth: Count = _field(
        SLURM_DEFAULTS.depth, "Jobs that slurm's backfill looks at: bf_max_job_test."
    )
    bf_window_s: Duration = _field(
        SLURM_DEFAULTS.window_s, "How far ahead it reserves, s: bf_window, there in minutes."
    )
    bf_interval_s: Duration = _field(
        SLURM_DEFAULTS.interval_s, "Between two looks, s: bf_interval."
    )
    bf_records: Annotated[int, Field(ge=0)] = _field(
        SLURM_DEFAULTS.records, "Records of its table at which a look ends; 0 is any number."
    )

    @property
    def backfill(self) -> SlurmBackfill:
        """Return the section as the scheduler takes it."""
        return SlurmBackfill(self.bf_depth, self.bf_window_s, self.bf_interval_s, self.bf_records)


class _Schedules(Scenario):
    """What a pool and clusters have in common."""

    policy: Several[SimulatedPolicy] = _field(
        (SimulatedPolicy.EASY,), "What decides; several are compared."
    )
    kill: bool = _field(True, "End jobs at their walltime.", "--kill/--no-kill")
    cap_w: Watts | None = _field(
        None, "Power at most, W, idle power included; of each of clusters."
    )
    cap_counts_idle: bool = _field(
        True,
        "Idle power counts under caps; else only what jobs draw beyond it.",
        "--cap-counts-idle/--no-cap-counts-idle",
    )
    workers: Count | None = _field(None, "Processes; as many as cores.")
    out: Path | None = _field(None, "Folder of tables, summaries and pictures.")
    slurm: SlurmSection = SlurmSection()

    @model_validator(mode="after")
    def _is_of_slurm(self) -> Self:
        said = sorted(self.slurm.model_fields_set)
        if said and not self.is_slurm_played:
            raise ValueError(f"{{{said[0]}}} is of the policy slurm alone: leave it out")
        return self

    @property
    def is_slurm_played(self) -> bool:
        """Return whether anything is played by Slurm's backfill."""
        return SimulatedPolicy.SLURM in self.policy


class PoolScenario(_Schedules):
    """A log on one pool of processors."""

    played_on: ClassVar = "one pool"

    swf: Path = _field(..., "Log in the Standard Workload Format.")
    procs: Count | None = _field(None, "Processors of the pool; else what the log says.")
    jobs_csv: Path | None = _field(None, "File of job_id, submit_s, start_s, end_s, procs.")
    proc_w: Amount = _field(0.0, "Power of a busy processor, W.")
    idle_w: Amount = _field(0.0, "Power of an idle processor, W.")
    runtimes: Runtimes = _field(Runtimes.REQUESTED, "What backfilling expects. Of easy alone.")
    passing_share: Share = _field(
        PASSING_SHARE, "Of what the first that waits leaves, what may pass it by predictions."
    )

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.jobs_csv is not None and len(self.policy) > 1:
            raise ValueError("{jobs_csv} holds one schedule: give one policy")
        if self.cap_w is not None and not self.proc_w:
            raise ValueError("{cap_w} needs {proc_w}: a log names no power")
        if not self.cap_counts_idle and self.cap_w is None:
            raise ValueError("{cap_counts_idle} is of no use without {cap_w}")
        others = [p for p in self.policy if p.discipline is not Discipline.EASY]
        if self.runtimes is Runtimes.PREDICTED and others:
            problem = f"is of no use to {others[0]}, which does not backfill by predictions"
            raise ValueError(f"{{runtimes}} predicted {problem}: say {{policy}} easy alone")
        if self.runtimes is Runtimes.REQUESTED and "passing_share" in self.model_fields_set:
            raise ValueError("{passing_share} is of no use without {runtimes} predicted")
        return self


class LookAheadSection(Section):
    """The prices of look-ahead, in the tariff's unit, and how far it goes."""

    response_price: Amount = _field(
        AS_TUNED.prices.response_per_h, "Of an hour of a job's response, tariff's unit."
    )
    unit_price: Amount = _field(
        AS_TUNED.prices.unit_per_h, "Of an hour that a job holds a node or core."
    )
    makespan_price: Amount = _field(
        AS_TUNED.prices.makespan_per_h, "Of an hour until the last limit."
    )
    head: Annotated[int, Field(ge=2)] = _field(
        AS_TUNED.bounds.head, "Jobs that are played forward."
    )
    budget: Annotated[int, Field(ge=0)] = _field(
        AS_TUNED.bounds.budget, "Proposals at one instant."
    )
    patience_h: Amount = _field(
        AS_TUNED.bounds.patience_s / 3600,
        "Without a budget by the record, a job that waited so long is passed no more, h.",
    )

    @property
    def ahead(self) -> Ahead:
        """Return the section as look-ahead takes it."""
        bounds = replace(
            AS_TUNED.bounds,
            head=self.head,
            budget=self.budget,
            patience_s=3600 * self.patience_h,
        )
        return Ahead(Prices(self.response_price, self.unit_price, self.makespan_price), bounds)


class ClustersScenario(_Schedules):
    """Jobs of a model or a log on clusters of nodes whose energy is known."""

    played_on: ClassVar = "clusters"

    clusters: Annotated[tuple[str, ...], BeforeValidator(_listed), TOGETHER] = _field(
        (), "Built-in clusters, the primary one first: p1,p2."
    )
    system: Path | None = _field(None, "Clusters as YAML, docs/simulation.md.")
    coefficients: Path = _field(..., "Folder of *_coefficients.csv and apps.csv.")
    workload: str = _field(CIRNE, "cirne, lublin or a log's file.")
    counts: SizeUnit = _field(SizeUnit.NODE, "What the sizes of a log count.")
    jobs: Annotated[int, Field(ge=1, le=MOST_JOBS)] | None = _field(
        None, "Jobs; 5000 of a model, all of a log."
    )
    speed: Amount = _field(1.0, "How many times as fast jobs arrive.")
    mix: Several[Annotated[str, Field(coerce_numbers_to_str=True)]] = _field(
        (UNIFORM,),
        "Applications: uniform, or the share of jobs that are best off elsewhere than on the first "
        "cluster; several are compared.",
    )
    t_weight: Several[Amount] = _field(
        (EVEN.t_weight,), "Weight of time over energy; several are compared."
    )
    seeds: Several[Annotated[int, Field(ge=0)]] = _field(
        (1,), "Of the jobs; several are compared.", "--seed"
    )
    threshold: Amount = _field(THRESHOLD, "Of priority-inc-v.")
    reading: Reading = _field(
        Reading.DIMENSIONLESS, "Of equations 4 and 5 and the threshold, ADR 0003."
    )
    tariffs: Path | None = _field(None, "CSV of cluster, hour and price_per_kwh or gco2_per_kwh.")
    region_cap_w: Watts | None = _field(
        None, "Power of all clusters together at most, W, counted as by --cap-w."
    )
    cap_slowdown: Annotated[float, Field(ge=1, le=MOST, allow_inf_nan=False)] = _field(
        1.0, "How much longer a job may take at a lower P-state where a cap refuses its own."
    )
    discipline: Discipline | None = _field(
        None, "What may pass what waits, under EAMC's policies: easy or slurm; else easy."
    )
    look_ahead: LookAheadSection = LookAheadSection()

    @property
    def is_slurm_played(self) -> bool:
        """Return whether anything is played by Slurm's backfill."""
        return super().is_slurm_played or self.discipline is Discipline.SLURM

    @property
    def of_caps(self) -> list[str]:
        """Return the fields that say what nothing reads where there is no cap."""
        said = {"cap_slowdown": self.cap_slowdown > 1, "cap_counts_idle": not self.cap_counts_idle}
        return [field for field, is_said in said.items() if is_said]

    @model_validator(mode="before")
    @classmethod
    def _is_said_once(cls, content: Any) -> Any:
        if "system" in content and {"clusters", "cap_w", "region_cap_w"} & content.keys():
            problem = (
                "says clusters and caps itself: leave out {clusters}, {cap_w} and {region_cap_w}"
            )
            raise ValueError(f"{{system}} {problem}")
        return content

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.system is None and not self.clusters:
            raise ValueError("{clusters} or {system} is needed")
        is_uncapped = self.cap_w is None and self.region_cap_w is None and self.system is None
        if is_uncapped and (said := self.of_caps):
            problem = "is of no use without {cap_w} or {region_cap_w}"
            raise ValueError(f"{{{said[0]}}} {problem}")
        for policy in self.policy:
            if self.cap_slowdown > 1 and not policy.takes_slower_modes:
                raise ValueError(f"{{cap_slowdown}} is of no use to {policy}: leave it out")
        return self

    @model_validator(mode="after")
    def _has_its_discipline(self) -> Self:
        if self.discipline is None:
            return self
        _require_chosen(self.discipline)
        if others := [policy for policy in self.policy if not policy.takes_discipline]:
            raise ValueError(f"{{discipline}} is of no use to {others[0]}: leave it out")
        if self.is_slurm_played and self.cap_slowdown > 1:
            raise ValueError("{cap_slowdown} is of no use under {discipline} slurm")
        if self.is_slurm_played and self.region_cap_w is not None:
            raise ValueError("{discipline} slurm keeps caps of single clusters alone")
        return self

    @model_validator(mode="after")
    def _is_of_use(self) -> Self:
        said = sorted(self.look_ahead.model_fields_set)
        if said and SimulatedPolicy.LOOK_AHEAD not in self.policy:
            raise ValueError(f"{{{said[0]}}} is of the policy look-ahead alone: leave it out")
        if "threshold" in self.model_fields_set:
            _require_threshold(self.policy)
        if "counts" in self.model_fields_set and self.workload in MODELS:
            problem = f"{{counts}} is of no use to {self.workload}, whose sizes count nodes"
            raise ValueError(f"{problem}: leave it out")
        return self

    @model_validator(mode="after")
    def _is_mixed(self) -> Self:
        shares = self.shares
        if len(set(shares)) < len(shares):
            raise ValueError("{mix} has one share twice: leave one out")
        return self

    @property
    def shares(self) -> list[float | None]:
        """Return the mixes as shares of jobs, None for uniform. Raises ValueError for what is
        neither."""
        return [None if mix == UNIFORM else _share(mix) for mix in self.mix]


def _share(mix: str) -> float:
    try:
        return finite_number(mix)
    except ValueError:
        raise ValueError(f"{{mix}} must be {UNIFORM} or a share, got {mix[:40]!r}") from None


class EuroraScenario(Scenario):
    """Instances of the Eurora supercomputer: by EASY without a cap beside what was published, or
    one of them by a method under a cap."""

    played_on: ClassVar = "Eurora"

    eurora: Path = _field(
        ..., "An instance of Eurora; without a cap a folder of them too, by EASY."
    )
    cap: Annotated[Amount | None, BeforeValidator(_only)] = _field(
        None, "Dynamic power of all jobs at most, W."
    )
    cap_schedule: Path | None = _field(
        None, "The same in periods, as `coplace cap set --schedule` reads them."
    )
    policy: Annotated[CappingMethod, BeforeValidator(_only)] = _field(
        CappingMethod.HYBRID_RAPL,
        "What decides under the cap. Take hybrid-rapl where nodes can limit their watts: what runs "
        "shares the cap; else hybrid: a search for an order, each job draws what is predicted.",
    )
    nodes: Path | None = _field(None, "Its nodes; else nodes_64.csv beside or above it.")
    queues: Path | None = _field(None, "Expected waits; else queues.txt beside or above it.")
    power: Path | None = _field(
        None, "Predicted power; else power_predictions.csv beside or above it."
    )
    slowdown: str = _field(
        MIXED, "What less power costs: a factor from 0 to 1, mixed, or cpi, a column of the power."
    )
    jobs_csv: Path | None = _field(None, "File of job_id, submit_s, start_s, end_s.")
    draws_csv: Path | None = _field(
        None, "File of job_id, from_s, power_w: what each job draws from when on; 0 at its end."
    )
    cap_margin: Annotated[float, Field(ge=0, le=CAP_MARGIN.most)] = _field(
        0.0, "The share of the cap that is kept free."
    )
    cap_risk: Annotated[float, Field(ge=CAP_RISK.least, le=CAP_RISK.most)] = _field(
        0.5, "The accepted probability that jobs together draw more than the cap."
    )
    power_sd: Annotated[float | None, Field(ge=0, le=1)] = _field(
        None, "Deviation of predicted powers, as a share; else power_sd, a column of the power."
    )

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        said = sorted(_OF_A_CAP & self.model_fields_set)
        if self.cap is not None and self.cap_schedule is not None:
            raise ValueError("give one of {cap} and {cap_schedule}")
        if not self.is_capped and said:
            raise ValueError(f"{{{said[0]}}} needs {{cap}}: without one instances are compared")
        if self.jobs_csv is not None and self.jobs_csv == self.draws_csv:
            raise ValueError("{jobs_csv} and {draws_csv} must be two files")
        is_kept = self.cap_margin > 0 or self.cap_risk < CAP_RISK.most
        if is_kept and self.policy not in AS_PREDICTED:
            others = ", ".join(sorted(AS_PREDICTED))
            problem = f"{{cap_margin}} and {{cap_risk}} are of no use to {self.policy}"
            raise ValueError(f"{problem}: say {{policy}} {others}")
        if self.power_sd is not None and self.cap_risk >= CAP_RISK.most:
            below = f"{{cap_risk}} below {CAP_RISK.most:g}"
            raise ValueError(f"{{power_sd}} is of no use without {below}: leave it out")
        if self.policy in AS_PREDICTED and "slowdown" in self.model_fields_set:
            problem = f"{{slowdown}} is of no use to {self.policy}, whose jobs draw what is"
            raise ValueError(f"{problem} predicted: leave it out")
        _ = self.factor
        return self

    @property
    def is_capped(self) -> bool:
        """Return whether there is a cap."""
        return self.cap is not None or self.cap_schedule is not None

    @property
    def factor(self) -> float | None:
        """Return the factor of all jobs; None where each has its own. Raises ValueError for
        none."""
        if self.slowdown in (MIXED, OF_CPI):
            return None
        try:
            factor = finite_number(self.slowdown)
        except ValueError:
            factor = nan
        if not 0 <= factor <= 1:
            choice = f"a factor from 0 to 1, {MIXED} or {OF_CPI}"
            raise ValueError(f"{{slowdown}} must be {choice}, got {self.slowdown[:40]!r}")
        return factor


class RecordedScenario(Scenario):
    """A region's own record under other rules; without a policy or weight those of the record."""

    played_on: ClassVar = "a record"

    recorded: Path | None = _field(
        None, "Record of a region: lines of `coplace tail placement.inputs`, or a demo's."
    )
    from_kafka: bool = _field(False, "The record that this deployment's topics hold.")
    decisions: Path | None = _field(
        None, "What was decided on the record; decisions.jsonl beside it if there is one."
    )
    rules: Path | None = _field(
        None,
        "The rules that placement began with, a setting and its value a line; rules.csv beside "
        "the record if there is one, else COPLACE_PLACEMENT_*.",
    )
    policy: Several[RegionPolicy] = _field(
        (), "What decides; several are compared. look-ahead is by the settings of the planner."
    )
    t_weight: Several[Amount] = _field((), "Weight of time over energy; several are compared.")
    threshold: Amount | None = _field(None, "Of priority-inc-v.")
    discipline: Discipline | None = _field(
        None, "What may pass what waits: easy or slurm, by the bf_* settings of placement."
    )
    runtimes: Runtimes | None = _field(None, "What backfilling expects.")
    passing_share: Share | None = _field(
        None, "Of what the first that waits leaves, what may pass it by predictions."
    )
    cap: Several[str] = _field(
        (),
        "CLUSTER=WATTS, SITE=WATTS or region=WATTS, or a schedule's file in place of watts, as "
        "`coplace cap set` takes them: in place of the recorded cap of the same.",
    )
    no_caps: bool = _field(False, "Recorded caps are left out.")
    tariffs: Path | None = _field(None, "CSV of cluster, hour and price_per_kwh or gco2_per_kwh.")
    out: Path | None = _field(None, "Folder of tables, summaries and pictures.")

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if (self.recorded is None) != self.from_kafka:
            raise ValueError("give {recorded} or {from_kafka}, one of them")
        if self.threshold is not None and self.policy:
            _require_threshold(self.policy)
        if self.discipline is not None:
            _require_chosen(self.discipline)
        if self.runtimes is Runtimes.PREDICTED and self.discipline is Discipline.SLURM:
            raise ValueError("{runtimes} predicted is of no use under {discipline} slurm")
        if self.runtimes is Runtimes.REQUESTED and self.passing_share is not None:
            raise ValueError("{passing_share} is of no use without {runtimes} predicted")
        _ = self.caps
        return self

    @cached_property
    def caps(self) -> list[GivenCap]:
        """Return the caps that replace recorded ones; schedules are read once. Raises OSError or
        UnusableError for an invalid cap."""
        return [GivenCap.parse(text, lambda path: steps(read_schedule(path))) for text in self.cap]

    def changes(self, clusters: Iterable[Cluster]) -> CapChanges:
        """Return what becomes of the recorded caps of these clusters. Raises UnusableError for a
        cap of none of them."""
        return CapChanges(self.no_caps, tuple(cap.among(clusters) for cap in self.caps))

    @property
    def fixed(self) -> frozenset[str]:
        """Return the settings that are given, and apply whatever the record declares of them."""
        given = {
            "policy": self.policy,
            "t_weight": self.t_weight,
            "threshold": self.threshold is not None,
            "discipline": self.discipline is not None,
            "runtimes": self.runtimes is not None,
            "passing_share": self.passing_share is not None,
        }
        return frozenset(name for name, is_given in given.items() if is_given)

    @property
    def changes_rules(self) -> bool:
        """Return whether the record is played with other rules than it was."""
        return bool(self.fixed or self.no_caps or self.cap)


KINDS: Final[Mapping[str, type[Scenario]]] = {
    "pool": PoolScenario,
    "clusters": ClustersScenario,
    "eurora": EuroraScenario,
    "recorded": RecordedScenario,
}
# A field of this kind alone says which it is, where nobody did; else it is a pool.
TELLING: Final[Mapping[str, str]] = {
    "recorded": "recorded",
    "from_kafka": "recorded",
    "eurora": "eurora",
    "clusters": "clusters",
    "system": "clusters",
}
