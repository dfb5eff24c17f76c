"""Every module can be imported, and the doctor has no complaint."""

import subprocess
import sys
from importlib import import_module
from pkgutil import walk_packages

import waystation

NOT_OURS_TO_IMPORT = (
    "waystation.__main__",
    "waystation.integrations.django",
    "waystation.integrations.fastapi",
    "waystation.integrations.sqlalchemy",
    "waystation.testing.plugin",
)
for module in walk_packages(waystation.__path__, "waystation."):
    if not module.name.startswith(NOT_OURS_TO_IMPORT):
        import_module(module.name)
subprocess.check_call([sys.executable, "-m", "waystation", "doctor"])
