"""Other libraries: databases, web frameworks, and the queues that people come from."""
