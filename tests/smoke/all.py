"""Every module can be imported but those of frameworks, and the doctor has no complaint."""

import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pkgutil import walk_packages

import waystation

FRAMEWORKS = {"asgiref", "django", "django_tasks", "fastapi", "flask", "pytest", "sqlalchemy"}
"""Packages that nobody gets by an extra: those who use our part for one have it."""

if find_spec("django"):
    # Django imports models in a project alone.
    settings = import_module("django.conf").settings
    settings.configure(INSTALLED_APPS=["waystation.integrations.django"])
    import_module("django").setup()

for module in walk_packages(waystation.__path__, "waystation."):
    try:
        if module.name != "waystation.__main__":
            import_module(module.name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in FRAMEWORKS:
            raise
subprocess.check_call([sys.executable, "-m", "waystation", "doctor"])
