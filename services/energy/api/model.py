"""Projections as a call is answered: the pure part."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from coplace.v1.energy_service_pb2 import Projection as Answer
from coplace.v1.energy_service_pb2 import ProjectionGap, ProjectResponse

from coplace_client.errors import RejectedError
from coplace_client.signature import Signature
from services.energy.api.request import AppOrSignature, Asked
from shared.domain.coefficients import Coefficients
from shared.eamc.reference import reference_signature
from shared.models.ear import Metrics, project_metrics
from shared.models.own_history import with_history
from shared.models.projection import Projection, Status, side_by_side

# The AppDB's rows by (app_id, node model).
Rows = Mapping[tuple[str, str], Sequence[Signature]]

_QUANTITIES: Final = ("time_s", "power_w", "energy_j")
_DEVIATIONS: Final = ("time_sd", "power_sd")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class ProjectionStart:
    """The signature that a projection starts from; without one, the problem says why. `known` are
    those at all clocks of an application of the AppDB."""

    signature: Signature | None
    problem: str = ""
    known: Sequence[Signature] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _PointColumns:
    """One node model's points as lists, by subject and P-state.

    `values` and `deviations` by name; `has_gaps` and `has_deviations` by subject, whether there is
    any.
    """

    freq_ghz: list[float]
    status: list[list[int]]
    is_indirect: list[list[bool]]
    values: dict[str, list[list[float]]]
    deviations: dict[str, list[list[float]]]
    has_gaps: list[bool]
    has_deviations: list[bool]


def answer(
    asked: Asked, node_models: Sequence[str], tables: Mapping[str, Coefficients], rows: Rows
) -> ProjectResponse:
    """Project every subject on every node model; where there is no projection, say why.

    Raises RejectedError for a signature of the caller's own that the coefficients do not fit.
    """
    known = [tables[model] for model in node_models if model in tables]
    starts = {table.node_model: _starts(asked, table, rows) for table in known}
    columns = _projected(asked, known, starts)
    response = ProjectResponse()
    for index, subject in enumerate(asked.subjects):
        for model in node_models:
            response.projections.append(
                _answer(index, subject, starts[model][index], tables[model], columns[model])
                if model in tables
                else _without_coefficients(index, subject, model, asked.pstates_ghz)
            )
    return response


def _starts(asked: Asked, table: Coefficients, rows: Rows) -> list[ProjectionStart]:
    return [_start(index, subject, table, rows) for index, subject in enumerate(asked.subjects)]


def _start(index: int, subject: AppOrSignature, table: Coefficients, rows: Rows) -> ProjectionStart:
    if isinstance(subject, Signature):
        return _given(f"subjects[{index}].signature", subject, table)
    try:
        known = rows.get((subject, table.node_model), ())
        return ProjectionStart(_fitting(table, known), known=known)
    except RejectedError as error:
        return ProjectionStart(None, error.problem)


def _given(field: str, signature: Signature, table: Coefficients) -> ProjectionStart:
    if signature.node_model != table.node_model:
        return ProjectionStart(None, Status.NO_SIGNATURE.text)
    try:
        return ProjectionStart(_fitting(table, [signature]))
    except RejectedError as error:
        raise error.inside(field) from None


def _fitting(table: Coefficients, signatures: Sequence[Signature]) -> Signature:
    """The signature to project from. Raises RejectedError when the coefficients fit none."""
    if not signatures:
        raise RejectedError("app_id", Status.NO_SIGNATURE.text)
    scale = signatures[0].tpi_scale
    if scale != table.tpi_scale:
        problem = f"TPI is in {scale}, that of the coefficients in {table.tpi_scale}: measure again"
        raise RejectedError("tpi_scale", problem)
    found = reference_signature(signatures, table)
    if found is None:
        measured = ", ".join(f"{s.freq_ghz:g}" for s in signatures)
        raise RejectedError("at.freq_ghz", f"the coefficients have no P-state of {measured} GHz")
    return found


def _projected(
    asked: Asked, tables: Sequence[Coefficients], starts: Mapping[str, Sequence[ProjectionStart]]
) -> dict[str, _PointColumns]:
    if not tables:
        return {}
    several = side_by_side(
        _on_model(table, starts[table.node_model], via_intermediate=asked.via_intermediate)
        for table in tables
    )
    wanted = several.onto(asked.pstates_ghz) if asked.pstates_ghz else several
    return {
        table.node_model: _columns(wanted, number, whole_table=not asked.pstates_ghz)
        for number, table in enumerate(tables)
    }


def _on_model(
    table: Coefficients, starts: Sequence[ProjectionStart], *, via_intermediate: bool
) -> Projection:
    signatures = [start.signature for start in starts]
    metrics = Metrics.from_signatures(table, signatures)
    projection = project_metrics(table, metrics, via_intermediate=via_intermediate)
    return with_history(projection, signatures, [start.known for start in starts])


def _columns(several: Projection, number: int, *, whole_table: bool) -> _PointColumns:
    """Those of one node model; of a whole table without the P-states that only others have."""
    own = np.flatnonzero((several.status[0, number] != Status.NO_SUCH_PSTATE) | (not whole_table))

    def lists(names: Sequence[str]) -> dict[str, list[list[float]]]:
        return {name: getattr(several, name)[:, number, own].tolist() for name in names}

    status = several.status[:, number, own]
    is_missing = status > Status.VIA_INTERMEDIATE
    is_known = np.isfinite(several.time_sd[:, number, own])
    return _PointColumns(
        freq_ghz=np.asarray(several.pstates_ghz)[own].tolist(),
        status=status.tolist(),
        is_indirect=(status == Status.VIA_INTERMEDIATE).tolist(),
        values=lists(_QUANTITIES),
        deviations=lists(_DEVIATIONS),
        has_gaps=np.asarray(is_missing.any(axis=1)).tolist(),
        has_deviations=np.asarray(is_known.any(axis=1)).tolist(),
    )


def _answer(
    index: int,
    subject: AppOrSignature,
    start: ProjectionStart,
    table: Coefficients,
    columns: _PointColumns,
) -> Answer:
    lists = {name: rows[index] for name, rows in columns.values.items()}
    lists["freq_ghz"] = columns.freq_ghz
    if columns.has_deviations[index]:
        lists |= {name: rows[index] for name, rows in columns.deviations.items()}
    is_indirect, gaps = columns.is_indirect[index], list[ProjectionGap]()
    if columns.has_gaps[index]:
        status = columns.status[index]
        gaps = _gaps(columns.freq_ghz, status, start.problem)
        is_indirect = _there(is_indirect, status)
        lists = {name: _there(values, status) for name, values in lists.items()}
    return Answer(
        subject=index,
        app_id=_app_id(subject),
        node_model=table.node_model,
        coefficients_version=table.version,
        from_ghz=start.signature.freq_ghz if start.signature else 0.0,
        is_indirect=is_indirect,
        gaps=gaps,
        **lists,
    )


def _there(values: Sequence[_Value], status: Sequence[int]) -> list[_Value]:
    """Those of the P-states that have a projection."""
    found = zip(values, status, strict=True)
    return [value for value, code in found if code <= Status.VIA_INTERMEDIATE]


def _gaps(freq_ghz: Sequence[float], status: Sequence[int], problem: str) -> list[ProjectionGap]:
    by_reason: dict[str, list[float]] = defaultdict(list)
    for ghz, code in zip(freq_ghz, status, strict=True):
        if code > Status.VIA_INTERMEDIATE:
            is_absent = code == Status.NO_SIGNATURE
            by_reason[problem if is_absent else Status(code).text].append(ghz)
    return [ProjectionGap(reason=reason, freq_ghz=ghz) for reason, ghz in by_reason.items()]


def _without_coefficients(
    index: int, subject: AppOrSignature, node_model: str, pstates_ghz: Sequence[float]
) -> Answer:
    reason = f"no coefficients of {node_model} are known: measure kernels at its P-states"
    return Answer(
        subject=index,
        app_id=_app_id(subject),
        node_model=node_model,
        gaps=[ProjectionGap(reason=reason, freq_ghz=pstates_ghz)],
    )


def _app_id(subject: AppOrSignature) -> str:
    return subject if isinstance(subject, str) else subject.app_id
