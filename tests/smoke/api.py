"""A waiting room shows its page to a browser."""

import socket
import subprocess
import sys
from urllib.request import urlopen

room = [sys.executable, "-m", "waystation", "room"]
subprocess.check_call([*room, "open", "sale", "--rate", "1", "--seats", "9"])
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = str(free.getsockname()[1])
command = [*room, "serve", "--room", "sale", "--port", port]
with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
    assert server.stderr
    assert any("waiting page at" in line for line in server.stderr)
    page = urlopen(f"http://127.0.0.1:{port}/wait/sale", timeout=60).read().decode()
    assert "<html" in page
    server.terminate()
