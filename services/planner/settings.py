"""Settings of the planner, read from COPLACE_PLANNER_* environment variables.

The rules that it shares with placement are COPLACE_PLACEMENT_*: shared/placement/settings.py.
"""

from enum import StrEnum
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator
from pydantic_settings import SettingsConfigDict

from coplace_client.bounds import LENGTHS
from shared.planning.searches import tried_limits_s
from shared.process.environment import EnvironmentSettings
from shared.scheduling.lookahead import Bounds, Prices

_HOUR_S = 3600.0
_DAY_S = 86_400.0
# A planner that looks ahead keeps up with rounds of a tenth of a second.
_PERIOD_S = 1.0
_PRICES, _BOUNDS = Prices(), Bounds()


class SearchKind(StrEnum):
    """How plans are looked for."""

    LOOK_AHEAD = "look-ahead"
    LS = "ls"
    HYBRID = "hybrid"
    DEC = "dec"


class PlannerSettings(EnvironmentSettings):
    """Raises WrongSettingsError naming the variable."""

    model_config = SettingsConfigDict(env_prefix="COPLACE_PLANNER_", frozen=True)

    tariffs: Path | None = Field(
        None, description="CSV of cluster, hour and price_per_kwh or gco2_per_kwh; else 1 per kWh"
    )
    response_price: float = Field(
        _PRICES.response_per_h,
        ge=0,
        description="An hour of response, in the tariffs' unit",
    )
    unit_price: float = Field(
        _PRICES.unit_per_h, ge=0, description="An hour that a job occupies a node"
    )
    makespan_price: float = Field(
        _PRICES.makespan_per_h, ge=0, description="An hour until the last limit"
    )
    search: SearchKind = Field(
        SearchKind.LOOK_AHEAD,
        description="Orders of the queue under the caps, for which look-ahead's settings count "
        "not: ls, list scheduling by walltime; hybrid, the cheapest of its orders that a search "
        "finds; dec, CP-SAT",
    )
    solve_s: float = Field(
        1.0, gt=0, le=60, description="Work of one answer of CP-SAT, about seconds of one core"
    )
    longest_solve_s: float = Field(
        8.0, gt=0, le=600, description="SOLVE_S is doubled up to here while there is no answer"
    )
    head: int = Field(_BOUNDS.head, ge=1, le=1000, description="Jobs that are played forward")
    budget: int = Field(_BOUNDS.budget, ge=0, le=1000, description="Proposals a round; 0: no plan")
    patience_h: float = Field(
        6.0,
        gt=0,
        description="A job that has waited so long is passed by backfill alone, while the record "
        "has no budget",
    )
    most_jobs: int = Field(
        500,
        ge=1,
        le=LENGTHS["items"].most,
        description="Jobs of the queue that a plan orders; the others come behind them",
    )
    period_s: float | None = Field(
        None,
        ge=0,
        description="The least time of rounds between two searches; without it 1, and with dec "
        "twice what a plan may take there, the least that is accepted being once that",
    )
    valid_s: float = Field(
        3600.0, gt=0, le=_DAY_S, description="How long a plan that none replaces stays in force"
    )

    @model_validator(mode="after")
    def _keeps_up(self) -> Self:
        if self.search is SearchKind.DEC and self.period_between_s < self.longest_plan_s:
            least = f"less than the {self.longest_plan_s:g} s that a plan of search=dec may take"
            raise ValueError(
                f"period_s={self.period_between_s:g} is {least} by solve_s and longest_solve_s: it "
                "would lag for good"
            )
        return self

    @property
    def longest_plan_s(self) -> float:
        """Return what CP-SAT may take where no limit brings an answer: the sum of all that it
        tries."""
        return sum(tried_limits_s(self.solve_s, self.longest_solve_s))

    @property
    def period_between_s(self) -> float:
        """Return the least time of rounds between two searches: with `dec` so long that the solver,
        whose seconds are about those of a core, rests half of the time at least."""
        if self.period_s is not None:
            return self.period_s
        return 2 * self.longest_plan_s if self.search is SearchKind.DEC else _PERIOD_S

    @property
    def prices(self) -> Prices:
        """Return what time is worth."""
        return Prices(self.response_price, self.unit_price, self.makespan_price)

    @property
    def bounds(self) -> Bounds:
        """Return how far the search goes."""
        return Bounds(
            head=self.head,
            budget=self.budget,
            # A plan is published: one that changes nothing by its forecast is not worth a record.
            judges_orders=True,
            patience_s=self.patience_h * _HOUR_S,
        )
