"""The licences that the emulated operators declare, and what their resource managers refuse for
them."""

from collections.abc import Iterable, Iterator, Sequence

from coplace.v1.control_pb2 import (
    LICENCE_SCOPE_CLUSTER,
    LICENCE_SCOPE_REGION,
    LICENCE_SCOPE_SITE,
    LicenceScope,
    LicencesDeclared,
)

from lab.emulator.facts import EPOCH_US
from lab.emulator.machine import Machine
from lab.emulator.operators import declaration
from lab.emulator.running import RunningJob
from lab.workloads.licensed import OF_CLUSTER, OF_REGION, OF_SITE
from lab.workloads.request import JobRequest
from shared.catalogue.event import Publish
from shared.domain.cluster import Cluster


def built_in_licences(clusters: Sequence[Cluster]) -> list[LicencesDeclared]:
    """Return some of each cluster, some of each site, and some of the region."""
    sites = sorted({cluster.site for cluster in clusters})
    return [
        *(_declared(LICENCE_SCOPE_CLUSTER, each.name, *OF_CLUSTER) for each in clusters),
        *(_declared(LICENCE_SCOPE_SITE, site, *OF_SITE) for site in sites),
        _declared(LICENCE_SCOPE_REGION, "", *OF_REGION),
    ]


def licences_event(licences: LicencesDeclared) -> Publish:
    """Return the event that an operator declared them."""
    subject = f"{licences.scope}/{licences.place}/{licences.name}"
    return declaration(licences, subject, licences.name)


def wrong_licences(
    request: JobRequest,
    machine: Machine,
    licences: Sequence[LicencesDeclared],
    running: Iterable[RunningJob],
) -> str | None:
    """Return of which licences a start takes more than are free; None where it takes of none."""
    others = list(running)
    for each in licences:
        needed = dict(request.licences).get(each.name, 0)
        if needed and _covers(each, machine.cluster):
            taken = needed + sum(_held(each, others))
            if taken > each.count:
                where = each.place or "the region"
                return f"takes {needed} {each.name} of {where}: {taken} of {each.count} in use"
    return None


def _held(licences: LicencesDeclared, running: Iterable[RunningJob]) -> Iterator[int]:
    for run in running:
        if _covers(licences, run.machine.cluster):
            yield dict(run.request.licences).get(licences.name, 0)


def _covers(licences: LicencesDeclared, cluster: Cluster) -> bool:
    there = {LICENCE_SCOPE_CLUSTER: cluster.name, LICENCE_SCOPE_SITE: cluster.site}
    return licences.place == there.get(licences.scope, "")


def _declared(scope: LicenceScope.ValueType, place: str, name: str, count: int) -> LicencesDeclared:
    return LicencesDeclared(
        scope=scope, place=place, name=name, count=count, declared_at_us=EPOCH_US
    )
