"""The benchmark's table and files."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import orjson
from rich.table import Table

from coplace_client.files import write_whole
from lab.benchmarks.system.run import Measured
from lab.benchmarks.system.step import Seen

FILES: Final = ("bench.json", "bench.png")
# What others do. Slurm: "High Throughput Computing Administration Guide", section Performance
# Results (https://slurm.schedmd.com/high_throughput.html), a sustained rate of simple batch jobs.
# Kueue 0.12 with a real API server: timed by us on a machine of 2 cores.
SLURM_JOBS_PER_S: Final = 500
KUEUE_JOBS_PER_S: Final = 30
_SHOWN_RATES_PER_S: Final = (250, 500)
_MIB: Final = 1 << 20


def write(measured: Measured, folder: Path) -> None:
    """Write all files into `folder`."""
    from lab.benchmarks.system import plot  # a second to import, and only needed at the end

    text = orjson.dumps(measured, option=orjson.OPT_INDENT_2)
    with write_whole(folder / "bench.json") as path:
        path.write_bytes(text + b"\n")
    plot.draw(measured, folder / "bench.png")


def table(measured: Measured) -> Table:
    """Return the figures as people read them."""
    title = f"{measured.cores} cores, {measured.queued:,} jobs queued, rounds of 100 ms"
    rows = Table(title=title, show_header=False)
    rows.add_column("figure")
    rows.add_column("value", justify="right")
    for name, value in _rows(measured):
        rows.add_row(name, value)
    return rows


def _rows(measured: Measured) -> Iterable[tuple[str, str]]:
    sustained = measured.sustained
    yield "jobs decided: one process, no server", f"{measured.embedded_jobs_per_s:,.0f} /s"
    rate = f"{sustained.rate_per_s:,.0f} /s" if sustained else "no rate was sustained"
    yield "jobs decided, sustained: Kafka, every service a process", rate
    yield "  Slurm, by its documentation", f"{SLURM_JOBS_PER_S} /s"
    yield "  Kueue 0.12, real API server, 2 cores", f"{KUEUE_JOBS_PER_S} /s"
    for seen in measured.waiting:
        if seen.rate_per_s in _SHOWN_RATES_PER_S or seen is sustained:
            yield f"submission to outcome at {seen.rate_per_s:.0f} /s, all wait", _latency(seen)
    for seen in measured.flowing:
        yield f"submission to outcome at {seen.rate_per_s:.0f} /s, all start", _latency(seen)
    yield "telemetry samples acknowledged by ingest", f"{measured.samples_per_s:,.0f} /s"
    for name, rss_bytes in measured.rss_bytes.items():
        yield f"memory of {name}", f"{rss_bytes / _MIB:.0f} MiB"
    yield "load of the machine before", f"{measured.load_1min_before:.1f}"
    yield "took", f"{measured.took_s:.0f} s"


def _latency(seen: Seen) -> str:
    kept_up = "" if seen.is_sustained else ", not sustained"
    return f"p50 {seen.p50_ms:,.0f} ms, p99 {seen.p99_ms:,.0f} ms{kept_up}"
