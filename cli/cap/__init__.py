"""`coplace cap`: what clusters, sites and the region may draw."""
