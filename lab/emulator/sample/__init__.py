"""A sample of jobs for an installation to look at: emulated clusters in real time."""
