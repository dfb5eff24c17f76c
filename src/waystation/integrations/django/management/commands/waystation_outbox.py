"""`manage.py waystation_outbox`: move the jobs of the outbox to their queues."""

# Django has no types.
# pyright: basic, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# pyright: reportAssignmentType=false, reportMissingImports=false

import signal
import threading
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from waystation.core.errors import StoreError
from waystation.integrations.django.jobs import move_outbox


class Command(BaseCommand):
    """Moves what was committed, until asked to stop."""

    help = "Move the jobs of the outbox to their queues."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--once", action="store_true", help="Move what is there, and end.")
        parser.add_argument("--every", type=float, default=1.0, help="Seconds between two looks.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Move rows."""
        stop = threading.Event()
        if not options["once"]:
            for each in (signal.SIGINT, signal.SIGTERM):
                signal.signal(each, lambda *_: stop.set())
        while not stop.is_set():
            try:
                moved = move_outbox()
            except StoreError as error:
                if options["once"]:
                    raise
                self.stderr.write(f"the outbox cannot be moved now: {error}")
                moved = 0
            if not moved:
                if options["once"]:
                    return
                stop.wait(options["every"])
