"""The directory side of the files queue: scanning, watching, patterns, and adding what is found."""
