"""`python -m lab.benchmarks.system.link`: what the link between a site's Kafka and the hub's
carries: MirrorMaker 2 by the chart's own files, read committed and exactly once."""

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.box import MARKDOWN
from rich.console import Console
from rich.progress import track
from rich.table import Table

from cli.failures import ReportingGroup
from deploy.local.servers import LocalServers
from shared.streams.on_kafka.clients import Publisher, Reader
from shared.streams.on_kafka.deployment import Deployment
from tests.support.messaging import submission
from tests.support.sites import HubServers, mirror, topics_of

_TOPIC: Final = "jobs.events"
_WITHIN_S: Final = 300.0
_BATCH: Final = 1_000

app = typer.Typer(cls=ReportingGroup)


@app.callback(invoke_without_command=True)
def measure(
    records: Annotated[int, typer.Option(min=1, help="Submissions sent at once.")] = 50_000,
    single: Annotated[int, typer.Option(min=2, help="Sent one after the other.")] = 100,
) -> None:
    """Send submissions from a site to its hub, many at once and then one by one."""
    with ExitStack() as stack:
        site, hub = _ends(stack)
        link = _Link(site, hub, stack)
        link.delay_s("first")  # the connectors have started
        began_s = time.monotonic()
        for start in track(range(0, records, _BATCH), "sent"):
            link.send(f"many-{start}", min(_BATCH, records - start))
        sent_s = time.monotonic() - began_s
        link.wait(records)
        took_s = time.monotonic() - began_s
        delays_s = sorted(link.delay_s(f"one-{number}") for number in range(single))
    table = Table("records", "sent in s", "at the hub after s", "records/s", box=MARKDOWN)
    table.add_row(f"{records:,}", f"{sent_s:.1f}", f"{took_s:.1f}", f"{records / took_s:,.0f}")
    console = Console()
    console.print(table)
    p50_ms, p99_ms = (1e3 * delays_s[int(share * (single - 1))] for share in (0.5, 0.99))
    console.print(f"one at a time, of {single}: p50 {p50_ms:.0f} ms, p99 {p99_ms:.0f} ms")


def _ends(stack: ExitStack) -> tuple[Deployment, Deployment]:
    """The site's Kafka and the hub's with their topics, and the mirror between them."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="link-")))
    hub, site = HubServers(folder / "hub"), LocalServers(folder / "site", redis=False)
    for each in (hub, hub.link, site):
        stack.enter_context(each)
    ends = topics_of(site).deployment, topics_of(hub).deployment
    site.start([mirror(folder, hub, site)])
    return ends


class _Link:
    """Both ends of it."""

    def __init__(self, site: Deployment, hub: Deployment, stack: ExitStack) -> None:
        self._codec = site.codec
        self._publisher = stack.enter_context(Publisher(site))
        partitions = hub.topics.partitions(_TOPIC)
        self._arriving = stack.enter_context(Reader(hub, partitions))

    def send(self, name: str, count: int) -> None:
        """Append so many submissions at the site."""
        each = (submission(f"{name}-{number}") for number in range(count))
        self._publisher.append(map(self._codec.encode, each))

    def wait(self, count: int) -> None:
        """Until so many came at the hub. Raises TimeoutError when they do not."""
        until_s = time.monotonic() + _WITHIN_S
        while count > 0:
            count -= len(self._arriving.poll(timeout_s=0.02))
            if time.monotonic() > until_s:
                raise TimeoutError(f"{count} records did not come: is MirrorMaker up?")

    def delay_s(self, name: str) -> float:
        """From sending one to its arrival."""
        began_s = time.monotonic()
        self.send(name, 1)
        self.wait(1)
        return time.monotonic() - began_s


if __name__ == "__main__":
    app()
