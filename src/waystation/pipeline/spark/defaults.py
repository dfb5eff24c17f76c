"""What the machine's own `spark-defaults.conf` says."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import pyspark

FILE = "spark-defaults.conf"
_SETTING = re.compile(r"^\s*(spark\.[^\s=:]+)\s*[\s=:]\s*(.*?)\s*$")


def machine_defaults(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The settings that Spark would read by itself; none when there is no such file."""
    home = environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    file = Path(environ.get("SPARK_CONF_DIR") or Path(home) / "conf") / FILE
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    found = (_SETTING.match(line) for line in lines)
    return {match[1]: match[2] for match in found if match}
