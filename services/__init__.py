"""The services, each a package that imports none of the others."""
