"""The way in: validates what resource managers, operators and agents send, and publishes it."""
