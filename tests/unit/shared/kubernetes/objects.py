"""Nodes as these tests want them."""

from typing import Any

from shared.kubernetes.nodes import NodeTraits
from tests.support.kubernetes_api import EPOCH, Object, merged

NOW_US = 1_767_300_000_000_000
TRAITS = NodeTraits("alpha", "north", "gold-6254", (1.2, 3.1), 110, 140, "north/kubernetes")


def node(name: str, cpu: str = "36", **more: Any) -> Object:
    """A node that is ready."""
    fields = {
        "metadata": {"name": name, "creationTimestamp": EPOCH},
        "spec": {},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "192Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    found: Object = merged(fields, more)
    return found
