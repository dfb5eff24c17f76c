"""A job is a row of Django's transaction, then a job of its queue."""

# Django has no types.
# pyright: basic, reportGeneralTypeIssues=false

import os

import django
from django.conf import settings
from django.core.management import call_command
from django.db import transaction

settings.configure(
    INSTALLED_APPS=["waystation.integrations.django"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "site.db"}},
    WAYSTATION_URL=os.environ["WAYSTATION_STORE__URL"],
)
django.setup()
from waystation.integrations.django.jobs import to_outbox  # noqa: E402
from waystation.sync import Queue  # noqa: E402

call_command("migrate", verbosity=0)
with transaction.atomic():
    to_outbox("of-the-site", "send", {"to": "ada"})
call_command("waystation_outbox", "--once")
with Queue("of-the-site") as queue:
    assert queue.count() == 1
