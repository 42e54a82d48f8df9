"""`python -m deploy.release`: builds the distributions, or the archive for an isolated site."""

import argparse
import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path

from deploy.release.bundle import build_and_save_images, build_bundle
from deploy.release.dist import build_dist


def main() -> None:
    """Build what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("dist"), help="folder of the wheels")
    parser.add_argument(
        "--bundle", type=Path, help="folder of the archive, which has wheels that are there"
    )
    parser.add_argument("--no-images", action="store_true", help="an archive without our images")
    asked = parser.parse_args()
    if asked.bundle is None:
        build_dist(asked.out)
    else:
        archive = asked.bundle / f"coplace-{version('coplace')}-bundle.tar.gz"
        save_images = None if asked.no_images else partial(build_and_save_images, tell=_tell)
        build_bundle(asked.out, archive, _tell, save_images)


def _tell(what: str) -> None:
    sys.stdout.write(f"{what}\n")


if __name__ == "__main__":
    main()
