"""`coplace evaluate`: models compared with logs of jobs that ran."""
