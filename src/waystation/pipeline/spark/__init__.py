"""Spark itself: Java, the session, its Python workers, its errors."""
