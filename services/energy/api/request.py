"""What a call asks for: messages to domain types, each refusal naming its field."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from coplace.v1.energy_service_pb2 import GivenSignature, ProjectionSubject, ProjectRequest
from google.protobuf.message import DecodeError

from coplace_client.checks import require_positive, require_text
from coplace_client.errors import RejectedError, Violations
from coplace_client.signature import Signature
from shared.domain.cluster import MOST_PSTATES
from shared.domain.coefficients import Coefficients

# An application of the AppDB by its app_id, or a signature of the caller's own.
AppOrSignature = str | Signature
_Value = TypeVar("_Value", str, float)


@dataclass(frozen=True, slots=True)
class Asked:
    """A valid request. Empty `node_models`: all that are known; empty `pstates_ghz`: all."""

    subjects: tuple[AppOrSignature, ...]
    node_models: tuple[str, ...]
    pstates_ghz: tuple[float, ...]
    via_intermediate: bool

    def models_among(self, known: Iterable[str]) -> tuple[str, ...]:
        """Return the node models to project on."""
        given = {s.node_model for s in self.subjects if isinstance(s, Signature)}
        return self.node_models or tuple(sorted({*known, *given}))

    def rows_on(self, node_models: Sequence[str]) -> list[str]:
        """Return the keys of the AppDB's rows that the projections start from."""
        apps = dict.fromkeys(s for s in self.subjects if isinstance(s, str))
        return [row_key(app, model) for app in apps for model in node_models]


def row_key(app_id: str, node_model: str) -> str:
    """Return the key of a row of the AppDB."""
    return f"{app_id}|{node_model}"


def parse(data: bytes) -> Asked:
    """Parse the request in a message. Raises RejectedError, which names every violated field."""
    try:
        message = ProjectRequest.FromString(data)
    except DecodeError:
        raise RejectedError("request", "must be a ProjectRequest with UTF-8 strings") from None
    wrong = Violations()
    asked = Asked(
        subjects=_subjects(message.subjects, wrong),
        node_models=_distinct("node_models", message.node_models, require_text, wrong),
        pstates_ghz=_pstates(message.pstates_ghz, wrong),
        via_intermediate=message.via_intermediate,
    )
    wrong.require_none()
    return asked


def require_few_points(
    asked: Asked, node_models: Sequence[str], tables: Mapping[str, Coefficients], most: int
) -> None:
    """Raise RejectedError for more points than one call may ask for."""
    pstates = [_pstates_on(asked, tables.get(model)) for model in node_models]
    points = len(asked.subjects) * sum(pstates)
    if points > most:
        raise RejectedError(
            "subjects",
            f"{len(asked.subjects)} on {len(node_models)} node models ask for {points} points, "
            f"the limit is {most}: ask in several calls",
        )


def _pstates_on(asked: Asked, table: Coefficients | None) -> int:
    """At least 1: that there is nothing to project has to be said too."""
    return len(asked.pstates_ghz) or (len(table.pstates_ghz) if table else 1)


def _subjects(
    messages: Sequence[ProjectionSubject], wrong: Violations
) -> tuple[AppOrSignature, ...]:
    if not messages:
        wrong.add(RejectedError("subjects", "must hold at least one"))
    found: list[AppOrSignature] = []
    for i, message in enumerate(messages):
        try:
            found.append(_subject(f"subjects[{i}]", message))
        except RejectedError as error:
            wrong.add(error)
    return tuple(found)


def _subject(field: str, message: ProjectionSubject) -> AppOrSignature:
    match message.WhichOneof("subject"):
        case "app_id":
            require_text(f"{field}.app_id", message.app_id)
            return message.app_id
        case "signature":
            return _signature(f"{field}.signature", message.signature)
        case _:
            raise RejectedError(field, "must have an app_id or a signature")


def _signature(field: str, message: GivenSignature) -> Signature:
    try:
        return Signature(
            app_id=message.app_id,
            node_model=message.node_model,
            freq_ghz=message.at.freq_ghz,
            time_s=message.at.time_s,
            power_w=message.at.power_w,
            cpi=message.at.cpi,
            tpi=message.at.tpi,
            mem_gbps=message.at.mem_gbps,
            tpi_scale=message.tpi_scale,
        )
    except RejectedError as error:
        wrong = Violations()
        for one in error.each():
            is_own = one.field in message.DESCRIPTOR.fields_by_name
            wrong.add(one.inside(field if is_own else f"{field}.at"))
        wrong.require_none()
        raise


def _pstates(values: Sequence[float], wrong: Violations) -> tuple[float, ...]:
    if len(values) > MOST_PSTATES:
        problem = f"must be at most {MOST_PSTATES}, got {len(values)}"
        wrong.add(RejectedError("pstates_ghz", problem))
        return ()
    return _distinct("pstates_ghz", values, require_positive, wrong)


def _distinct(
    field: str,
    values: Sequence[_Value],
    check: Callable[[str, _Value], None],
    wrong: Violations,
) -> tuple[_Value, ...]:
    for index, value in enumerate(values):
        wrong.check(check, f"{field}[{index}]", value)
    if len(set(values)) < len(values):
        wrong.add(RejectedError(field, "must not name one twice"))
    return tuple(values)
