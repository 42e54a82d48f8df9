"""What each effect of the emulator's truth costs predictions, and what it leaves of the savings:
python -m lab.demo.effects errors|savings --seed 1 --jobs 300"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Annotated, Final

import typer

from cli.region_policy import RegionPolicy
from lab.demo import embedded
from lab.demo.history import History
from lab.demo.options import DemoOptions
from lab.demo.summary import DemoSummary, summarise
from lab.emulator.effects import EVERY, NONE, Effect

Figure = Callable[[DemoSummary], float | None]

ERRORS: Final[tuple[tuple[str, Figure], ...]] = (
    ("time", lambda s: s.errors.time_percent),
    ("power", lambda s: s.errors.power_percent),
    ("energy", lambda s: s.errors.energy_percent),
    ("slowdown of pairs", lambda s: s.errors.slowdown_percent),
    ("power at submission", lambda s: s.errors.submission_power_percent),
)
SAVINGS: Final[tuple[tuple[str, Figure], ...]] = (
    ("energy of jobs, MWh", lambda s: s.energy_j / 3.6e9),
    ("mean response, h", lambda s: s.mean_response_s / 3600),
    ("makespan, h", lambda s: s.makespan_s / 3600),
    ("mean clock, GHz", lambda s: s.mean_freq_ghz),
)
POLICIES: Final = (
    RegionPolicy.BASE,
    RegionPolicy.MIN_RUNTIME,
    RegionPolicy.MIN_ENERGY,
    RegionPolicy.PRIORITY_INC_V,
)
# By these the effects are held against one another.
JUDGED: Final = ERRORS[:3]

app = typer.Typer(add_completion=False, no_args_is_help=True)
Seeds = Annotated[list[int], typer.Option("--seed", min=0, help="Of the workload; again for more.")]
Jobs = Annotated[int, typer.Option(min=1, help="How many jobs are submitted.")]


@app.command()
def errors(seed: Seeds = [1], jobs: Jobs = 300) -> None:  # noqa: B006 (typer copies it)
    """Print prediction errors of the demo before and after, with each effect alone and without."""
    typer.echo(_line("effects", *(f"{name}, %" for name, _ in ERRORS)))
    typer.echo(_line("---", *(["---:"] * len(ERRORS))))
    all_of_them = [*_errors_by_effects(seed, jobs)]
    for name, found in all_of_them:
        typer.echo(_line(name, *map(_as_figure, found)))
    by_name = dict(all_of_them)
    for number, (figure, _) in enumerate(JUDGED):
        whole = by_name["all"][number]
        costs = {each: whole - by_name[f"all but {each}"][number] for each in Effect}
        dearest = max(Effect, key=lambda each: costs[each])
        typer.echo(f"{figure}: {dearest} costs most, {costs[dearest]:.2f} of {whole:.2f} points")


@app.command()
def savings(seed: Seeds = [1], jobs: Jobs = 300) -> None:  # noqa: B006 (typer copies it)
    """Print what each policy takes before and after, and saves against base."""
    names = [name for name, _ in SAVINGS]
    typer.echo(_line("effects, policy", *names, "energy saved, %"))
    typer.echo(_line("---", *(["---:"] * (len(names) + 1))))
    for name, effects in (("none", NONE), ("all", EVERY)):
        base: list[float] = []
        for policy in POLICIES:
            options = [DemoOptions(each, jobs, policy) for each in seed]
            found = _means([_played(each, effects) for each in options], SAVINGS)
            base = base or found
            saved = 100 * (1 - found[0] / base[0])
            row = (f"{name}, {policy}", *map(_as_figure, found), f"{saved:.1f}")
            typer.echo(_line(*row))


def _errors_by_effects(seeds: Sequence[int], jobs: int) -> Iterator[tuple[str, list[float]]]:
    cases = [("none", NONE)]
    cases += [(f"{each} alone", frozenset({each})) for each in Effect]
    cases += [(f"all but {each}", EVERY - {each}) for each in Effect]
    for name, effects in (*cases, ("all", EVERY)):
        played = [_played(DemoOptions(seed, jobs), effects) for seed in seeds]
        yield name, _means(played, ERRORS)


def _played(options: DemoOptions, effects: frozenset[Effect]) -> DemoSummary:
    """The demo where these effects are true."""
    system = embedded.run(replace(options, without=off(effects)), lambda _jobs: None)
    return summarise(History.read(system.topic))


def off(effects: Iterable[Effect]) -> str:
    """Return what switches off all but these effects, as a setting."""
    return ",".join(sorted(EVERY.difference(effects)))


def _means(played: Sequence[DemoSummary], figures: Sequence[tuple[str, Figure]]) -> list[float]:
    """Over the runs, NaN where one has nothing to compare."""
    return [fmean(_number(figure(each)) for each in played) for _, figure in figures]


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _as_figure(value: float) -> str:
    return f"{value:.2f}"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    app()
