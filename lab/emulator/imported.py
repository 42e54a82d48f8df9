"""What reports of EAR say of applications before the first job: it counts in place of a run on the
emulated nodes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from coplace_client.errors import UnusableError
from coplace_client.signature import Signature
from lab.workloads.table1 import APPS
from services.energy.adapters.ear_kinds import separate_kinds
from services.energy.adapters.ear_report import TPI_SCALE, read_reports
from services.energy.adapters.signatures_csv import nearest_pstate
from shared.domain.cluster import Cluster

# By application and node model, at each P-state that one ran at.
ImportedSignatures = Mapping[tuple[str, str], Sequence[Signature]]


def read_imported(folder: Path, clusters: Sequence[Cluster]) -> ImportedSignatures:
    """Read a folder of reports, `NODE_MODEL.csv` each.

    Raises OSError, RejectedError for values that cannot be, and UnusableError where there is no
    report of a node model of these clusters, or none of the applications that are emulated.
    """
    pstates_ghz = {cluster.node_model: cluster.pstates_ghz for cluster in clusters}
    paths = sorted(folder.glob("*.csv"))
    unknown = [path.stem for path in paths if path.stem not in pstates_ghz]
    if unknown or not paths:
        names = ", ".join(f"{name}.csv" for name in sorted(pstates_ghz))
        problem = f"{unknown[0]}.csv is of no node model here" if unknown else "no report is there"
        raise UnusableError(f"{folder}: {problem}: reports are {names}")
    found = {
        (kind.app_id, path.stem): _at_pstates(
            kind.signatures(path.stem, TPI_SCALE), pstates_ghz[path.stem]
        )
        for path in paths
        for kind in separate_kinds([r for each in read_reports([path]) for r in each.runs]).kinds
        if kind.app_id in APPS
    }
    if not found:
        known = ", ".join(APPS)
        raise UnusableError(f"{folder}: no report is of an application here: these are {known}")
    return found


def _at_pstates(
    signatures: Iterable[Signature], pstates_ghz: Sequence[float]
) -> tuple[Signature, ...]:
    """Return them at the nodes' P-states, one each: that of most runs."""
    found: dict[float, Signature] = {}
    for each in signatures:
        ghz = nearest_pstate(each.freq_ghz, pstates_ghz)
        before = found.get(ghz)
        if ghz in pstates_ghz and (before is None or before.count < each.count):
            found[ghz] = replace(each, freq_ghz=ghz)
    return tuple(found[ghz] for ghz in sorted(found))
