"""Dispatchers under a power cap on published instances, beside what their authors got."""
