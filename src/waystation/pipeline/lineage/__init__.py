"""Lineage: OpenLineage events that say which streams a round has read and which tables it wrote."""
