"""`manage.py waystation_outbox`: move the jobs of the outbox to their queues."""

# Django has no types.
# pyright: basic, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# pyright: reportAssignmentType=false, reportMissingImports=false

import signal
import threading
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.db import DEFAULT_DB_ALIAS, close_old_connections
from django.db.utils import InterfaceError, OperationalError

from waystation.core.errors import StoreError
from waystation.integrations.django.jobs import move_outbox


class Command(BaseCommand):
    """Moves what was committed, until asked to stop."""

    help = "Move the jobs of the outbox to their queues."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--once", action="store_true", help="Move what is there, and end.")
        parser.add_argument("--every", type=float, default=1.0, help="Seconds between two looks.")
        parser.add_argument(
            "--database",
            action="append",
            metavar="ALIAS",
            help="A database with an outbox; else the default one and those that TASKS names.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Move rows."""
        stop = threading.Event()
        if not options["once"]:
            for each in (signal.SIGINT, signal.SIGTERM):
                signal.signal(each, lambda *_: stop.set())
        databases = options["database"] or _databases()
        while not stop.is_set():
            moved = sum([self._moved(each, once=options["once"]) for each in databases])
            if not moved:
                if options["once"]:
                    return
                stop.wait(options["every"])

    def _moved(self, database: str, *, once: bool) -> int:
        # A connection that is too old or broken is not used again.
        close_old_connections()
        try:
            return move_outbox(using=database)
        except (StoreError, OperationalError, InterfaceError) as error:
            if once:
                raise
            # The rows stay; they are moved when the store, or the database, is back.
            self.stderr.write(f"the outbox in {database} cannot be moved now: {error}")
            return 0


def _databases() -> list[str]:
    """Where the backends in TASKS write rows, and where `to_outbox` does by itself."""
    try:
        from waystation.integrations.django.backend import WaystationBackend
        from waystation.integrations.django.framework import backends
    except ImportError:  # before Django 6, without django-tasks: TASKS has no backends
        return [DEFAULT_DB_ALIAS]
    ours = [each for each in backends.all() if isinstance(each, WaystationBackend)]
    named = [each.using or DEFAULT_DB_ALIAS for each in ours]
    return list(dict.fromkeys([DEFAULT_DB_ALIAS, *named]))
