"""The metrics, from the calls that create their instruments."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from documents.pages import ROOT
from documents.reference.markdown import code, table

_HEAD: Final = """# Metrics

Each process shows its metrics at `/metrics`, as Prometheus reads them. `coplace status` names the
ports. This page follows from the code that creates them. Process metrics (`process_*`) are there
too. [Alerts](../how-to/alerts.md) says which to watch.
"""
_COLUMNS: Final = ("metric", "type", "what it is")
_TYPES: Final = {
    "create_counter": "counter",
    "create_gauge": "gauge",
    "create_histogram": "histogram",
    "create_observable_counter": "counter",
    "create_observable_gauge": "gauge",
}
# As the exporter to Prometheus writes units.
_UNITS: Final = {"s": "_seconds", "W": "_watts", "J": "_joules"}
_NAME: Final = re.compile(r"[a-z][a-z0-9_]+")
_FOLDERS: Final = ("shared", "services")
_AGENT: Final = "agent/coplace_agent/meter.py"
# In the agent, which has a library of its own for them.
_PROMETHEUS: Final = {
    "Counter": "counter",
    "_counter": "counter",
    "CounterMetricFamily": "counter",
    "Gauge": "gauge",
    "_gauge": "gauge",
}


class DocumentedMetric(NamedTuple):
    """As Prometheus has it."""

    name: str
    type: str
    about: str


def page() -> str:
    """Return it in Markdown."""
    sections = [_HEAD]
    for title, found in by_process().items():
        rows = ((code(each.name), each.type, each.about) for each in found)
        sections.append(f"## {title}\n\n{table(_COLUMNS, rows)}")
    return "\n".join(sections)


def by_process() -> dict[str, list[DocumentedMetric]]:
    """Return the metrics of each process; those of several under "every process"."""
    found: dict[str, list[DocumentedMetric]] = {}
    for folder in _FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if metrics := sorted({*_created(path)}):
                found.setdefault(_titled(path), []).extend(metrics)
    found["node agent"] = sorted(_of_agent())
    return found


def _titled(path: Path) -> str:
    kind, name, *_ = path.relative_to(ROOT).parts
    return "every process" if kind == "shared" else name


def _calls(path: Path, names: dict[str, str]) -> Iterator[tuple[str, ast.Call]]:
    source = path.read_text(encoding="utf-8")
    # Few files have one, and to parse all takes seconds.
    if not any(name in source for name in names):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = (
                node.func.attr
                if isinstance(node.func, ast.Attribute)
                else getattr(node.func, "id", "")
            )
            if called in names:
                yield names[called], node


def _created(path: Path) -> Iterator[DocumentedMetric]:
    calls = [*_calls(path, _TYPES)]
    for kind, call in calls:
        given = {word.arg: _text(word.value) for word in call.keywords}
        texts = [_text(each) for each in call.args]
        if texts and texts[0]:
            unit = given.get("unit") or (texts[2] if len(texts) > 2 else "")
            yield _metric(kind, texts[0], unit, given.get("description") or texts[-1])
        else:
            yield from (_metric(kind, *each) for each in _listed(path))


def _listed(path: Path) -> Iterator[tuple[str, str, str]]:
    """Return what a table of a module names: its name, unit and description."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Tuple):
            texts = [_text(each) for each in node.elts]
            if len(texts) > 2 and _NAME.fullmatch(texts[0]) and " " in "".join(texts[1:]):
                [about, *_] = [text for text in texts[1:] if " " in text]
                yield texts[0], next((text for text in texts[1:] if text in _UNITS), ""), about
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if key and " " in _text(value) and _NAME.fullmatch(_text(key)):
                    yield _text(key), "", _text(value)


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _metric(kind: str, name: str, unit: str, about: str) -> DocumentedMetric:
    suffix = _UNITS.get(unit, "")
    whole = f"coplace_{name}" if name.endswith(suffix) and suffix else f"coplace_{name}{suffix}"
    return DocumentedMetric(f"{whole}_total" if kind == "counter" else whole, kind, about)


def _of_agent() -> Iterator[DocumentedMetric]:
    for kind, call in _calls(ROOT / _AGENT, _PROMETHEUS):
        name, about = (_text(each) for each in call.args[:2])
        if name:
            whole = name if name.startswith("coplace_") else f"coplace_agent_{name}"
            yield DocumentedMetric(f"{whole}_total" if kind == "counter" else whole, kind, about)
