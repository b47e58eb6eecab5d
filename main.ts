import { main } from "./src/cli.ts";

if (import.meta.main) Deno.exit(await main(Deno.args));
