"""A region's own record, `placement.inputs`: replayed as it was, and under other rules."""
