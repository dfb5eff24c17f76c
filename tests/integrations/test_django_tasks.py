"""Django's tasks: the framework's calls as jobs, run by our worker in a real site."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.patience import LIMIT_S
from tests.support.processes import Process, running
from tests.support.project import ROOT

PAGE = (ROOT / "docs/how-to/run-djangos-tasks.md").read_text()
SETTINGS, TASKS, CALLS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
OWN = find_spec("django.tasks") is not None
"""Whether Django has the framework itself."""

MORE_TASKS = """
from django.db import transaction
from shop.models import Order


@task
def fail(times: int, context_of: str = "") -> str:
    raise LookupError(f"no such order\\nfor {context_of}")


@task(takes_context=True)
def second_time(context, word: str) -> str:
    if not context.task_result.errors:
        raise ValueError("not yet")
    return f"{word} {len(context.task_result.errors)}"


@task
def returns_a_set() -> set[int]:
    return {1}


@task
def write(name: str) -> int:
    return Order.objects.create(name=name).pk


@task(queue_name="mail")
async def awrite(name: str) -> int:
    return (await Order.objects.acreate(name=name)).pk


def no_task() -> None: ...
"""

MANAGE = """
import os
from django.core.management import execute_from_command_line

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
execute_from_command_line()
"""

MORE = """
SECRET_KEY = "x"
USE_TZ = True
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": "shop.db",
        "OPTIONS": {"timeout": 60},
    }
}
LOGGING = {
    "version": 1,
    "handlers": {"file": {"class": "logging.FileHandler", "filename": "signals.txt"}},
    "loggers": {
        name: {"handlers": ["file"], "level": "INFO"} for name in ("django.tasks", "django_tasks")
    },
}
TASKS["once"] = {**TASKS["default"], "QUEUES": ["once"], "OPTIONS": {"add": "at_once"}}
TASKS["boxed"] = {**TASKS["default"], "QUEUES": ["boxed"], "OPTIONS": {"add": "outbox"}}
"""

MODELS = """
from django.db import models


class Order(models.Model):
    name = models.CharField(max_length=20)
"""

START = """
import os, sys, time
os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
import django
django.setup()
from django.core.management import call_command
from django.db import transaction
from shop import tasks
from shop.models import Order
from waystation.integrations.django.framework import (
    TaskResultDoesNotExist, TaskResultStatus as Status, backends, task_enqueued
)
from waystation.sync import Queue
from django.conf import settings

call_command("migrate", run_syncdb=True, verbosity=0)

def ended(result):
    began = time.monotonic()
    while not result.is_finished:
        assert time.monotonic() - began < float(sys.argv[1]), result
        time.sleep(0.02)
        result.refresh()
    return result
"""

WITH_A_WORKER = """
result = ended(tasks.send.enqueue("ada"))
assert (result.status, result.return_value) == (Status.SUCCESSFUL, "sent to ada")
assert result.attempts >= 1 and result.worker_ids[0], result
assert result.enqueued_at <= result.started_at <= result.finished_at
assert tasks.send.get_result(result.id).finished_at == result.finished_at
assert (result.task.priority, result.task.queue_name) == (10, "mail")

assert ended(tasks.count.enqueue(word="four")).return_value[0] == 4
assert ended(tasks.second_time.enqueue("try")).return_value == "try 1"

result = ended(tasks.fail.enqueue(3, context_of="ada"))
assert result.status == Status.FAILED
assert [each.exception_class for each in result.errors] == [LookupError, LookupError]
assert "no such order\\nfor ada" in result.errors[0].traceback
try:
    result.return_value
except ValueError as error:
    assert "failed" in str(error)

result = ended(tasks.returns_a_set.enqueue())
assert (result.status, len(result.errors)) == (Status.FAILED, 1), result
assert result.errors[0].exception_class.__name__ == "InvalidResult"

keys = {ended(each).return_value for each in [
    tasks.write.enqueue("plain"), tasks.write.enqueue("again"), tasks.awrite.enqueue("async")
]}
assert keys == set(Order.objects.values_list("pk", flat=True)) and len(keys) == 3

with Queue("mail", settings.WAYSTATION_URL) as mail:
    for name in ("shop.tasks.no_task", "os.getcwd", "shop.gone.send"):
        job = mail.add(name, {"args": [], "kwargs": {}})
        try:
            job.wait(timeout=float(sys.argv[1]))
        except Exception as error:
            assert "task" in str(error), error
        else:
            raise AssertionError(name)
        job.refresh()
        assert job.attempts_made == 1
    # As Node would add it.
    job = mail.add("shop.tasks.send", {"args": ["node"]})
    assert job.wait(timeout=float(sys.argv[1])) == "sent to node"
"""

WITHOUT_A_WORKER = """
import asyncio
from datetime import timedelta
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

seen = []
task_enqueued.connect(lambda task_result, **_: seen.append(task_result.id), weak=False)
mail = Queue("mail", settings.WAYSTATION_URL)
with transaction.atomic():
    result = tasks.send.enqueue("ada")
    assert (mail.count(), result.enqueued_at, seen) == (0, None, [])
    try:
        tasks.send.get_result(result.id)
    except TaskResultDoesNotExist:
        pass
    else:
        raise AssertionError
assert mail.count() == 1 and seen == [result.id] and result.enqueued_at is not None
result.refresh()
assert (result.status, result.attempts, result.errors) == (Status.READY, 0, [])
try:
    with transaction.atomic():
        tasks.send.enqueue("nobody")
        tasks.send.using(backend="boxed", queue_name="boxed").enqueue("nobody")
        late = tasks.send.using(backend="once", queue_name="once").enqueue("ada")
        raise LookupError
except LookupError:
    pass
assert mail.count() == 1
assert tasks.send.using(backend="once", queue_name="once").get_result(late.id).backend == "once"

boxed = tasks.send.using(backend="boxed", queue_name="boxed")
with transaction.atomic():
    Order.objects.create(name="one")
    result = boxed.enqueue("ada")
assert seen[-1] == result.id
call_command("waystation_outbox", once=True)
result.refresh()
assert (result.status, result.backend, result.args) == (Status.READY, "boxed", ["ada"])
assert Queue("boxed", settings.WAYSTATION_URL).count() == 1

first = tasks.send.using(priority=100).enqueue("first")
last = tasks.send.using(priority=-100).enqueue("last")
assert [mail.get_job(each.id).priority for each in (first, last)] == [1, 201]
tomorrow = timezone.now() + timedelta(days=1)
later = tasks.count.using(run_after=tomorrow).enqueue("x")
assert mail.get_jobs("delayed") == []
job = Queue("default", settings.WAYSTATION_URL).get_job(later.id)
assert timedelta(hours=23) < job.delay <= timedelta(days=1)
assert tasks.count.get_result(later.id).task.run_after == tomorrow

async def without_waiting():
    result = await tasks.send.aenqueue("async")
    return await tasks.send.aget_result(result.id)

assert asyncio.run(without_waiting()).status == Status.READY
for options, word in [
    ({"atempts": 3}, "got atempts"),
    ({"attempts": 0}, "attempts must be"),
    ({"add": "sometimes"}, "at_once"),
]:
    try:
        type(backends["default"])("x", {"OPTIONS": options})
    except ImproperlyConfigured as error:
        assert word in str(error), error
    else:
        raise AssertionError(options)
try:
    tasks.send.enqueue(object())
except TypeError:
    pass
else:
    raise AssertionError
try:
    tasks.count.get_result(first.id)
except Exception as error:
    assert type(error).__name__ == "TaskResultMismatch"
for gone in ("1", "nothing.mail", "nothing.mail.more", ""):
    try:
        tasks.send.get_result(gone)
    except TaskResultDoesNotExist:
        pass
    else:
        raise AssertionError(gone)
"""


ENCRYPTED = """
import base64
from waystation.bullmq import PayloadOptions

WAYSTATION_PAYLOADS = PayloadOptions(keys="k1=" + base64.b64encode(b"1" * 32).decode())
"""

WITH_KEYS = """
boxed = tasks.send.using(backend="boxed", queue_name="boxed").enqueue("ada")
call_command("waystation_outbox", once=True)
boxed.refresh()
for result in (tasks.send.enqueue("ada"), boxed):
    result = ended(result)
    assert (result.args, result.return_value) == (["ada"], "sent to ada"), result
    with Queue(result.task.queue_name, settings.WAYSTATION_URL) as queue:
        job = queue.get_job(result.id)
        assert job.data.keys() == job.result.keys() == {"$payload"}, (job.data, job.result)
"""


def for_this_django(text: str) -> str:
    return text if OWN else text.replace("from django.tasks", "from django_tasks")


@pytest.fixture
def site(tmp_path: Path, redis_url: str) -> Path:
    """A small site with the settings and the tasks of the page."""
    settings = SETTINGS.replace("redis://localhost:6379", redis_url)
    apps = '["shop"]' if OWN else '["shop", "django_tasks"]'
    (tmp_path / "manage.py").write_text(MANAGE)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/__init__.py").touch()
    (tmp_path / "shop/settings.py").write_text(f"INSTALLED_APPS = {apps}\n{settings}{MORE}")
    (tmp_path / "shop/tasks.py").write_text(for_this_django(TASKS + MORE_TASKS))
    (tmp_path / "shop/models.py").write_text(MODELS)
    return tmp_path


def run(directory: Path, *args: str) -> str:
    clean = {name: value for name, value in os.environ.items() if "WAYSTATION" not in name}
    ran = subprocess.run(
        [sys.executable, *args],
        cwd=directory,
        env=clean,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * LIMIT_S,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.slow
async def test_a_worker_runs_the_tasks_of_a_site(site: Path) -> None:
    with running(site, "manage.py", "waystation_worker", "--concurrency", "4") as worker:
        await worker.until(started)
        run(site, "-c", START + WITH_A_WORKER + CALLS + "ended(result)", str(LIMIT_S))
        assert await worker.stop() == 0
    signals = (site / "signals.txt").read_text()
    # One line for each task that has ended, whatever its attempts.
    assert len(re.findall(r"path=shop\.tasks\.fail state=FAILED", signals)) == 1
    assert len(re.findall(r"path=shop\.tasks\.second_time state=SUCCESSFUL", signals)) == 1


@pytest.mark.slow
async def test_a_worker_of_one_queue_in_processes_is_started_the_same_way(site: Path) -> None:
    options = ("--processes", "2", "-o", "concurrency=2")
    with running(site, "manage.py", "waystation_worker", "mail", *options) as worker:
        await worker.until(started)
        program = "assert ended(tasks.send.enqueue('ada')).return_value == 'sent to ada'"
        run(site, "-c", START + program, str(LIMIT_S))
        assert await worker.stop() == 0


@pytest.mark.slow
async def test_the_payloads_of_a_site_are_encrypted(site: Path) -> None:
    with (site / "shop/settings.py").open("a") as settings:
        settings.write(ENCRYPTED)
    with running(site, "manage.py", "waystation_worker", "mail", "boxed") as worker:
        await worker.until(started)
        run(site, "-c", START + WITH_KEYS, str(LIMIT_S))
        assert await worker.stop() == 0


def test_calls_become_jobs_with_their_transaction(site: Path) -> None:
    run(site, "-c", START + WITHOUT_A_WORKER)


def started(worker: Process) -> bool:
    return "worker_started" in worker.text
