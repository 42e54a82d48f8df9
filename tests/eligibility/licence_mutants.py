"""Planted bugs in licences: each replaces right code by a realistic mistake, which the plays of
licences must find."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from shared.placement.state.job_record import JobRecord
from shared.placement.state.licences import LicencePool, LicencePools
from shared.placement.state.occupancy import Occupancy
from shared.scheduling.power import Scope
from tests.eligibility.mutants import Mutant, _patched


@contextmanager
def what_has_nodes_holds_no_licences() -> Iterator[None]:
    """Licences are only taken within a pass."""

    def hold(occupancy: Occupancy, job: JobRecord) -> None:
        right(occupancy, job)
        held = occupancy._held[job.arrival]
        without = held._replace(kind=held.kind._replace(licences=()))
        occupancy._held[job.arrival] = without

    right = Occupancy.hold
    with _patched(Occupancy, "hold", hold):
        yield


@contextmanager
def what_never_can_be_waits_for_nodes() -> Iterator[None]:
    """A job that needs more than there are is let into the queue."""
    with _patched(LicencePools, "lacking_on", lambda _pools, _cluster, _needs: None):
        yield


@contextmanager
def an_exact_fit_is_too_much() -> Iterator[None]:
    """A job that needs all there are is held."""

    def lacking_on(pools: LicencePools, cluster: Any, needs: Any) -> Any:
        return right(pools, cluster, tuple((name, count + 1) for name, count in needs))

    right = LicencePools.lacking_on
    with _patched(LicencePools, "lacking_on", lacking_on):
        yield


@contextmanager
def the_region_alone_counts() -> Iterator[None]:
    """Licences of clusters are shown, and bind nobody."""

    def listed(pools: LicencePools) -> Iterator[LicencePool]:
        return (each for each in right(pools) if each.scope is not Scope.CLUSTER)

    right = LicencePools.listed
    with _patched(LicencePools, "listed", listed):
        yield


@contextmanager
def what_is_declared_anew_counts_after_a_restart() -> Iterator[None]:
    """A number that replaces another one is only stored."""

    def save(pools: LicencePools, key: str, row: LicencePool) -> None:
        known = key in pools._rows.rows
        pools._rows.put(key, row)
        pools._saved_now.add(key)
        if not known:
            pools._refresh()

    with _patched(LicencePools, "_save", save):
        yield


@contextmanager
def none_of_them_is_a_removal() -> Iterator[None]:
    """A number of 0 takes the name away."""

    def save(pools: LicencePools, key: str, row: LicencePool) -> None:
        right(pools, key, row)
        if not row.count:
            pools._known.pop(key, None)

    right = LicencePools._save
    with _patched(LicencePools, "_save", save):
        yield


LICENCE_MUTANTS: Final[tuple[Mutant, ...]] = (
    what_has_nodes_holds_no_licences,
    what_never_can_be_waits_for_nodes,
    an_exact_fit_is_too_much,
    the_region_alone_counts,
    what_is_declared_anew_counts_after_a_restart,
    none_of_them_is_a_removal,
)
