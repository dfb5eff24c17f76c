"""Asking why: finds what a name stands for, in any product, and explains it."""

import difflib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial

from waystation.bullmq.redis.keys import QueueKeys
from waystation.console.names import Places, QueueName, find_queues, has_files, job_types
from waystation.console.past.history import History
from waystation.console.why import of_bullmq, of_files, of_history, of_rooms, of_routing
from waystation.console.why.answer import Answer, Cause
from waystation.core.errors import InvalidOption, StoreBusy, StoreError, StoreUnreachable
from waystation.core.events import Product
from waystation.core.store.commands import MOST_EVENTS, newest_first
from waystation.core.store.connection import Store

_NEAREST = 3
_IDS_OF_A_QUEUE = 200
"""Newest events of a queue whose ids may be meant by one that is not known."""


async def why(
    store: Store,
    subject: str,
    *,
    queue: str | None = None,
    product: str | None = None,
    places: Places | None = None,
    history: History | None = None,
) -> list[Answer]:
    """Why a job, a file, a visitor or a queue is where it is.

    `subject` is an id, a path, or the name of a queue, a type, a priority or a room; `queue/id`
    means the job in that queue. Without `queue` all queues are looked into, so several answers are
    possible; there is always one at least, of the cause `unknown` when nothing was found. What
    is no longer in the store is looked for in `history`.
    """
    if product is not None and product not in set(Product):
        raise InvalidOption(f"product must be one of {', '.join(Product)}, got {product!r}")
    if not subject.strip("/ "):
        raise InvalidOption("what is asked about must be an id, a path or a name, got nothing")
    places = places or Places()
    known = await find_queues(store, places)
    wanted = [each for each in known.queues if product in (None, each.product)]
    products = {each for each in Product if product in (None, each)} - {
        each for each, _ in known.forbidden
    }
    if queue is None:
        queue, subject = _split(subject, {each.name for each in wanted})
    answers: list[Answer] = []
    if queue is None:
        for each in wanted:
            if each.name == subject and (answer := await _explain_queue(store, each, places)):
                answers.append(answer)
        answers += await _explain_namespace(store, subject, products, places)
        if answers:
            return answers
    unread: list[StoreError] = []
    answers = await _explain_subject(store, subject, queue, products, wanted, places, unread)
    if not answers and history is not None:
        past = await of_history.job(history, subject, product=product or "", queue=queue or "")
        answers = [past] if past else []
    if unread and not answers:
        raise unread[0]
    forbidden = [keys for _, keys in known.forbidden]
    return answers or [await _unknown(store, subject, queue, wanted, forbidden, places)]


def _split(subject: str, queues: set[str]) -> tuple[str | None, str]:
    """The queue that `queue/id` names, and the id; names of queues may have slashes, too."""
    starts = [each for each in queues if subject.startswith(f"{each}/")]
    if subject in queues or not starts:
        return None, subject
    queue = max(starts, key=len)
    rest = subject[len(queue) + 1 :]
    return (queue, rest) if rest else (None, queue)


async def _explain_queue(store: Store, queue: QueueName, places: Places) -> Answer | None:
    match queue.product:
        case Product.BULLMQ:
            keys = places.bullmq.keys_of(queue.name)
            return keys and await of_bullmq.queue(store, keys, shown=queue.name)
        case Product.ROUTING:
            return await of_routing.type(store, queue.name, namespace=places.routing)
        case Product.FILES:
            return await of_files.priority(store, queue.name, layout=places.files)
        case Product.WAITINGROOM:
            return await of_rooms.room(store, queue.name)


async def _explain_subject(
    store: Store,
    subject: str,
    queue: str | None,
    products: set[Product],
    known: Sequence[QueueName],
    places: Places,
    unread: list[StoreError],
) -> list[Answer]:
    steps: list[Callable[[], Awaitable[Answer | None]]] = []
    for each in known:
        if queue not in (None, each.name):
            continue
        if each.product is Product.BULLMQ:
            if keys := places.bullmq.keys_of(each.name):
                steps.append(partial(_in_bullmq, store, keys, subject, each.name))
        elif each.product is Product.WAITINGROOM:
            steps.append(partial(of_rooms.visitor, store, each.name, subject))
    # Jobs of these two are not kept by queue, so they are looked for once.
    if Product.ROUTING in products:
        steps.append(partial(of_routing.job, store, subject, namespace=places.routing))
    if Product.FILES in products:
        steps.append(partial(of_files.file, store, subject, layout=places.files))
    answers = list[Answer]()
    for step in steps:
        try:
            answer = await step()
        except (StoreUnreachable, StoreBusy):
            raise
        except StoreError as error:
            # A queue that cannot be read hides what is in the others from nobody.
            unread.append(error)
            continue
        if answer and _fits(answer, queue):
            answers.append(answer)
    return answers


async def _in_bullmq(store: Store, keys: QueueKeys, id: str, shown: str) -> Answer | None:
    job = await of_bullmq.job(store, keys, id, shown=shown)
    return job or await of_bullmq.scheduler(store, keys, id, shown=shown)


def _fits(answer: Answer, queue: str | None) -> bool:
    return queue is None or answer.queue in (queue, "")


async def _explain_namespace(
    store: Store, name: str, products: set[Product], places: Places
) -> list[Answer]:
    """All types of a namespace, or all priorities of a directory, under the name they have in the
    console and in `waystation queues`."""
    answers: list[Answer] = []
    if Product.ROUTING in products and name == places.routing and await job_types(store, name):
        answers.append(await of_routing.every(store, namespace=name))
    if (
        Product.FILES in products
        and name == places.files.prefix
        and await has_files(store, places.files)
    ):
        answers.append(await of_files.every(store, layout=places.files))
    return answers


async def _unknown(
    store: Store,
    subject: str,
    queue: str | None,
    known: Sequence[QueueName],
    forbidden: Sequence[str],
    places: Places,
) -> Answer:
    names = [each.name for each in known]
    if queue is not None and queue not in names:
        near = difflib.get_close_matches(queue, names, n=_NEAREST)
        text = f"There is no queue {queue}"
    else:
        ids = await _recent_ids(store, queue, known, places)
        near = difflib.get_close_matches(subject, [*names, *ids], n=_NEAREST)
        where = f" in queue {queue}" if queue else ""
        looked = f"none of the newest {MOST_EVENTS:,} events names it"
        text = f"Nothing named {subject} exists{where}, and {looked}"
    if forbidden:
        text += f"; this user may not read {', '.join(forbidden)}"
    like = f"; did you mean {' or '.join(near)}?" if near else "."
    return Answer(
        product="",
        queue=queue or "",
        kind="job",
        id=subject,
        cause=Cause.UNKNOWN,
        sentence=f"{text}{like}",
        nearest=tuple(near),
        evidence={"queues": len(known)} | ({"not_readable": list(forbidden)} if forbidden else {}),
    )


async def _recent_ids(
    store: Store, queue: str | None, known: Sequence[QueueName], places: Places
) -> list[str]:
    streams: list[tuple[str, bytes]] = []
    for each in known[:_IDS_OF_A_QUEUE]:
        keys = places.bullmq.keys_of(each.name) if each.product is Product.BULLMQ else None
        if keys is not None and queue in (None, each.name):
            streams.append((keys.events, b"jobId"))
    ids: dict[str, None] = {}
    for stream, field in streams:
        looked = 0
        async with aclosing(newest_first(store.hot, stream)) as events:
            async for _, fields in events:
                looked += 1
                if looked > _IDS_OF_A_QUEUE:
                    break
                if id := fields.get(field):
                    ids[id.decode("utf-8", "replace")] = None
    return list(ids)
