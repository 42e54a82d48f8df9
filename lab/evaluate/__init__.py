"""`coplace evaluate`: models held to logs of jobs that ran."""
