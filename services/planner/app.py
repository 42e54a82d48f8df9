"""Composition root of the planner."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from services.planner.meter import watch
from services.planner.processor import OUTPUT, Planner, Search, repair_state
from services.planner.settings import PlannerSettings, SearchKind
from shared.catalogue.options import ranks
from shared.catalogue.policy_settings import PolicySettings
from shared.placement.settings import RuleSettings
from shared.planning.order_search import OrderSearch
from shared.planning.region_order import RegionOrder, Scheduling
from shared.planning.searches import Searches
from shared.process.life import Process, run_process
from shared.process.settings import Settings
from shared.process.tariff_files import read_tariffs
from shared.scheduling.list_scheduling import PriorityRule
from shared.streams.on_kafka.service import run_service
from shared.streams.stages.stage import Stage

_INPUT: Final = "placement.inputs"


def stages(
    shared: Settings,
    own: PlannerSettings | None = None,
    rules: RuleSettings | None = None,
    searches: Searches | None = None,
) -> list[Stage]:
    """Return the planner, whose rounds are placement's. `searches` counts their results. Raises
    UnusableError for invalid tariffs."""
    rules = rules or RuleSettings()
    search = search_of(own or PlannerSettings(), searches or Searches())
    puts_barriers = shared.is_emulated
    return [stage_of(search, rules.rules, rules.remember_days, puts_barriers=puts_barriers)]


def search_of(own: PlannerSettings, searches: Searches) -> Search:
    """Return how plans are searched for. Raises UnusableError for invalid tariffs."""
    return Search(
        tariffs=read_tariffs(own.tariffs) if own.tariffs else {},
        prices=own.prices,
        bounds=own.bounds,
        most_jobs=own.most_jobs,
        period_us=round(own.period_between_s * 1e6),
        valid_us=round(own.valid_s * 1e6),
        ordering=_ordering(own, searches),
    )


def stage_of(
    search: Search, rules: PolicySettings, remember_days: float, *, puts_barriers: bool
) -> Stage:
    """Return the planner of a placement by these rules."""

    def create(_number: int, restored: Mapping[str, bytes]) -> Planner:
        return Planner(restored, rules, remember_days, search)

    return Stage(
        name="planner",
        inputs=(_INPUT,),
        outputs=(OUTPUT,),
        consumes=frozenset(ranks()),
        create=create,
        repair=repair_state,
        single=True,
        puts_barriers=puts_barriers,
    )


def _ordering(own: PlannerSettings, searches: Searches) -> RegionOrder | None:
    match own.search:
        case SearchKind.LOOK_AHEAD:
            return None
        case SearchKind.LS:
            return RegionOrder(lambda rule: rule)
        case SearchKind.HYBRID:
            return RegionOrder(lambda _: OrderSearch(searches))
        case SearchKind.DEC:
            return RegionOrder(partial(_solver, own, searches))


def _solver(own: PlannerSettings, searches: Searches, rule: PriorityRule) -> Scheduling:
    """The solver is loaded where it is asked for alone."""
    from shared.planning.decomposition import DecompositionPlanner

    return DecompositionPlanner(rule, searches, own.solve_s, longest_s=own.longest_solve_s)


async def serve(process: Process) -> None:
    """Plan until the process shall stop."""
    searches = Searches()
    planned = stages(process.settings, searches=searches)
    await run_service(process, planned, partial(watch, searches))


def main() -> None:
    """Run the process of a planner."""
    run_process("planner", serve)
