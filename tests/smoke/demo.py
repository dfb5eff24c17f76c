"""README's first command plays to its end, and everything is accounted for."""

import subprocess
import sys

subprocess.check_call([sys.executable, "-m", "waystation", "demo"])
