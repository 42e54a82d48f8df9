"""Arrays of tasks, as those keep them who follow jobs and decide nothing."""
