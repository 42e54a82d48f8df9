"""Means over instances, beside what was published of the same ones."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from lab.papers.capping.instances import CAPS_PCT, Instance
from lab.papers.capping.plays import Outcome
from lab.papers.placement.markdown import table

# The published methods that the headline is measured by.
_THEIR_LS, _THEIR_BF = "LS", "BF"
# Those whose orders DEC is shown beside.
LISTS: Final = ("LS", "LS by walltime", "hybrid")
_NOTHING: Final = "-"
_SEARCHES: Final = ("plans", "improved", "unanswered")


@dataclass(frozen=True, slots=True)
class Row:
    """A set of instances under a cap: those that all contenders solved."""

    group: str
    cap_pct: int
    instances: tuple[Instance, ...]
    outcomes: Mapping[str, Sequence[Outcome]]

    def published(self, method: str) -> float | None:
        """Return the authors' mean on these; None where one of them has none."""
        found = [i.published.get((self.cap_pct, method)) for i in self.instances]
        known = [each for each in found if each is not None]
        return fmean(known) if known and len(known) == len(found) else None

    def mean(self, contender: str, measure: str) -> float:
        """Return a contender's mean."""
        return fmean(getattr(outcome, measure) for outcome in self.outcomes[contender])


def rows_of(instances: Sequence[Instance], outcomes: Iterable[Outcome]) -> list[Row]:
    """Return one row for each set, whether published or not, and cap; by set and falling cap."""
    by_play: dict[tuple[str, int], dict[str, Outcome]] = {}
    for outcome in outcomes:
        by_play.setdefault((outcome.instance, outcome.cap_pct), {})[outcome.contender] = outcome
    most = max(map(len, by_play.values()), default=0)
    groups: dict[str, list[Instance]] = {}
    for instance in instances:
        groups.setdefault(_set(instance), []).append(instance)
    return [
        _row(group, cap_pct, solved, by_play)
        for group, members in sorted(groups.items())
        for cap_pct in CAPS_PCT
        if (solved := [i for i in members if len(by_play.get((i.name, cap_pct), ())) == most])
    ]


def _set(instance: Instance) -> str:
    return instance.group if instance.published else f"{instance.group}, unpublished"


def _row(
    group: str,
    cap_pct: int,
    solved: Sequence[Instance],
    by_play: Mapping[tuple[str, int], Mapping[str, Outcome]],
) -> Row:
    plays = [by_play[instance.name, cap_pct] for instance in solved]
    outcomes = {name: [play[name] for play in plays] for name in plays[0]}
    return Row(group, cap_pct, tuple(solved), outcomes)


def slowdowns(rows: Sequence[Row], contenders: Sequence[str], measure: str) -> str:
    """Return a measure of all contenders."""
    header = ["set", "cap, %", "instances", *contenders]
    return table(
        header,
        [
            [*_name(row), *(f"{row.mean(name, measure):,.3f}" for name in contenders)]
            for row in rows
        ],
    )


def beside_published(rows: Sequence[Row], pairs: Mapping[str, str]) -> str:
    """Return bounded slowdowns (60 s) of contenders beside what was published under another name,
    and how far above it they are, %."""
    header = ["set", "cap, %", "instances"]
    for name, of in pairs.items():
        header += [name, f"published {of}"]
    lines = [
        [*_name(row), *(cell for name, of in pairs.items() for cell in _beside(row, name, of))]
        for row in rows
        if any(instance.published for instance in row.instances)
    ]
    return table(header, lines)


def _beside(row: Row, name: str, published: str) -> tuple[str, str]:
    ours, theirs = row.mean(name, "bounded_slowdown"), row.published(published)
    if theirs is None:
        return f"{ours:.3f}", _NOTHING
    return f"{ours:.3f}", f"{theirs:.3f} ({100 * (ours / theirs - 1):+.1f})"


def equal_waits(
    instances: Sequence[Instance], outcomes: Iterable[Outcome], contender: str, published: str
) -> str:
    """Return on how many plays a contender's jobs wait as long, all together, as was published: by
    cap."""
    waits_s = {instance.name: instance.published_waits_s for instance in instances}
    plays, equal = dict.fromkeys(CAPS_PCT, 0), dict.fromkeys(CAPS_PCT, 0)
    for outcome in outcomes:
        theirs_s = waits_s[outcome.instance].get((outcome.cap_pct, published))
        if outcome.contender == contender and theirs_s is not None:
            plays[outcome.cap_pct] += 1
            equal[outcome.cap_pct] += abs(outcome.queue_time_s - theirs_s) <= 1
    rows = [[str(cap_pct), str(plays[cap_pct]), str(equal[cap_pct])] for cap_pct in CAPS_PCT]
    return table(["cap, %", "plays", "waits as published, to the second"], rows)


def searches(rows: Sequence[Row], contenders: Sequence[str]) -> str:
    """Return the plans that contenders searched for, those cheaper than the list schedule and those
    without an answer in time, and the CPU time of an instance, s."""
    header = ["set", "cap, %", "dispatcher", "plans", "cheaper", "unanswered", "CPU s an instance"]
    lines = []
    for row in rows:
        for name in contenders:
            found = row.outcomes[name]
            counts = (sum(getattr(o, of) for o in found) for of in _SEARCHES)
            cells = [f"{each:,}" for each in counts]
            lines.append([*_name(row)[:2], name, *cells, f"{row.mean(name, 'cpu_s'):,.1f}"])
    return table(header, lines)


def beside_lists(rows: Sequence[Row], contender: str) -> str:
    """Return bounded slowdowns (60 s) of LISTS and a contender beside the published LS, weighted
    queue times (equation 2) in thousands of s, plans, and the CPU time of a play, s."""
    header = [
        *("set", "cap, %", "instances", "LS published", *LISTS, contender),
        *(f"{name}, equation 2" for name in ("LS", contender)),
        *("plans, cheaper, unanswered", "CPU, s"),
    ]
    lines = []
    for row in rows:
        theirs, found = row.published(_THEIR_LS), row.outcomes[contender]
        if theirs is not None:
            means = (row.mean(name, "bounded_slowdown") for name in (*LISTS, contender))
            costs = (row.mean(n, "weighted_queue_time_s") / 1000 for n in ("LS", contender))
            counts = (f"{sum(getattr(o, of) for o in found):,}" for of in _SEARCHES)
            cells = [*(f"{each:.3f}" for each in (theirs, *means)), *(f"{c:,.0f}" for c in costs)]
            cpu_s = row.mean(contender, "cpu_s")
            lines.append([*_name(row), *cells, ", ".join(counts), f"{cpu_s:,.0f}"])
    return table(header, lines)


def headline(rows: Sequence[Row], contenders: Sequence[str]) -> str:
    """Return how far contenders are below the lower of the authors' LS and BF, %."""
    lines = []
    for row in rows:
        theirs = [m for m in map(row.published, (_THEIR_LS, _THEIR_BF)) if m is not None]
        if theirs:
            least = min(theirs)
            below = (100 * (1 - row.mean(n, "bounded_slowdown") / least) for n in contenders)
            cells = [f"{least:.3f}", *(f"{each:.1f}" for each in below)]
            lines.append([*_name(row), *cells])
    return table(["set", "cap, %", "instances", "least published", *contenders], lines)


def _name(row: Row) -> tuple[str, str, str]:
    return row.group, str(row.cap_pct), str(len(row.instances))
