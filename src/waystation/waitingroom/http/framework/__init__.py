"""How requests are read, found their endpoint, and answered."""
