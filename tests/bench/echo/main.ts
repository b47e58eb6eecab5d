/** The least that a service in Deno does: it parses a body and replies with it. */
Deno.serve({
  hostname: "127.0.0.1",
  port: 0,
  onListen: ({ port }) => console.error(`http://127.0.0.1:${port} listens`),
}, async (request) => Response.json(await request.json()));
