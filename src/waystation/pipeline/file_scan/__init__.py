"""File scan: huge directory trees listed by Spark and added to the files queue."""
