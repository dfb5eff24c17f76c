// Runs a worker's fetch handler under Node, to try it out: node edge.mjs worker.mjs 8000
import { createServer } from "node:http";
import { resolve } from "node:path";
import { Readable } from "node:stream";
import { pathToFileURL } from "node:url";

const [file, port] = process.argv.slice(2);
const worker = (await import(pathToFileURL(resolve(file)))).default;

createServer(async (asked, answer) => {
  try {
    const headers = new Headers();
    for (let at = 0; at < asked.rawHeaders.length; at += 2) {
      headers.append(asked.rawHeaders[at], asked.rawHeaders[at + 1]);
    }
    // Two lines of cookies are one list, whatever Headers makes of them.
    if (asked.headers.cookie) headers.set("cookie", asked.headers.cookie);
    for (const name of ["connection", "keep-alive", "transfer-encoding", "upgrade", "host"]) headers.delete(name);
    const body = ["GET", "HEAD"].includes(asked.method) ? undefined : Readable.toWeb(asked);
    const url = new URL(`http://${asked.headers.host}${asked.url.replace(/^\/+/, "/")}`);
    const given = await worker.fetch(new Request(url, { method: asked.method, headers, body, duplex: "half", redirect: "manual" }));
    const plain = Object.fromEntries([...given.headers].filter(([name]) => name !== "set-cookie"));
    for (const name of ["content-encoding", "content-length", "transfer-encoding"]) delete plain[name];
    answer.writeHead(given.status, { ...plain, "set-cookie": given.headers.getSetCookie() });
    answer.end(Buffer.from(await given.arrayBuffer()));
  } catch (error) {
    console.error(error);
    answer.writeHead(502).end();
  }
}).listen(Number(port), "127.0.0.1");
