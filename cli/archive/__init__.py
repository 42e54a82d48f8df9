"""The archive of topics: listed, verified, built anew."""
