// When Node's BullMQ would run cron patterns: JSON [[pattern, tz, fromMs, count], ...] on stdin.
//
// The cron parser is the one that the BullMQ in the working directory uses.

import { createRequire } from 'node:module';
import { text } from 'node:stream/consumers';

const near = createRequire(`${process.cwd()}/node_modules/bullmq/package.json`);
const { CronExpressionParser, parseExpression } = near('cron-parser');
const parse = CronExpressionParser ? (...args) => CronExpressionParser.parse(...args) : parseExpression;

/** BullMQ asks for one run at a time, each from the one before. */
function runs(pattern, tz, from, count) {
  const found = [];
  for (let at = from; found.length < count; ) {
    try {
      at = parse(pattern, { tz, currentDate: new Date(at) }).next().getTime();
    } catch (error) {
      return found.length ? found : error.message;
    }
    found.push(at);
  }
  return found;
}

const asked = JSON.parse(await text(process.stdin));
process.stdout.write(JSON.stringify(asked.map((each) => runs(...each))));
