"""What a call asks for: messages to domain types, each refusal naming its field."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from coplace.v1.energy_service_pb2 import GivenSignature, ProjectionSubject, ProjectRequest
from google.protobuf.message import DecodeError

from coplace_client.checks import require_positive, require_text
from coplace_client.errors import RejectedError
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
    """Parse the request in a message. Raises RejectedError."""
    try:
        message = ProjectRequest.FromString(data)
    except DecodeError:
        raise RejectedError("request", "must be a ProjectRequest with UTF-8 strings") from None
    return Asked(
        subjects=_subjects(message.subjects),
        node_models=_distinct("node_models", message.node_models, require_text),
        pstates_ghz=_pstates(message.pstates_ghz),
        via_intermediate=message.via_intermediate,
    )


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


def _subjects(messages: Sequence[ProjectionSubject]) -> tuple[AppOrSignature, ...]:
    if not messages:
        raise RejectedError("subjects", "must hold at least one")
    return tuple(_subject(f"subjects[{i}]", message) for i, message in enumerate(messages))


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
        inside = "" if error.field in message.DESCRIPTOR.fields_by_name else "at."
        raise RejectedError(f"{field}.{inside}{error.field}", error.problem) from None


def _pstates(values: Sequence[float]) -> tuple[float, ...]:
    if len(values) > MOST_PSTATES:
        raise RejectedError("pstates_ghz", f"must be at most {MOST_PSTATES}, got {len(values)}")
    return _distinct("pstates_ghz", values, require_positive)


def _distinct(
    field: str, values: Sequence[_Value], check: Callable[[str, _Value], None]
) -> tuple[_Value, ...]:
    for index, value in enumerate(values):
        check(f"{field}[{index}]", value)
    if len(set(values)) < len(values):
        raise RejectedError(field, "must not name one twice")
    return tuple(values)
