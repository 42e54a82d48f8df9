"""Plans of what waits: look-ahead beside placement, which follows them while they hold."""
