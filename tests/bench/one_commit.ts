/**
 * The service as it is usually written: one commit for every request. Only the
 * bench uses it, to show what group commit is worth. It is not strict: ids
 * above 2^53 are rounded, for example.
 *
 *     ACCESS_TOKEN=… deno run -A tests/bench/one_commit.ts FILE
 */
const [file] = Deno.args;
const authorization = `Bearer ${Deno.env.get("ACCESS_TOKEN")}`;
const kv = await Deno.openKv(file);

Deno.serve({
  hostname: "127.0.0.1",
  port: 0,
  onListen: ({ port }) =>
    console.error(`one commit a request on http://127.0.0.1:${port}`),
}, create);

async function create(request: Request): Promise<Response> {
  if (request.headers.get("authorization") !== authorization) {
    return refuse(401, "Unauthorized");
  }
  if (
    request.method !== "POST" || new URL(request.url).pathname !== "/plants"
  ) {
    return refuse(404, "Not found");
  }
  const { id, name, tag } = await request.json();
  if (
    !Number.isInteger(id) || typeof name !== "string" ||
    (tag !== undefined && typeof tag !== "string")
  ) {
    return refuse(400, "Not a plant");
  }
  const key = ["plants", id];
  const plant = { name, tag };
  const { ok } = await kv.atomic()
    .check({ key, versionstamp: null })
    .set(key, plant)
    .commit();
  return ok ? Response.json(plant) : refuse(409, "The id is taken");
}

function refuse(status: number, message: string): Response {
  return Response.json({ error: status, message }, { status });
}
