"""The console answers a browser, and says what it can be asked."""

import socket
import subprocess
import sys
from urllib.request import urlopen

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    place = f"127.0.0.1:{free.getsockname()[1]}"
command = [sys.executable, "-m", "waystation", "console", "--listen", place]
with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
    assert server.stderr
    assert any("console at" in line for line in server.stderr)
    for path, wanted in (("/", "<html"), ("/openapi.json", "/api/v1/queues")):
        assert wanted in urlopen(f"http://{place}{path}", timeout=60).read().decode()
    server.terminate()
