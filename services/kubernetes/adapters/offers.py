"""What clusters declare of their nodes since jobs ask for it, and jobs that wait for a cluster."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, Protocol

from coplace.v1.jobs_pb2 import JobSubmitted

from coplace_client.errors import UnusableError
from services.kubernetes.model.fitting import fits
from shared.kubernetes.node_reporter import NodeReporter

_SEEN_S: Final = 3.0


class ReportingExecutor(Protocol):
    """Which an executor of a cluster is; `AssignedJobs` says it."""

    @property
    def begun(self) -> asyncio.Event: ...


class JobOffers:
    """Of the clusters of one process, by the reporters of their nodes; nobody knows when the
    executors of some begin to report."""

    def __init__(
        self, reporters: Mapping[str, NodeReporter], executors: Mapping[str, ReportingExecutor]
    ) -> None:
        self._reporters, self._executors = reporters, executors
        self._reported = set[str]()

    async def offer(self, asked: JobSubmitted) -> str:
        """Have all clusters declare what a job asks for of nodes: it may go to any. Of a cluster
        that cannot be declared its reporter says so, and the job goes to others. Return why the job
        has to wait until it is submitted, empty where it has not to: placement would reject what
        fits on no cluster yet, for good."""
        for each in self._reporters.values():
            if each.has_nodes:
                with suppress(UnusableError):
                    await (each.offer(asked) if each.declaration else each.declare())
        awaited = [] if asked.clusters else self._unreported()
        if not awaited or self._may_fit(asked):
            return ""
        words = "and its executor has not reported nodes that make a cluster yet"
        return f"it may fit on {', '.join(awaited)} alone, {words}"

    async def follow(self, look: Callable[[], object]) -> None:
        """Note when executors have reported their nodes; look at jobs that wait again then."""
        async with asyncio.TaskGroup() as tasks:
            for name, executor in self._executors.items():
                tasks.create_task(self._follow(name, executor, look))

    async def _follow(
        self, name: str, executor: ReportingExecutor, look: Callable[[], object]
    ) -> None:
        """Of one that has begun all nodes are there, and are seen within a moment."""
        await executor.begun.wait()
        await asyncio.sleep(_SEEN_S)
        reporter = self._reporters[name]
        await reporter.declared.wait()
        with suppress(UnusableError):  # it says so itself
            await reporter.declare()
        self._reported.add(name)
        look()

    def _unreported(self) -> list[str]:
        return sorted(self._executors.keys() - self._reported)

    def _may_fit(self, asked: JobSubmitted) -> bool:
        """Whether it fits on a cluster that is declared, or placement may know from before one that
        cannot be declared now."""
        for name, each in self._reporters.items():
            if each.declaration is None:
                if name not in self._executors:
                    return True
            elif fits(asked, each.declaration):
                return True
        return False
