"""`waystation pipeline`: the history on Spark."""
