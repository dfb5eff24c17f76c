// A board over some queues, whose history is that of a console; prints its port.
//   board.mjs HISTORY STORE CONSOLE QUEUES

import express from 'express';
import { Queue } from 'bullmq';
import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { ExpressAdapter } from '@bull-board/express';
const [history, store, console_, names] = process.argv.slice(1);
const { waystationHistory } = await import(history);
const { hostname, port } = new URL(store);
const adapter = new ExpressAdapter();
createBullBoard({
  queues: names.split(',').map((name) => new BullMQAdapter(new Queue(name, { connection: { host: hostname, port: Number(port) } }))),
  serverAdapter: adapter,
  options: { historyProvider: waystationHistory({ url: console_, patience: 600_000 }), validateResponses: true },
});
const app = express();
app.use(adapter.getRouter());
const server = app.listen(0, '127.0.0.1', () => console.log(server.address().port));
