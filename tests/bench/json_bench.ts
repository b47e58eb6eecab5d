import { parseNewPlant } from "../../src/plant/plant.ts";

/**
 * Returns enough different bodies to keep the compiler from eliminating calls.
 * They are decoded from bytes, as those of requests are: a template literal
 * would create ropes.
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
  "60 bytes, in the most common spelling": bodies((id) =>
    `{"id":${id},"name":"Monstera deliciosa","tag":"climber"}`
  ),
  "60 bytes in another order": bodies((id) =>
    `{"name":"Monstera deliciosa","tag":"climber","id":${id}}`
  ),
};

/** Receives every result, so that no call can be eliminated. */
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

  Deno.bench("parseNewPlant", { group }, () => {
    last = parseNewPlant(body());
  });
}
