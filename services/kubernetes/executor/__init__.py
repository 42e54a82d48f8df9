"""The process that runs copies of Jobs in a cluster which the home cluster has no way into."""
