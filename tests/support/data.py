"""Tests that need the published data."""

import pytest

# The fixture skips a test where the data is not there.
needs_data = pytest.mark.usefixtures("data_dir")
