"""The documents as a site: their pages from the repository, the reference from declarations."""
