"""The shop itself: it knows nothing of lines and is glad of it."""

from waystation.waitingroom.middleware.asgi import Receive, Scope, Send

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<h1>{title}</h1><p>{text}</p><p><a href="/">Shop window</a> · <a href="/checkout">Buy</a> ·
<a href="/checkout/done">Pay and leave</a></p></html>"""


async def site(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with one of three pages."""
    if scope["type"] != "http":
        return
    headers = [(b"content-type", b"text/html; charset=utf-8")]
    match scope["path"].rstrip("/"):
        case "":
            title, text = "Shop window", "Anybody may look; only buying needs a place in line."
        case "/checkout/done":
            title, text = "Thank you", "Your seat is free for the next one."
            # The connector reads this, frees the seat, and shows it to nobody.
            headers.append((b"wr-command", b"complete"))
        case path if path.startswith("/checkout"):
            title, text = "Checkout", "You are in. Take your time."
        case _:
            title, text = "Not here", "There is no such page."
    body = _PAGE.format(title=title, text=text).encode()
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
