"""Other servers, and other arrangements of them, than the one that most tests use."""
