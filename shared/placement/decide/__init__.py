"""Which jobs wait for what, and which of them start: outcomes without words."""
