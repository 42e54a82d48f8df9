"""The files and the table of a run, written from its topics."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import orjson
from google.protobuf.message import Message
from rich.table import Table

from coplace_client.files import write_whole
from lab.demo.caps import CapFigures
from lab.demo.history import History
from lab.demo.summary import ActionFigures, DemoSummary, summarise
from shared.catalogue.event import ReadTopic
from shared.catalogue.event_json import data_of, write_events
from shared.domain.money import QUANTUM
from shared.process.folders import write_csv
from shared.replay.rules import RULES

DECISIONS = "decisions.jsonl"
FILES = (
    DECISIONS,
    "charges.jsonl",
    "jobs.csv",
    "accounts.json",
    "summary.json",
    "gantt.png",
    "power.png",
    "cap.png",
    "placement.inputs.jsonl",
    RULES,
)
INPUTS = "placement.inputs"
COLUMNS = (
    "job_id",
    "app_id",
    "cluster",
    "nodes",
    "freq_ghz",
    "submit_s",
    "start_s",
    "end_s",
    "energy_j",
    "price_su",
)


def write(history: History, spent_micro_su: Mapping[str, int], folder: Path) -> DemoSummary:
    """Write all files of a run into `folder` and return its figures. Times are event times."""
    from lab.demo import plots  # a second to import, and no other command needs it

    summary = summarise(history)
    _write_lines(folder / DECISIONS, history.decisions)
    _write_lines(folder / "charges.jsonl", history.charges)
    write_csv(folder / "jobs.csv", COLUMNS, _job_rows(history))
    _write_json(folder / "accounts.json", _balances(spent_micro_su))
    _write_json(folder / "summary.json", summary.as_json())
    plots.gantt(history, folder / "gantt.png")
    plots.power(history, folder / "power.png")
    plots.falling_cap(history, folder / "cap.png")
    return summary


def write_inputs(topic: ReadTopic, folder: Path) -> None:
    """Write the record of what placement knew, and when: `coplace simulate --recorded` plays it."""
    write_events(folder / f"{INPUTS}.jsonl", topic(INPUTS))


def _write_lines(path: Path, messages: Iterable[Message]) -> None:
    with write_whole(path) as fresh, fresh.open("wb") as file:
        for message in messages:
            plain = data_of(message, with_defaults=True)
            file.write(orjson.dumps(plain, option=orjson.OPT_APPEND_NEWLINE))


def _write_json(path: Path, content: Mapping[str, object]) -> None:
    with write_whole(path) as fresh:
        fresh.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _balances(spent_micro_su: Mapping[str, int]) -> Mapping[str, str]:
    """What each account spent, in service units."""
    return {account: str(spent * QUANTUM) for account, spent in sorted(spent_micro_su.items())}


def _job_rows(history: History) -> Iterator[Sequence[object]]:
    """A finished attempt each; seconds count from the first submission."""
    charges = history.final_charges()
    begin_us = min(job.submitted_at_us for job in history.finished)
    for job in history.finished:
        times_us = (job.submitted_at_us, job.started_at_us, job.ended_at_us)
        yield (
            *(job.job_id, job.app_id, job.cluster, job.nodes, job.freq_ghz),
            *((at - begin_us) / 1e6 for at in times_us),
            job.energy_j,
            charges[job.job_id, job.attempt].price_su,
        )


_OF_SHARING: Final[tuple[tuple[str, str, Callable[[DemoSummary], float]], ...]] = (
    ("makespan", "h", lambda summary: summary.makespan_s / 3600),
    ("mean response time", "h", lambda summary: summary.mean_response_s / 3600),
    ("energy of jobs", "MWh", lambda summary: summary.energy_j / 3.6e9),
    ("price", "SU", lambda summary: float(summary.total_price_su)),
)


def table(summary: DemoSummary, title: str) -> Table:
    """Return the figures as people read them."""
    rows = Table(title=title, show_header=False)
    rows.add_column("figure")
    rows.add_column("value", justify="right")
    for name, value in _rows(summary):
        rows.add_row(name, value)
    return rows


def of_sharing(beside: DemoSummary, apart: DemoSummary) -> Table:
    """Return what sharing nodes by the policy changed, against nobody having a neighbour."""
    rows = Table(title="neighbours by the policy")
    for name in ("figure", "with", "without", "difference"):
        rows.add_column(name, justify="left" if name == "figure" else "right")
    for name, unit, figure in _OF_SHARING:
        with_, without = figure(beside), figure(apart)
        change = f"{100 * (with_ / without - 1):+.2f} %" if without else ""
        rows.add_row(name, f"{with_:,.2f} {unit}", f"{without:,.2f} {unit}", change)
    both = beside, apart
    shares = (_as_percent(each.share_shared_nodes) for each in both)
    rows.add_row("ran beside another job", *shares, "")
    kept = (f"{e.promises_kept:,} of {e.promises_kept + e.promises_broken:,}" for e in both)
    rows.add_row("promised slowdowns, kept", *kept, "")
    return rows


def _rows(summary: DemoSummary) -> Iterable[tuple[str, str]]:
    yield "jobs", f"{summary.jobs:,}"
    yield "makespan", f"{summary.makespan_s / 3600:,.2f} h"
    yield "mean response time", f"{summary.mean_response_s / 3600:,.2f} h"
    yield "energy of jobs", f"{summary.energy_j / 3.6e9:,.3f} MWh"
    yield "mean frequency", f"{summary.mean_freq_ghz:.2f} GHz"
    yield "on their best cluster", _as_percent(summary.share_on_best_cluster)
    yield "waited", _as_percent(summary.share_waited)
    yield "backfilled", _as_percent(summary.share_backfilled)
    yield "ran beside another job", _as_percent(summary.share_shared_nodes)
    parts, beside = summary.jobs_on_parts_of_nodes, summary.most_co_runners
    yield "on part of a node", f"{parts:,} jobs, beside {beside} at most"
    yield (
        "promised slowdowns",
        f"{summary.promises_kept:,} kept, {summary.promises_broken:,} broken",
    )
    yield "with GPUs", f"{summary.jobs_with_gpus:,} jobs"
    yield "discounted", _as_percent(summary.share_discounted)
    yield "waited for power", f"{summary.jobs_waited_for_power:,} jobs"
    if summary.jobs_rejected:
        yield "rejected", f"{summary.jobs_rejected:,} jobs"
    for cap in summary.caps:
        yield from _cap_rows(cap)
    yield from _action_rows(summary.actions)
    against = summary.mean_price_against_state_of_practice
    yield "mean price against state of practice", _as_percent(against)
    yield "prediction error: time (EAR)", _as_error(summary.errors.time_percent)
    yield "prediction error: power (EAR)", _as_error(summary.errors.power_percent)
    yield "prediction error: energy (EAR)", _as_error(summary.errors.energy_percent)
    yield "prediction error: slowdown of pairs", _as_error(summary.errors.slowdown_percent)
    errors = summary.errors
    yield "prediction error: power at submission", _as_error(errors.submission_power_percent)
    without = errors.submission_power_without_history_percent
    yield "prediction error: that without history", _as_error(without)
    yield "power at or below its bound", _as_error(errors.submission_power_below_bound_percent)


def _action_rows(actions: ActionFigures) -> Iterable[tuple[str, str]]:
    clocks = f"{actions.clocked_down:,} down, {actions.clocked_up:,} up"
    yield "asked of jobs that ran: P-state", clocks
    stops = f"{actions.suspended:,} suspended, {actions.resumed:,} resumed, {actions.ended:,} ended"
    yield "asked of jobs that ran: otherwise", stops
    yield "done of that", f"{actions.done:,}, on {actions.jobs:,} jobs"


def _cap_rows(cap: CapFigures) -> Iterable[tuple[str, str]]:
    for how, drawn in (("metered", cap.metered), ("predicted", cap.predicted)):
        share = drawn.highest_w / drawn.cap_w if drawn.cap_w else 0.0
        figures = f"{drawn.highest_w / 1000:,.1f} kW of {drawn.cap_w / 1000:,.1f} kW"
        yield f"cap of {cap.subject}: highest draw, {how}", f"{figures}, {_as_percent(share)}"
        yield f"cap of {cap.subject}: above it, {how}", f"{drawn.above_s / 60:,.1f} min"
    yield f"cap of {cap.subject}: waited for it", f"{cap.waited:,} jobs"


def _as_percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _as_error(percent: float | None) -> str:
    return "nothing to compare" if percent is None else f"{percent:.2f} %"
