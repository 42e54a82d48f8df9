"""The containers of the compose files, for real: encrypted, with passwords and access lists."""

import subprocess
import sys

import pytest


# A machine that has none of the images yet builds them all first.
@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_secure_demo_through_the_containers_decides_what_the_embedded_one_does() -> None:
    check = [sys.executable, "-m", "deploy.compose.check", "--secure"]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
