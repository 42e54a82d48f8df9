"""Pages that follow from declarations alone."""
