import { readNewPlant } from "../../src/plant.ts";

/** As many different bodies as keep the compiler from folding a call away. */
const BODIES = Array.from(
  { length: 512 },
  (_, i) =>
    `{"id":${
      1_234_567 + i * 7919
    },"name":"Monstera deliciosa","tag":"climber"}`,
);

/** What the calls gave goes here, so that none can be left out. */
export let last: unknown;

let next = 0;

function body(): string {
  next = (next + 1) % BODIES.length;
  return BODIES[next] ?? "";
}

Deno.bench({
  name: "JSON.parse",
  group: "a body of 60 bytes",
  baseline: true,
  fn() {
    last = JSON.parse(body());
  },
});

Deno.bench({
  name: "readNewPlant",
  group: "a body of 60 bytes",
  fn() {
    last = readNewPlant(body());
  },
});
