"""`waystation files`: a directory turned into work."""
