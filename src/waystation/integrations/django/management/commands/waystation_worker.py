"""`manage.py waystation_worker`: run the tasks of the site."""

# Django has no types.
# pyright: basic, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# pyright: reportAssignmentType=false, reportMissingImports=false

import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from waystation.bullmq.redis.keys import PREFIX
from waystation.integrations.django import site
from waystation.integrations.django.backend import WaystationBackend
from waystation.integrations.django.framework import backends

HANDLER = "waystation.integrations.django.worker:handler"


class Command(BaseCommand):
    """Becomes a worker: the same process goes on as `waystation bullmq work`."""

    help = "Run the tasks of the site, until asked to stop."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options, which are those of `waystation bullmq work`."""
        parser.add_argument("queues", nargs="*", metavar="QUEUE", help="Queues; else all of TASKS.")
        parser.add_argument("--concurrency", type=int, help="Tasks at once.")
        parser.add_argument("--processes", type=int, help="Processes that do the same work.")
        parser.add_argument("--reload", action="store_true", help="Start again at every change.")
        parser.add_argument(
            "-o",
            "--option",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="Any option of the worker, such as timeout=30s.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Go on as a worker."""
        queues = options["queues"] or _queues()
        if not queues:
            raise CommandError("name the queues: no backend in TASKS that is ours has QUEUES")
        command = [sys.executable, "-m", "waystation", "bullmq", "--prefix", PREFIX]
        command += ["work", HANDLER, *queues]
        for name in ("concurrency", "processes"):
            if options[name] is not None:
                command += [f"--{name}", str(options[name])]
        command += ["--reload"] * options["reload"]
        command += [f"--option={each}" for each in options["option"]]
        os.execve(sys.executable, command, _environ())  # noqa: S606 - our own interpreter


def _queues() -> list[str]:
    ours = [each for each in backends.all() if isinstance(each, WaystationBackend)]
    return sorted({queue for each in ours for queue in each.queues})


def _environ() -> dict[str, str]:
    """The environment in which another program finds the site and its store."""
    if not os.environ.get("DJANGO_SETTINGS_MODULE"):
        raise CommandError("the worker finds the settings by DJANGO_SETTINGS_MODULE: set it")
    # `manage.py` may lie in another directory than the one it is called from.
    paths = [str(Path(sys.argv[0]).resolve().parent), os.environ.get("PYTHONPATH", "")]
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    if url := site.url():
        found["WAYSTATION_STORE__URL"] = url
    return found
