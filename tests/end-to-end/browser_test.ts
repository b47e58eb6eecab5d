/**
 * The reference page in a real browser. The environment names it: CHROMIUM is
 * the path of a Chromium, AXE_CORE that of the script of axe-core
 * (axe.min.js). What the environment does not name is not tested.
 */
import assert from "node:assert/strict";
import { Program, TemporaryDirectory, TOKEN } from "../support/program.ts";

const CHROMIUM = Deno.env.get("CHROMIUM") ?? "";
const AXE_CORE = Deno.env.get("AXE_CORE") ?? "";

/** How long the browser may take for one thing. */
const PATIENCE_MS = 20_000;

const WIDTHS = [1280, 390];
const COLOR_SCHEMES = ["light", "dark"];

/** What stands in a value under these names, if it is there. */
function inside(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (value, name) =>
      typeof value === "object" && value !== null
        ? Reflect.get(value, name)
        : undefined,
    value,
  );
}

async function rest(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 20));
}

/** Tries again and again until there is something. */
async function until<T>(
  what: string,
  attempt: () => T | undefined | Promise<T | undefined>,
): Promise<T> {
  const endMs = performance.now() + PATIENCE_MS;
  while (performance.now() < endMs) {
    const found = await attempt();
    if (found !== undefined) return found;
    await rest();
  }
  throw new Error(`waited in vain for ${what}`);
}

/** A headless Chromium with one tab, driven over the DevTools protocol. */
class Browser implements AsyncDisposable {
  /** What the browser complained of: faults, console errors, violations. */
  readonly complaints: string[] = [];
  readonly #process: Deno.ChildProcess;
  readonly #profile: TemporaryDirectory;
  readonly #socket: WebSocket;
  readonly #answers = new Map<number, PromiseWithResolvers<unknown>>();
  #loads = 0;

  private constructor(
    process: Deno.ChildProcess,
    profile: TemporaryDirectory,
    socket: WebSocket,
  ) {
    this.#process = process;
    this.#profile = profile;
    this.#socket = socket;
    socket.onmessage = ({ data }) => this.#receive(JSON.parse(data));
  }

  static async start(): Promise<Browser> {
    const profile = new TemporaryDirectory();
    const process = new Deno.Command(CHROMIUM, {
      args: [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--remote-debugging-port=0",
        `--user-data-dir=${profile.path}`,
        "about:blank",
      ],
      stdout: "null",
      stderr: "null",
    }).spawn();
    const port = await until("the port of Chromium", () => {
      try {
        const file = Deno.readTextFileSync(profile.file("DevToolsActivePort"));
        return /^(\d+)\n/.exec(file)?.[1];
      } catch {
        return undefined;
      }
    });
    const address = await until("a tab of Chromium", async () => {
      const list = await fetch(`http://127.0.0.1:${port}/json/list`);
      const tabs: { type: string; webSocketDebuggerUrl: string }[] = await list
        .json();
      return tabs.find(({ type }) => type === "page")?.webSocketDebuggerUrl;
    });
    const socket = new WebSocket(address);
    await new Promise((resolve) => socket.onopen = resolve);
    const browser = new Browser(process, profile, socket);
    for (const domain of ["Page", "Runtime", "Log"]) {
      await browser.send(`${domain}.enable`);
    }
    return browser;
  }

  send(method: string, params: Record<string, unknown> = {}): Promise<unknown> {
    const id = this.#answers.size + 1;
    const answer = Promise.withResolvers<unknown>();
    this.#answers.set(id, answer);
    this.#socket.send(JSON.stringify({ id, method, params }));
    return answer.promise;
  }

  async open(url: string): Promise<void> {
    const loads = this.#loads;
    await this.send("Page.navigate", { url });
    await until(url, () => this.#loads > loads || undefined);
  }

  /** The value of an expression in the page. */
  async evaluate(expression: string): Promise<unknown> {
    const answer = await this.send("Runtime.evaluate", {
      expression,
      awaitPromise: true,
      returnByValue: true,
    });
    assert.equal(inside(answer, "exceptionDetails"), undefined);
    return inside(answer, "result", "value");
  }

  /** The text of the element with an id, as it is seen; empty where it is not. */
  async text(id: string): Promise<string> {
    return String(
      await this.evaluate(`document.getElementById("${id}").innerText`),
    );
  }

  async press(key: "Tab" | "Enter"): Promise<void> {
    const windowsVirtualKeyCode = key === "Tab" ? 9 : 13;
    const event = { key, code: key, windowsVirtualKeyCode };
    await this.send("Input.dispatchKeyEvent", {
      ...event,
      type: "keyDown",
      ...(key === "Enter" && { text: "\r" }),
    });
    await this.send("Input.dispatchKeyEvent", { ...event, type: "keyUp" });
  }

  /** Types a text into the field with an id, in the place of what it held. */
  async fill(id: string, text: string): Promise<void> {
    await this.evaluate(`document.getElementById("${id}").select()`);
    if (text === "") {
      await this.evaluate(`document.getElementById("${id}").value = ""`);
    } else {
      await this.send("Input.insertText", { text });
    }
  }

  /** Fills the form, sends it and gives what the page says of the reply. */
  async create(
    fields: Readonly<Record<"token" | "id" | "name" | "tag", string>>,
  ): Promise<string> {
    for (const [id, text] of Object.entries(fields)) await this.fill(id, text);
    await this.evaluate('document.getElementById("verdict").textContent = ""');
    await this.evaluate('document.querySelector(".send").click()');
    return await this.verdict();
  }

  /** What the page says of a reply, when it is there. */
  verdict(): Promise<string> {
    return until(
      "a reply",
      async () => await this.text("verdict") || undefined,
    );
  }

  /** Shows the page as a device of this width and taste does. */
  async emulate(width: number, colorScheme: string): Promise<void> {
    await this.send("Emulation.setDeviceMetricsOverride", {
      width,
      height: 900,
      deviceScaleFactor: 1,
      mobile: width < 600,
    });
    await this.send("Emulation.setEmulatedMedia", {
      features: [
        { name: "prefers-color-scheme", value: colorScheme },
        { name: "prefers-reduced-motion", value: "reduce" },
      ],
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Asked to close, it ends its own processes and lets go of the profile.
    this.#socket.send(JSON.stringify({ id: 0, method: "Browser.close" }));
    const timer = setTimeout(() => this.#process.kill("SIGKILL"), PATIENCE_MS);
    await this.#process.status;
    clearTimeout(timer);
    await until(
      "the end of the socket",
      () => this.#socket.readyState === WebSocket.CLOSED || undefined,
    );
    this.#profile[Symbol.dispose]();
  }

  #receive(message: unknown): void {
    const id = inside(message, "id");
    if (typeof id === "number") {
      const fault = inside(message, "error", "message");
      if (fault === undefined) {
        this.#answers.get(id)?.resolve(inside(message, "result"));
      } else {
        this.#answers.get(id)?.reject(new Error(String(fault)));
      }
      return;
    }
    const params = inside(message, "params");
    switch (inside(message, "method")) {
      case "Page.loadEventFired":
        this.#loads++;
        break;
      case "Runtime.exceptionThrown":
      case "Runtime.consoleAPICalled":
        this.complaints.push(JSON.stringify(params));
        break;
      case "Log.entryAdded":
        // Chromium writes every status from 400 on to the log.
        if (inside(params, "entry", "source") !== "network") {
          this.complaints.push(JSON.stringify(params));
        }
    }
  }
}

/** A started program and a browser that has opened its page. */
class Visit implements AsyncDisposable {
  readonly program: Program;
  readonly browser: Browser;
  readonly #directory: TemporaryDirectory;

  private constructor(
    program: Program,
    browser: Browser,
    directory: TemporaryDirectory,
  ) {
    this.program = program;
    this.browser = browser;
    this.#directory = directory;
  }

  static async start(
    { prefix = "" }: { prefix?: string } = {},
  ): Promise<Visit> {
    const directory = new TemporaryDirectory();
    const program = await Program.start([
      "--kv",
      directory.file("plants.db"),
      ...(prefix === "" ? [] : ["--base-url", `https://plants.test${prefix}`]),
    ]);
    const browser = await Browser.start();
    await browser.open(`${program.origin}${prefix}/`);
    return new Visit(program, browser, directory);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.browser[Symbol.asyncDispose]();
    await this.program[Symbol.asyncDispose]();
    this.#directory[Symbol.dispose]();
  }
}

function test(name: string, fn: (visit: Visit) => Promise<void>): void {
  Deno.test({
    name,
    ignore: CHROMIUM === "",
    fn: async () => {
      await using visit = await Visit.start();
      await fn(visit);
      assert.deepEqual(visit.browser.complaints, []);
    },
  });
}

const PLANT = { token: TOKEN, id: "7", name: "Monstera", tag: "tropical" };

test("the page loads without an error or a violation of its policy", async ({ program, browser }) => {
  const page = await fetch(`${program.origin}/`);
  assert.match(
    page.headers.get("content-security-policy") ?? "",
    /^default-src 'none'; /,
  );
  await page.body?.cancel();
  assert.equal(
    await browser.evaluate("document.title"),
    "Plant Store: API reference",
  );
  assert.equal(
    await browser.evaluate("getComputedStyle(document.body).marginTop"),
    "0px",
    "the style is in force",
  );
});

test("the page would say it if its policy were broken", async ({ browser }) => {
  await browser.evaluate(
    'document.body.append(Object.assign(new Image(), { src: "/outside.png" }))',
  );
  await until(
    "a violation",
    () =>
      browser.complaints.pop()?.includes("Content Security Policy") ||
      undefined,
  );
});

test("the page never scrolls sideways", async ({ browser }) => {
  await browser.create({ ...PLANT, name: "M".repeat(500) });
  for (const width of [...WIDTHS, 320]) {
    await browser.emulate(width, "light");
    assert.equal(
      await browser.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth",
      ),
      0,
      `at ${width} pixels`,
    );
  }
});

test("the form creates a plant that is then in the store", async ({ program, browser }) => {
  assert.match(await browser.create(PLANT), /^200 OK in \d+ ms$/);
  assert.match(
    await browser.text("reply"),
    /^200 OK\n.*\n\n\{"name":"Monstera","tag":"tropical"\}$/s,
  );
  const again = await program.create({
    id: 7,
    name: "Monstera",
    tag: "tropical",
  });
  assert.equal(again.status, 200);
  const other = await program.create({ id: 7, name: "Pilea" });
  assert.equal(other.status, 409);
  await Promise.all([again.body?.cancel(), other.body?.cancel()]);
});

test("the form leaves out a tag that is empty", async ({ browser }) => {
  assert.match(await browser.create({ ...PLANT, tag: "" }), /^200 /);
  assert.match(await browser.text("sent"), /\n\{"id":7,"name":"Monstera"\}$/);
  assert.match(await browser.text("reply"), /\n\{"name":"Monstera"\}$/);
});

test("the form shows a 409 and what to do about it", async ({ browser }) => {
  await browser.create(PLANT);
  assert.match(await browser.create({ ...PLANT, name: "Pilea" }), /^409 /);
  assert.match(await browser.text("reply"), /"error":40901/);
  assert.equal(await browser.text("advice"), "Choose another id.");
});

test("the form shows a 401 without a token and with a wrong one", async ({ browser }) => {
  assert.match(await browser.create({ ...PLANT, token: "" }), /^401 /);
  assert.match(await browser.text("reply"), /"error":40101/);
  assert.doesNotMatch(await browser.text("curl"), /Authorization/);
  assert.match(await browser.create({ ...PLANT, token: "wrong" }), /^401 /);
  assert.match(await browser.text("reply"), /invalid_token.*"error":40102/s);
  assert.notEqual(await browser.text("advice"), "");
});

test("an id above 2 ** 53 is sent and shown exactly as typed", async ({ program, browser }) => {
  const id = "9223372036854775807";
  assert.match(await browser.create({ ...PLANT, id }), /^200 /);
  for (const part of ["sent", "curl"]) {
    assert.ok((await browser.text(part)).includes(`{"id":${id},`));
  }
  const body = (id: string) =>
    `{"id":${id},"name":"Monstera","tag":"tropical"}`;
  const same = await program.create(body(id));
  assert.equal(same.status, 200);
  const taken = await program.create(`{"id":${id},"name":"Pilea"}`);
  assert.equal(taken.status, 409);
  const neighbour = await program.create(
    '{"id":9223372036854775806,"name":"Pilea"}',
  );
  assert.equal(neighbour.status, 200);
  for (const { body } of [same, taken, neighbour]) await body?.cancel();
});

test("an id that is no number is not sent, and its field says so", async ({ browser }) => {
  for (const id of ["", "seven", "07", "1,2", '1,"name":"x"']) {
    for (const [field, text] of Object.entries({ ...PLANT, id })) {
      await browser.fill(field, text);
    }
    await browser.evaluate('document.querySelector(".send").click()');
    assert.match(await browser.text("id-wrong"), /as a number/);
    assert.equal(await browser.evaluate("document.activeElement.id"), "id");
    assert.equal(await browser.text("verdict"), "");
  }
});

test("what is not sent leaves no earlier reply to be taken for its own", async ({ browser }) => {
  const shown = () =>
    browser.evaluate(
      '["nothing", "verdict", "advice", "exchange"]' +
        ".filter((id) => !document.getElementById(id).hidden).join()",
    );
  assert.match(await browser.create(PLANT), /^200 /);
  assert.equal(await shown(), "verdict,exchange");
  await browser.fill("id", "seven");
  await browser.evaluate('document.querySelector(".send").click()');
  assert.equal(await shown(), "nothing");
  assert.match(await browser.create({ ...PLANT, name: "Pilea" }), /^409 /);
  assert.equal(await shown(), "verdict,advice,exchange");
});

test("the keyboard alone is enough to create a plant", async ({ browser }) => {
  let tabs = 0;
  do {
    assert.ok(tabs++ < 40, "the form is within reach of the Tab key");
    await browser.press("Tab");
  } while (await browser.evaluate("document.activeElement.id") !== "token");
  for (const text of [TOKEN, "8", "Pilea"]) {
    await browser.send("Input.insertText", { text });
    await browser.press("Tab");
  }
  await browser.send("Input.insertText", { text: "desk" });
  await browser.press("Enter");
  assert.match(await browser.verdict(), /^200 /);
  assert.match(
    await browser.text("sent"),
    /\{"id":8,"name":"Pilea","tag":"desk"\}$/,
  );
});

test("the curl call of the form does what the form did", async ({ program, browser }) => {
  const name = `Jack's $HOME \`id\` "pot" \\ ! é`;
  assert.match(await browser.create({ ...PLANT, name }), /^200 /);
  const { stdout } = await new Deno.Command("sh", {
    args: ["-c", await browser.text("curl")],
    env: { ACCESS_TOKEN: TOKEN },
  }).output();
  assert.deepEqual(JSON.parse(new TextDecoder().decode(stdout)), {
    name,
    tag: PLANT.tag,
  });
  const again = await program.create({ id: 7, name, tag: PLANT.tag });
  assert.equal(again.status, 200);
  await again.body?.cancel();
});

test("the token stays out of the page's text, address and storage", async ({ browser }) => {
  await browser.create(PLANT);
  const traces = await browser.evaluate(
    "[document.documentElement.outerHTML, location.href, document.cookie, " +
      "JSON.stringify(localStorage), JSON.stringify(sessionStorage)].join()",
  );
  assert.ok(!String(traces).includes(TOKEN));
});

Deno.test({
  name: "the form works under a base URL with a path",
  ignore: CHROMIUM === "",
  fn: async () => {
    await using visit = await Visit.start({ prefix: "/garden/api" });
    assert.match(await visit.browser.create(PLANT), /^200 /);
    assert.match(
      await visit.browser.text("curl"),
      /^curl https:\/\/plants\.test\/garden\/api\/plants /,
    );
    assert.deepEqual(visit.browser.complaints, []);
  },
});

Deno.test({
  name: "axe-core finds nothing serious in the page, in any width and colors",
  ignore: CHROMIUM === "" || AXE_CORE === "",
  fn: async () => {
    await using visit = await Visit.start();
    const { browser } = visit;
    await browser.evaluate(Deno.readTextFileSync(AXE_CORE));
    for (const width of WIDTHS) {
      for (const colorScheme of COLOR_SCHEMES) {
        await browser.emulate(width, colorScheme);
        await browser.create({ ...PLANT, token: "wrong" });
        const found = await browser.evaluate(
          `axe.run().then(({ violations }) => violations
            .filter(({ impact }) => impact === "serious" || impact === "critical")
            .map(({ id, nodes }) => id + ": " + nodes.map(({ html }) => html)))`,
        );
        assert.deepEqual(found, [], `at ${width} pixels, ${colorScheme}`);
      }
    }
  },
});
