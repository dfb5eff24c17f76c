"""`waystation pipeline`: everything that happened, kept and asked."""
