"""Large data of a job is an object of a bucket, here of a server of a few lines."""

import asyncio
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from waystation.bullmq import Job, PayloadOptions, Queue, Worker
from waystation.integrations.s3 import S3Blobs

objects: dict[str, bytes] = {}


class Bucket(BaseHTTPRequestHandler):
    """Keeps what is put."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        """Keep the only part of an object."""
        objects[self.path.partition("?")[0]] = self._body()
        self._answer(b"")

    def do_POST(self) -> None:
        """Begin and end the parts of an object."""
        self._body()
        done = "Complete" if "uploadId" in self.path else "Initiate"
        xml = f"<{done}MultipartUploadResult><UploadId>1</UploadId></{done}MultipartUploadResult>"
        self._answer(xml.encode())

    def do_GET(self) -> None:
        """Give an object back."""
        self._answer(objects[self.path])

    def do_HEAD(self) -> None:
        """Say how large an object is."""
        self._answer(objects[self.path], head=True)

    def _body(self) -> bytes:
        if "transfer-encoding" not in self.headers:
            return self.rfile.read(int(self.headers["content-length"]))
        raw = b""
        while size := int(self.rfile.readline(), 16):
            raw += self.rfile.read(size + 2)[:-2]
        self.rfile.readline()
        # The one chunk of what AWS calls aws-chunked.
        return raw.partition(b"\r\n")[2][: int(self.headers["x-amz-decoded-content-length"])]

    def _answer(self, raw: bytes, *, head: bool = False) -> None:
        self.send_response(200)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        if not head:
            self.wfile.write(raw)


async def count(job: Job) -> int:
    return len(job.data)


async def main(blobs: S3Blobs) -> None:
    payloads = PayloadOptions(blobs=blobs, above=10)
    async with (
        Queue("large", payloads=payloads) as queue,
        Worker("large", count, payloads=payloads),
    ):
        job = await queue.add("count", "x" * 1_000)
        assert await queue.wait(job.id, timeout=60) == 1_000


os.environ |= {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
os.environ |= {"AWS_EC2_METADATA_DISABLED": "true"}
server = ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
Thread(target=server.serve_forever, daemon=True).start()
place = f"http://127.0.0.1:{server.server_port}"
asyncio.run(main(S3Blobs("s3://shop", endpoint=place, region="us-east-1")))
assert objects
