'use strict';
// Work for a place: a number behind the challenge whose SHA-256 begins with so many bits of nothing.
// It runs in a worker, from its own text, so it may use nothing but what is in here.
const prove = (challenge, bits) => {
  const part = (root) => ((root - Math.floor(root)) * 4294967296) | 0;
  const K = [], START = [];
  for (let n = 2; K.length < 64; n++) {
    let prime = true;
    for (let by = 2; by * by <= n; by++) if (n % by === 0) { prime = false; break; }
    if (!prime) continue;
    if (START.length < 8) START.push(part(Math.sqrt(n)));
    K.push(part(Math.cbrt(n)));
  }
  const W = new Int32Array(64), K32 = Int32Array.from(K);
  const block = (state, bytes, at) => {
    for (let i = 0; i < 16; i++, at += 4) W[i] = (bytes[at] << 24) | (bytes[at + 1] << 16) | (bytes[at + 2] << 8) | bytes[at + 3];
    for (let i = 16; i < 64; i++) {
      const x = W[i - 15], y = W[i - 2];
      W[i] = (W[i - 16] + ((x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ (x >>> 3)) + W[i - 7] + ((y >>> 17 | y << 15) ^ (y >>> 19 | y << 13) ^ (y >>> 10))) | 0;
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i++) {
      const one = (h + ((e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7)) + ((e & f) ^ (~e & g)) + K32[i] + W[i]) | 0;
      const two = (((a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g; g = f; f = e; e = (d + one) | 0; d = c; c = b; b = a; a = (one + two) | 0;
    }
    return [(state[0] + a) | 0, (state[1] + b) | 0, (state[2] + c) | 0, (state[3] + d) | 0, (state[4] + e) | 0, (state[5] + f) | 0, (state[6] + g) | 0, (state[7] + h) | 0];
  };
  // Whole blocks of the challenge are the same at every try.
  const front = new TextEncoder().encode(`${challenge}:`), whole = front.length - front.length % 64;
  let begun = START;
  for (let at = 0; at < whole; at += 64) begun = block(begun, front, at);
  const rest = front.subarray(whole), tail = new Uint8Array(128);
  for (let tried = 0; ; tried++) {
    const digits = String(tried), length = rest.length + digits.length, end = length < 56 ? 64 : 128;
    tail.fill(0);
    tail.set(rest);
    for (let i = 0; i < digits.length; i++) tail[rest.length + i] = digits.charCodeAt(i);
    tail[length] = 128;
    new DataView(tail.buffer).setUint32(end - 4, (whole + length) * 8);
    let state = block(begun, tail, 0);
    if (end === 128) state = block(state, tail, 64);
    if (state[0] >>> (32 - bits) === 0) return tried;
  }
};
