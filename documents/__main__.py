"""`python -m documents`: builds the site of the documents."""

import argparse
import sys
import tempfile
from pathlib import Path

from documents.site import BrokenSiteError, build


def main() -> None:
    """Build it; what is wrong ends it with one line each, and exit status 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/site"), help="folder of the site")
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as scratch:
        try:
            build(out, Path(scratch))
        except BrokenSiteError as error:
            sys.exit(str(error))
    sys.stdout.write(f"{out / 'index.html'}\n")


if __name__ == "__main__":
    main()
