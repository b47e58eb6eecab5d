/**
 * The most that Deno.serve can do with a JSON request: read it and send it
 * back, without a check and without a store. The bench measures the service
 * against it.
 */
Deno.serve({
  hostname: "127.0.0.1",
  port: 0,
  onListen: ({ port }) => console.error(`echo on http://127.0.0.1:${port}`),
}, async (request) => Response.json(await request.json()));
