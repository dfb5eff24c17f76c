"""The Redis side of the files queue: keys, scripts, and the records that scripts take."""
