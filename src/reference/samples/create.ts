// Node.js 24: node create.ts. Older: save as create.mjs.
// Deno: deno run --allow-net --allow-env create.ts
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";

const token = process.env.ACCESS_TOKEN;
if (!token) throw new Error("ACCESS_TOKEN is not set");

const id = PLANT_ID; // a bigint is exact beyond 2 ** 53
const plant = PLANT;
const headers = new Headers({
  "Authorization": `Bearer ${token}`,
  "Content-Type": "application/json",
});

async function create() {
  const reply = await fetch("PLANTS_URL", {
    method: "POST",
    headers,
    // JSON.stringify() refuses a bigint, so the id is written before the plant.
    body: `{"id":${id},${JSON.stringify(plant).slice(1)}`,
    signal: AbortSignal.timeout(1000 * REPLY_S_MAX),
  });
  const after = reply.headers.get("Retry-After");
  return { status: reply.status, after, text: await reply.text() };
}

for (let tries = 0;; tries++) {
  const { status, after, text } = await create()
    .catch((error) => {
      return { status: 0, after: null, text: String(error.cause ?? error) };
    });
  if (status === 200) {
    console.log(text);
    break;
  }
  if (![0, STATUSES].includes(status)) { // 0: no reply
    throw new Error(`fix the request: ${text}`);
  }
  if (tries === RETRIES) {
    throw new Error(`keep the create, send it later: ${text}`);
  }
  const pause = Math.max(Number(after) || 0, 2 ** tries); // a date counts as none
  await sleep(1000 * pause * (1 + Math.random()));
}
