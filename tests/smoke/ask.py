"""A history is asked without Java."""

import json
import subprocess
import sys

ask = [sys.executable, "-m", "waystation", "pipeline", "sql", "--json"]
question = "select product, count(*) as many from items group by all"
answer = [json.loads(line) for line in subprocess.check_output([*ask, question]).splitlines()]
assert {row["product"] for row in answer} == {"bullmq", "files", "routing"}, answer
