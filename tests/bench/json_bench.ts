import { readNewPlant } from "../../src/plant.ts";

/**
 * As many different bodies as keep the compiler from folding a call away, each
 * decoded from bytes, as those of requests are: a template would leave ropes.
 */
function bodies(make: (id: number) => string): string[] {
  const encoder = new TextEncoder();
  const decoder = new TextDecoder();
  return Array.from(
    { length: 512 },
    (_, i) => decoder.decode(encoder.encode(make(1_234_567 + i * 7919))),
  );
}

const GROUPS = {
  "60 bytes, as most clients spell them": bodies((id) =>
    `{"id":${id},"name":"Monstera deliciosa","tag":"climber"}`
  ),
  "60 bytes in another order": bodies((id) =>
    `{"name":"Monstera deliciosa","tag":"climber","id":${id}}`
  ),
};

/** What the calls gave goes here, so that none can be left out. */
export let last: unknown;

let next = 0;

for (const [group, texts] of Object.entries(GROUPS)) {
  const body = () => {
    next = (next + 1) % texts.length;
    return texts[next] ?? "";
  };

  Deno.bench("JSON.parse", { group, baseline: true }, () => {
    last = JSON.parse(body());
  });

  Deno.bench("readNewPlant", { group }, () => {
    last = readNewPlant(body());
  });
}
