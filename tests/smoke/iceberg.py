"""The tables of a history are read as Iceberg, by name."""

import subprocess
import sys
from pathlib import Path

from pyiceberg.catalog import load_catalog

subprocess.check_call([sys.executable, "-m", "waystation", "pipeline", "iceberg"])
[database] = Path(".waystation/history").rglob("*.db")
catalog = load_catalog("history", type="sql", uri=f"sqlite:///{database.resolve()}")
tables = [each for space in catalog.list_namespaces() for each in catalog.list_tables(space)]
[items] = [each for each in tables if each[-1] == "items"]
assert catalog.load_table(items).scan().to_arrow().num_rows
