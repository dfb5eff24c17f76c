"""Huge trees of files, listed by Spark and put in line."""
