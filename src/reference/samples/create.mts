// Node.js 24: node create.mts. Older: save as create.mjs.
// Deno: deno run --allow-net --allow-env create.mts
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";

const token = process.env.ACCESS_TOKEN ?? "";
// Without its value: a log must not contain it.
if (!/^[!-~]+$/.test(token)) throw new Error("ACCESS_TOKEN is not a token");

const id = 1n; // a number would be rounded beyond ±(2^53 - 1)
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
    redirect: "manual", // it leads to a page, not to the service
    signal: AbortSignal.timeout(20_000),
  });
  const type = reply.headers.get("Content-Type") ?? "";
  // A date counts as none, and more than an hour as an hour.
  const after = Math.min(Number(reply.headers.get("Retry-After")) || 0, 3600);
  return { status: reply.status, type, after, text: await reply.text() };
}

for (let tries = 0;; tries++) {
  const { status, type, after, text } = await create().catch((error) => {
    return { status: 0, type: "", after: 0, text: `${error.cause ?? error}` };
  });
  if (status === 200 && type.startsWith("application/json")) {
    console.log(text);
    break;
  }
  if (![0, 408, 429, 500, 502, 503, 504].includes(status)) { // 0: no reply
    throw new Error(`fix the request or the address: ${status} ${text}`);
  }
  if (tries === 4) {
    throw new Error(`keep the create, send it later: ${status} ${text}`);
  }
  await sleep(1000 * Math.max(after, 2 ** tries) * (1 + Math.random()));
}
