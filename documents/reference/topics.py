"""The topics, from their files and the stages that read them."""

from collections.abc import Iterator
from typing import Final

import yaml

from cli.stages import topics_in_use
from documents.reference.markdown import code, table
from shared.catalogue.topics import DAY_S, TopicSpec

_HEAD: Final = """# Topics

Each topic is declared once, in a file of `proto/topics`. This page follows from these files and
from the stages that read them. [Versions](../versions.md#stable) says which are stable. With
`COPLACE_NAMESPACE` all names have a prefix. Each topic has a queue of [dead
letters](../how-to/dead-letters.md), `dlq.` and its name. `coplace asyncapi` writes the same as an
AsyncAPI document with JSON Schemas.
"""


def page() -> str:
    """Return it in Markdown."""
    specs = topics_in_use().values()
    rows = (
        (f"[{code(each.name)}](#{each.name.replace('.', '')})", each.description) for each in specs
    )
    sections = [_HEAD, table(("topic", "what it holds"), rows)]
    return "\n".join([*sections, *map(_section, specs)])


def _section(spec: TopicSpec) -> str:
    rows = (
        (code(name.removeprefix("coplace.v1.")), code(key.text) or "none")
        for name, key in spec.messages.items()
    )
    messages = (
        table(("message", "key"), rows)
        if spec.messages
        else "It holds JSON, without a schema of ours.\n"
    )
    return "\n".join(
        (
            f"## {spec.name}\n",
            f"{spec.description}\n",
            table(("", ""), _facts(spec)),
            messages,
            _example(spec),
        )
    )


def _facts(spec: TopicSpec) -> Iterator[tuple[str, str]]:
    kept = "for ever" if spec.retention_s is None else f"{spec.retention_s / DAY_S:g} days"
    yield "Kafka partitions", str(spec.kafka_partitions)
    yield "kept", f"{kept}, then {spec.cleanup}" if spec.retention_s is not None else kept
    yield "written by", ", ".join(map(code, spec.producers))
    yield "read by", ", ".join(map(code, spec.consumers)) or "none"


def _example(spec: TopicSpec) -> str:
    return f"```yaml\n{yaml.safe_dump(dict(spec.example), sort_keys=False)}```\n"
