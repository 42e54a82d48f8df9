"""The compose file's services, and the check that plays a demo through their containers."""
