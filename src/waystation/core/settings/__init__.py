"""Settings as they are written: one reader for the commands and the library."""
