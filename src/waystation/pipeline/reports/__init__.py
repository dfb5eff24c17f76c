"""Reports: figures from the gold tables, as an HTML page or on the console."""
