"""The images of the compose file: ours, and those that come from a registry or are replaced by
local ones."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from deploy.compose.package_access import build_secrets
from deploy.compose.podman import Podman, require_success
from deploy.local.kafka.artifacts import kafka_jars, kafka_version


def image_of(extra: str) -> str:
    """Return the name of our image with an extra."""
    return f"localhost/coplace-{extra}:latest"


DEBIAN = "docker.io/library/debian:bookworm-slim"
KAFKA = f"docker.io/apache/kafka:{kafka_version()}"
REDIS = "docker.io/library/redis:7"
# One for each extra of pyproject.toml that a service of the compose file needs.
EXTRAS = (
    *("server", "placement", "planner", "prediction", "rest", "archive", "history"),
    *("webhooks", "lab", "slurm"),
)
# Beside them where the chart runs a resource manager.
OF_THE_CHART = (*EXTRAS, "kubernetes")
# Debian's packages that an image has beside: Slurm's commands, and what they show who they are by.
DEBIAN_PACKAGES = {"slurm": "slurm-client munge"}
COPLACE = {extra: image_of(extra) for extra in EXTRAS}
STAND_IN_LABEL = "coplace.stand-in"

_ROOT = Path(__file__).parents[2]
_STAND_INS = Path(__file__).with_name("stand_ins")
# What the slim variant of Debian's image leaves out.
_NOT_SLIM = (
    "usr/share/doc",
    "usr/share/locale",
    "usr/share/man",
    "var/cache/apt",
    "var/lib/apt/lists",
)


def provide_images(
    podman: Podman, tell: Callable[[str], None], extras: Sequence[str] = EXTRAS
) -> None:
    """Provide every image that the demo needs, built anew where its source changed; ours are those
    of these extras.

    Raises PodmanError if one can neither be pulled nor built.
    """
    podman.remove_leftovers()
    provide(podman, tell, DEBIAN, lambda: _import_debian(podman))
    podman.make_usable(DEBIAN)
    provide(podman, tell, KAFKA, lambda: _build_stand_in(podman, KAFKA, "kafka", kafka_jars()))
    provide(podman, tell, REDIS, lambda: _build_stand_in(podman, REDIS, "redis"))
    _build_coplace(podman, tell, extras)
    podman.call("image", "prune", "--force")


def provide(
    podman: Podman, tell: Callable[[str], None], image: str, stand_in: Callable[[], None]
) -> None:
    """Pull an image once; where that is impossible, keep its substitute up to date."""
    present = podman.succeeds("image", "exists", image)
    if present and not _is_stand_in(podman, image):
        return
    if not present:
        tell(f"pulling {image}")
        if podman.succeeds("pull", "--quiet", image):
            return
    tell(f"building a substitute for {image}")
    stand_in()


def _is_stand_in(podman: Podman, image: str) -> bool:
    labels = podman.call("image", "inspect", "--format", "{{.Labels}}", image)
    return f"{STAND_IN_LABEL}:{image}" in labels


def _build(podman: Podman, image: str, *arguments: str) -> None:
    # The host's network, since a builder may reach its package index in no other way.
    podman.call("build", "--format=docker", "--network=host", f"--tag={image}", *arguments)


def _build_coplace(podman: Podman, tell: Callable[[str], None], extras: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        context = Path(scratch) / "context"
        _copy_source(context)
        source = (*build_secrets(Path(scratch)), str(context))
        # The stage has a name so that it stays, as the cache of later builds, when the rest goes.
        _build(podman, "localhost/coplace-code:latest", "--target=code", *source)
        for extra in extras:
            tell(f"building {image_of(extra)}")
            packages = f"--build-arg=PACKAGES={DEBIAN_PACKAGES.get(extra, '')}"
            _build(podman, image_of(extra), f"--build-arg=EXTRA={extra}", packages, *source)


def _copy_source(context: Path) -> None:
    """Copy what the image is made of, all of one time: podman takes a file whose time is another,
    as in a new clone, for a changed one."""
    ignored = (_ROOT / ".dockerignore").read_text().splitlines()
    names = [line.removeprefix("!") for line in ignored if line.startswith("!")]
    for name in (*names, ".dockerignore", "Dockerfile"):
        _copy(_ROOT / name, context / name)
    for path in (context, *context.rglob("*")):
        os.utime(path, (0, 0))


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(
            source, target, ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
        )
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def _build_stand_in(podman: Podman, image: str, name: str, jars: Path | None = None) -> None:
    contexts = [f"--build-context=jars={jars}"] if jars else []
    label = f"--label={STAND_IN_LABEL}={image}"
    _build(podman, image, "--pull=never", label, *contexts, str(_STAND_INS / name))


def _import_debian(podman: Podman) -> None:
    """A base image out of Debian's packages; nothing to do when it was made before."""
    if podman.succeeds("image", "exists", DEBIAN):
        return
    with tempfile.TemporaryDirectory() as scratch:
        root, archive = Path(scratch) / "root", Path(scratch) / "root.tar"
        # Its mounts go away with its namespace, even when it is killed.
        _must("unshare", "--mount", "debootstrap", "--variant=minbase", "bookworm", str(root))
        left_out = [f"--exclude=./{path}/*" for path in _NOT_SLIM]
        _must("tar", "--directory", str(root), "--create", f"--file={archive}", *left_out, ".")
        podman.call("import", f"--change=LABEL {STAND_IN_LABEL}={DEBIAN}", str(archive), DEBIAN)


def _must(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    require_success(done)
