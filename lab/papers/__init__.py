"""What was published, beside what comes out here. Runs from a checkout."""
