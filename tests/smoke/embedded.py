"""README's first program prints what README says; the package carries both."""

import re
import subprocess
import sys
from importlib.metadata import metadata

blocks = re.findall(r"```(?:python)?\n(.*?)```", metadata("waystation")["Description"], re.DOTALL)
program, printed = blocks[:2]
done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
assert done.stdout == printed, done.stdout + done.stderr
