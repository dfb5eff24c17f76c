"""The web application: orders come in, are paid, looked at and cancelled."""

import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Annotated
from uuid import uuid4

from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from examples.bookshop.database import Base, Book, Order, engine, outbox
from examples.bookshop.tasks import fulfil, tasks
from waystation.bullmq import Queue
from waystation.errors import NotFound, StoreError
from waystation.integrations.fastapi import Waystation

waystation = Waystation(tasks=tasks)
Orders = Annotated[Queue, Depends(waystation.queue("orders"))]


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
    """Move the outbox as long as the application runs."""
    Base.metadata.create_all(engine)
    stop = threading.Event()
    mover = threading.Thread(target=outbox.run, args=(engine,), kwargs={"stop": stop})
    mover.start()
    yield
    stop.set()
    mover.join()


app = FastAPI(title="Bookshop", lifespan=waystation.around(lifespan))


class NewOrder(BaseModel):
    """What a customer wants."""

    isbn: str
    copies: int = Field(default=1, gt=0)
    email: str


class PlacedOrder(BaseModel):
    """An order, and how far it is."""

    id: str
    state: str


@app.post("/orders", status_code=201)
def place(new: NewOrder) -> PlacedOrder:
    """Place an order: its row and its job are one transaction."""
    order = Order(id=str(uuid4()), isbn=new.isbn, copies=new.copies, email=new.email, state="new")
    with Session(engine, expire_on_commit=False) as session, session.begin():
        if session.get(Book, new.isbn) is None:
            raise HTTPException(404, f"we do not have {new.isbn}")
        session.add(order)
        # The job has the order's id, so that whoever knows the order can send it signals.
        outbox.add_call(session, fulfil.with_options(job_id=order.id).bind(order.id, new.email))
    with suppress(StoreError):  # the store is away, and the mover does it later
        outbox.move(engine)
    return PlacedOrder(id=order.id, state=order.state)


@app.get("/orders/{order_id}")
def look(order_id: str) -> PlacedOrder:
    """Say how far an order is."""
    with Session(engine) as session:
        order = session.get(Order, order_id)
        if order is None:
            raise HTTPException(404, "there is no such order")
        return PlacedOrder(id=order.id, state=order.state)


@app.post("/orders/{order_id}/payment", status_code=202)
async def pay(order_id: str, orders: Orders) -> None:
    """Tell an order that it is paid."""
    try:
        await orders.signal(order_id, "paid")
    except NotFound as error:
        raise HTTPException(404, "there is no such order") from error


@app.delete("/orders/{order_id}", status_code=202)
async def cancel(order_id: str, orders: Orders) -> None:
    """Cancel an order: what was done for it is undone."""
    if not await orders.cancel(order_id, reason="the customer cancelled the order"):
        raise HTTPException(409, "there is no such order, or it is too late")
