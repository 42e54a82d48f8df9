"""Projections as a call is answered: the pure part."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from coplace.v1.energy_service_pb2 import Projection as Answer
from coplace.v1.energy_service_pb2 import ProjectionGap, ProjectResponse
from numpy.typing import NDArray

from services.energy.api.request import Asked, Subject
from shared.domain.coefficients import Coefficients
from shared.domain.errors import RejectedError
from shared.domain.signature import Signature
from shared.policies.ear import Metrics, project_onto_models
from shared.policies.projection import Projection, Status
from shared.policies.reference import reference_signature

# The AppDB's rows by (app_id, node model).
Rows = Mapping[tuple[str, str], Sequence[Signature]]

_QUANTITIES: Final = ("time_s", "power_w", "energy_j")
_DEVIATIONS: Final = ("time_sd", "power_sd")


@dataclass(frozen=True, slots=True)
class Start:
    """The signature that a projection starts from; without one, the problem says why."""

    signature: Signature | None
    problem: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """One node model's points as lists, by subject and P-state.

    `quantities` and `deviations` by name; `has_deviations` (subjects,): whether any is known.
    """

    freq_ghz: list[float]
    status: list[list[int]]
    quantities: dict[str, list[list[float]]]
    deviations: dict[str, list[list[float]]]
    has_deviations: list[bool]


def answer(
    asked: Asked, node_models: Sequence[str], tables: Mapping[str, Coefficients], rows: Rows
) -> ProjectResponse:
    """Every subject on every node model; where there is no projection, why.

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


def _starts(asked: Asked, table: Coefficients, rows: Rows) -> list[Start]:
    return [_start(index, subject, table, rows) for index, subject in enumerate(asked.subjects)]


def _start(index: int, subject: Subject, table: Coefficients, rows: Rows) -> Start:
    if isinstance(subject, Signature):
        return _given(f"subjects[{index}].signature", subject, table)
    try:
        return Start(_fitting(table, rows.get((subject, table.node_model), ())))
    except RejectedError as error:
        return Start(None, error.problem)


def _given(field: str, signature: Signature, table: Coefficients) -> Start:
    if signature.node_model != table.node_model:
        return Start(None, Status.NO_SIGNATURE.text)
    try:
        return Start(_fitting(table, [signature]))
    except RejectedError as error:
        raise RejectedError(f"{field}.{error.field}", error.problem) from None


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
    asked: Asked, tables: Sequence[Coefficients], starts: Mapping[str, Sequence[Start]]
) -> dict[str, _Columns]:
    if not tables:
        return {}
    metrics = [Metrics.of(t, [start.signature for start in starts[t.node_model]]) for t in tables]
    several = project_onto_models(tables, metrics, via_intermediate=asked.via_intermediate)
    wanted = several.onto(asked.pstates_ghz) if asked.pstates_ghz else several
    return {
        table.node_model: _columns(wanted, number, whole_table=not asked.pstates_ghz)
        for number, table in enumerate(tables)
    }


def _columns(several: Projection, number: int, *, whole_table: bool) -> _Columns:
    """Those of one node model; of a whole table without the P-states that only others have."""
    status = several.status[:, number]
    own = np.flatnonzero((status[0] != Status.NO_SUCH_PSTATE) | (not whole_table))

    def lists(name: str) -> list[list[float]]:
        values: NDArray[np.float64] = getattr(several, name)
        found: list[list[float]] = values[:, number, own].tolist()
        return found

    return _Columns(
        freq_ghz=np.asarray(several.pstates_ghz)[own].tolist(),
        status=status[:, own].tolist(),
        quantities={name: lists(name) for name in _QUANTITIES},
        deviations={name: lists(name) for name in _DEVIATIONS},
        has_deviations=[bool(np.isfinite(sd).any()) for sd in several.time_sd[:, number, own]],
    )


def _answer(
    index: int, subject: Subject, start: Start, table: Coefficients, columns: _Columns
) -> Answer:
    status = columns.status[index]
    there = [k for k, code in enumerate(status) if code <= Status.VIA_INTERMEDIATE]
    lists = dict(columns.quantities)
    if columns.has_deviations[index]:
        lists |= columns.deviations
    taken = {name: [rows[index][k] for k in there] for name, rows in lists.items()}
    return Answer(
        subject=index,
        app_id=_app_id(subject),
        node_model=table.node_model,
        coefficients_version=table.version,
        from_ghz=start.signature.freq_ghz if start.signature else 0.0,
        freq_ghz=[columns.freq_ghz[k] for k in there],
        is_indirect=[status[k] == Status.VIA_INTERMEDIATE for k in there],
        gaps=_gaps(columns.freq_ghz, status, start.problem),
        **taken,
    )


def _gaps(
    freq_ghz: Sequence[float], status: Sequence[int], problem: str
) -> Iterator[ProjectionGap]:
    by_reason: dict[str, list[float]] = defaultdict(list)
    for ghz, code in zip(freq_ghz, status, strict=True):
        if code > Status.VIA_INTERMEDIATE:
            is_absent = code == Status.NO_SIGNATURE
            by_reason[problem if is_absent else Status(code).text].append(ghz)
    return (ProjectionGap(reason=reason, freq_ghz=ghz) for reason, ghz in by_reason.items())


def _without_coefficients(
    index: int, subject: Subject, node_model: str, pstates_ghz: Sequence[float]
) -> Answer:
    reason = f"no coefficients of {node_model} are known: measure kernels at its P-states"
    return Answer(
        subject=index,
        app_id=_app_id(subject),
        node_model=node_model,
        gaps=[ProjectionGap(reason=reason, freq_ghz=pstates_ghz)],
    )


def _app_id(subject: Subject) -> str:
    return subject if isinstance(subject, str) else subject.app_id
