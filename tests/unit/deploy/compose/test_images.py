"""Which images are pulled, which are replaced, and when."""

from dataclasses import dataclass, field

import pytest

from deploy.compose.images import REDIS, STAND_IN_LABEL, provide
from deploy.compose.podman import Podman


@dataclass
class Registry(Podman):
    """Podman with one image at most, and a registry that has it or not."""

    pullable: bool = False
    labels: str | None = None
    pulled: list[str] = field(default_factory=list)

    def call(self, *arguments: str) -> str:
        """`podman image inspect --format '{{.Labels}}'`."""
        assert self.labels is not None
        return self.labels

    def succeeds(self, *arguments: str) -> bool:
        """`podman image exists` or `podman pull`."""
        if arguments[0] == "image":
            return self.labels is not None
        self.pulled.append(arguments[-1])
        return self.pullable


@pytest.mark.parametrize(
    ("labels", "pullable", "pulls", "is_stood_in"),
    [
        pytest.param(None, True, True, False, id="a real image is pulled"),
        pytest.param(None, False, True, True, id="what cannot be pulled is replaced"),
        pytest.param("map[]", False, False, False, id="a real image is kept"),
        pytest.param(
            f"map[{STAND_IN_LABEL}:{REDIS}]",
            True,
            False,
            True,
            id="a copy follows its source",
        ),
        pytest.param(
            f"map[{STAND_IN_LABEL}:debian]", True, False, False, id="a base may be a replacement"
        ),
    ],
)
def test_an_image_is_provided(
    labels: str | None, pullable: bool, pulls: bool, is_stood_in: bool
) -> None:
    podman = Registry(pullable=pullable, labels=labels)
    built: list[str] = []
    provide(podman, lambda _: None, REDIS, lambda: built.append(REDIS))
    assert bool(podman.pulled) is pulls
    assert bool(built) is is_stood_in
