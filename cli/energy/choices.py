"""`coplace energy choose`: the P-state of each rule, and the node model that each rule prefers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from rich.box import MARKDOWN
from rich.table import Table

from coplace_client.checks import require_not_negative
from services.energy.adapters.matching import Matched
from shared.domain.eamc_policy import Reading
from shared.eamc.frequency import EVEN, FrequencyRule, Weighing, choose_pstates
from shared.eamc.ranking import part_eff
from shared.eamc.to_solution import (
    MIN_ENERGY_THRESHOLD,
    MIN_TIME_THRESHOLD,
    min_energy_to_solution,
    min_time_to_solution,
)
from shared.models.projection import Projection

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

COLUMNS = (
    *("app_id", "module", "choice", "t_weight", "freq_ghz", "time_s", "power_w", "energy_j"),
    "is_preferred",
)


@dataclass(frozen=True, slots=True)
class Knobs:
    """The parameters of the rules; `default_ghz` is the signature's own P-state unless set."""

    t_weights: tuple[float, ...]
    reading: Reading = Reading.DIMENSIONLESS
    default_ghz: float | None = None
    min_energy_threshold: float = MIN_ENERGY_THRESHOLD
    min_time_threshold: float = MIN_TIME_THRESHOLD

    def __post_init__(self) -> None:
        for t_weight in self.t_weights:
            require_not_negative("t_weight", t_weight)
        for field in ("min_energy_threshold", "min_time_threshold"):
            require_not_negative(field, getattr(self, field))


@dataclass(frozen=True, slots=True)
class Rule:
    """A way to choose: a P-state from (projection, default P-states), and what makes one node
    model better than another from energies and times of shape (applications, node models)."""

    name: str
    t_weight: float | None
    pstates: Callable[[Projection, Ints], Ints]
    cost: Callable[[Floats, Floats], Floats]

    @property
    def title(self) -> str:
        """Return the title of the rule's column."""
        return self.name if self.t_weight is None else f"{self.name} w={self.t_weight:g}"


@dataclass(frozen=True, slots=True)
class PStateChoice:
    """An application on a node model as one rule has it."""

    app_id: str
    module: str
    rule: Rule
    freq_ghz: float
    time_s: float
    power_w: float
    energy_j: float
    is_preferred: bool

    @property
    def row(self) -> Sequence[object]:
        """Return the cells in the order of COLUMNS."""
        return (
            *(self.app_id, self.module, self.rule.name, self.rule.t_weight, self.freq_ghz),
            *(self.time_s, self.power_w, self.energy_j, int(self.is_preferred)),
        )


def rules(knobs: Knobs) -> list[Rule]:
    """Return the rules: least energy, least time, EAMC for each weight, and EAR's two policies."""
    return [
        Rule("min-energy", None, _ignoring_default(FrequencyRule.MIN_ENERGY), _energy),
        Rule("min-time", None, _ignoring_default(FrequencyRule.MIN_RUNTIME), _time),
        *(_eamc(knobs, t_weight) for t_weight in knobs.t_weights),
        Rule(
            "min-energy-to-solution",
            None,
            partial(min_energy_to_solution, threshold=knobs.min_energy_threshold),
            _energy,
        ),
        Rule(
            "min-time-to-solution",
            None,
            partial(min_time_to_solution, threshold=knobs.min_time_threshold),
            _time,
        ),
    ]


def _eamc(knobs: Knobs, t_weight: float) -> Rule:
    weighing = Weighing(t_weight, knobs.reading)

    def distance_of(energy_j: Floats, time_s: Floats) -> Floats:
        eligible = ~np.isnan(time_s)
        return part_eff(energy_j, time_s, eligible, weighing)

    choose = _ignoring_default(FrequencyRule.MIN_DISTANCE, weighing)
    return Rule("eamc", t_weight, choose, distance_of)


def _ignoring_default(
    rule: FrequencyRule, weighing: Weighing = EVEN
) -> Callable[[Projection, Ints], Ints]:
    def chosen(projection: Projection, _default: Ints) -> Ints:
        return choose_pstates(projection, rule, weighing)

    return chosen


def _energy(energy_j: Floats, _time_s: Floats) -> Floats:
    return energy_j


def _time(_energy_j: Floats, time_s: Floats) -> Floats:
    return time_s


def choose(several: Sequence[tuple[Matched, Projection]], knobs: Knobs) -> list[PStateChoice]:
    """Choose by each rule for each application on each node model.

    Left out is an application without projection at the P-state chosen. Raises RejectedError when
    `default_ghz` is no P-state of a node model.
    """
    return [chosen for rule in rules(knobs) for chosen in _by_rule(several, rule, knobs)]


def _by_rule(
    several: Sequence[tuple[Matched, Projection]], rule: Rule, knobs: Knobs
) -> Iterator[PStateChoice]:
    apps = list(dict.fromkeys(s.app_id for matched, _ in several for s in matched.signatures))
    shape = (len(apps), len(several))
    freq_ghz, time_s, power_w = (np.full(shape, np.nan) for _ in range(3))
    for column, (matched, projection) in enumerate(several):
        pstate = rule.pstates(projection, _defaults(matched, projection, knobs))
        row, at = [apps.index(s.app_id) for s in matched.signatures], np.arange(len(pstate))
        freq_ghz[row, column] = np.asarray(projection.pstates_ghz)[pstate]
        time_s[row, column] = projection.time_s[at, pstate]
        power_w[row, column] = projection.power_w[at, pstate]
    energy_j = power_w * time_s
    is_known = ~np.isnan(energy_j)
    preferred = np.where(is_known, rule.cost(energy_j, time_s), np.inf).argmin(axis=1)
    for i, j in np.argwhere(is_known).tolist():
        yield PStateChoice(
            app_id=apps[i],
            module=several[j][0].module,
            rule=rule,
            freq_ghz=float(freq_ghz[i, j]),
            time_s=float(time_s[i, j]),
            power_w=float(power_w[i, j]),
            energy_j=float(energy_j[i, j]),
            is_preferred=bool(preferred[i] == j),
        )


def _defaults(matched: Matched, projection: Projection, knobs: Knobs) -> Ints:
    """Where EAR's policies start: as in EAR the signature's own P-state where no projection leads
    to the default one."""
    table = matched.coefficients
    own = np.array([table.index_of(s.freq_ghz) for s in matched.signatures], dtype=np.int64)
    if knobs.default_ghz is None:
        return own
    asked = table.index_of(knobs.default_ghz)
    return np.where(projection.available[:, asked], asked, own)


def table(several: Sequence[tuple[Matched, Projection]], chosen: Sequence[PStateChoice]) -> Table:
    """Return a table with a row for each application and node model, and a column for each rule;
    `*` marks the node model that the rule prefers. Printed as Markdown, so that documents can show
    it as it is."""
    cells = {
        (each.app_id, each.module, each.rule.title): _cell(each, is_one_of_many=len(several) > 1)
        for each in chosen
    }
    titles = list(dict.fromkeys(each.rule.title for each in chosen))
    found = Table("app", "module", "slowest", *titles, box=MARKDOWN)
    for matched, projection in several:
        for i, signature in enumerate(matched.signatures):
            key = signature.app_id, matched.module
            at_each = (cells.get((*key, title), "") for title in titles)
            found.add_row(*key, _slowest(matched, projection, i), *at_each)
    return found


def _cell(chosen: PStateChoice, *, is_one_of_many: bool) -> str:
    mark = "*" if chosen.is_preferred and is_one_of_many else ""
    figures = f"{chosen.time_s:.1f} s {chosen.power_w:.0f} W {chosen.energy_j / 1e3:.2f} kJ"
    return f"{mark}{chosen.freq_ghz:.1f} GHz {figures}"


def _slowest(matched: Matched, projection: Projection, row: int) -> str:
    """The lowest P-state that has a projection, and how much longer the application takes."""
    has = np.flatnonzero(projection.available[row])
    if not has.size:
        return ""
    signature, lowest = matched.signatures[row], int(has[0])
    slowdown = projection.time_s[row, lowest] / signature.time_s
    return f"{projection.pstates_ghz[lowest]:.1f} GHz {slowdown:.2f}x"
