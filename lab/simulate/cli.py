"""`coplace simulate`: results of a log, jobs of a model or a region's record under policies."""

from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from lab.simulate.options import OPTIONS
from lab.simulate.reading import scenario_of
from lab.simulate.scenarios import (
    ClustersScenario,
    EuroraScenario,
    PoolScenario,
    RecordedScenario,
    Scenario,
)

_FILE: Final = "scenario"
_SETS: Final = "set"
_File = Annotated[
    Path | None,
    typer.Argument(metavar="SCENARIO", help="YAML file of a scenario, docs/simulation.md."),
]
_Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="PLACE=VALUE", help="A value of the scenario by dotted path; again."
    ),
]


def simulate(**given: Any) -> None:
    """Play a scenario: a log on one pool (--swf), jobs on clusters (--clusters or --system),
    instances of Eurora on its nodes (--eurora), or a region's own record under other rules
    (--recorded); more than one policy, weight, mix or seed is a comparison."""
    file, sets = given.pop(_FILE), given.pop(_SETS)
    said = {name: value for name, value in given.items() if value is not None}
    _play(scenario_of(file, sets or (), said))


def _play(scenario: Scenario) -> None:
    """What plays a kind is imported when it is needed: it takes a second."""
    match scenario:
        case PoolScenario():
            from lab.simulate import pool

            pool.run(scenario)
        case ClustersScenario():
            from lab.simulate import clusters

            clusters.run(scenario)
        case EuroraScenario():
            from lab.simulate import eurora

            eurora.run(scenario)
        case RecordedScenario():
            from lab.simulate import recorded

            recorded.run(scenario)


def _parameter(name: str, annotation: object) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


# The command line reads its options here, which are the fields of scenarios.
simulate.__signature__ = Signature(  # type: ignore[attr-defined]
    [
        _parameter(_FILE, _File),
        _parameter(_SETS, _Sets),
        *(option.parameter for option in OPTIONS.values()),
    ]
)
