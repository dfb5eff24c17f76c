"""The systems to be measured against, each a program that prints one line of JSON."""
