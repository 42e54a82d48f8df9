"""`coplace profile`: a measuring campaign of programs alone and beside each other."""
