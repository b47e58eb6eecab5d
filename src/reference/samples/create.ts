// Node.js 24: node create.ts. Older: save as create.mjs.
// Deno: deno run --allow-net --allow-env create.ts
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";

const token = process.env.ACCESS_TOKEN;
if (!token) throw new Error("ACCESS_TOKEN is not set");

const id = 1n; // a bigint is exact beyond 2 ** 53
const plant = { name: "Monstera", tag: "climber" };
const headers = {
  "Authorization": `Bearer ${token}`,
  "Content-Type": "application/json",
};

async function create() {
  const reply = await fetch("http://127.0.0.1:8000/plants", {
    method: "POST",
    headers,
    // JSON.stringify() refuses a bigint, so the id is written before the plant.
    body: `{"id":${id},${JSON.stringify(plant).slice(1)}`,
    signal: AbortSignal.timeout(20_000),
  });
  const after = Number(reply.headers.get("Retry-After")) || 0; // a date counts as none
  return { status: reply.status, after, text: await reply.text() };
}

for (let tries = 0;; tries++) {
  const { status, after, text } = await create().catch((error) => {
    return { status: 0, after: 0, text: String(error.cause ?? error) };
  });
  if (status === 200) {
    console.log(text);
    break;
  }
  if (![0, 408, 429, 500, 502, 503, 504].includes(status)) { // 0: no reply
    throw new Error(`fix the request: ${status} ${text}`);
  }
  if (tries === 4) {
    throw new Error(`keep the create, send it later: ${status} ${text}`);
  }
  await sleep(1000 * Math.max(after, 2 ** tries) * (1 + Math.random()));
}
