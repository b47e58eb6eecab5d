/** A real Chromium, whose path the environment variable CHROMIUM names. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { TemporaryDirectory } from "./temporary.ts";

/** The path of Chromium, empty if the environment names none. */
export const CHROMIUM = Deno.env.get("CHROMIUM") ?? "";

/** Time limit for a command of the browser, generous for busy machines. */
const COMMAND_MS_MAX = 20_000;

const DEVTOOLS_URL = /^DevTools listening on (ws:\S+)$/m;

type Params = Readonly<Record<string, unknown>>;

/** Returns the member of nested objects at a path, if it exists. */
function memberAt(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (value, name) =>
      typeof value === "object" && value !== null
        ? Reflect.get(value, name)
        : undefined,
    value,
  );
}

/** A headless Chromium, driven over the DevTools protocol. */
export class Browser implements AsyncDisposable {
  readonly #process: Deno.ChildProcess;
  readonly #profile: TemporaryDirectory;
  readonly #socket: WebSocket;
  readonly #replies = new Map<number, PromiseWithResolvers<unknown>>();
  /** The tabs by their sessions. */
  readonly #tabs = new Map<string, Tab>();
  #commands = 0;

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

  /** Starts Chromium. */
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
      ],
      stdout: "null",
      stderr: "piped",
    }).spawn();
    const socket = new WebSocket(await readDevtoolsUrl(process.stderr));
    await new Promise((resolve) => socket.onopen = resolve);
    return new Browser(process, profile, socket);
  }

  /** Opens a tab that shares no data with other tabs. */
  async openTab(): Promise<Tab> {
    const context = await this.send("Target.createBrowserContext");
    const browserContextId = memberAt(context, "browserContextId");
    const target = await this.send("Target.createTarget", {
      url: "about:blank",
      browserContextId,
    });
    const targetId = memberAt(target, "targetId");
    const attached = await this.send("Target.attachToTarget", {
      targetId,
      flatten: true,
    });
    const session = String(memberAt(attached, "sessionId"));
    const tab = new Tab(
      (method, params) => this.send(method, params, session),
      async () => {
        this.#tabs.delete(session);
        await this.send("Target.disposeBrowserContext", { browserContextId });
      },
    );
    this.#tabs.set(session, tab);
    for (const domain of ["Page", "Runtime", "Log"]) {
      await tab.send(`${domain}.enable`);
    }
    return tab;
  }

  /** Sends a command to the browser, or to a tab, and waits for its result. */
  async send(
    method: string,
    params: Params = {},
    sessionId?: string,
  ): Promise<unknown> {
    const id = ++this.#commands;
    const reply = Promise.withResolvers<unknown>();
    this.#replies.set(id, reply);
    const timer = setTimeout(
      () => reply.reject(new Error(`no reply to ${method}`)),
      COMMAND_MS_MAX,
    );
    this.#socket.send(JSON.stringify({ id, method, params, sessionId }));
    try {
      return await reply.promise;
    } finally {
      clearTimeout(timer);
      this.#replies.delete(id);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // The browser stops its own processes, which use the profile.
    const closed = new Promise((resolve) => this.#socket.onclose = resolve);
    this.#socket.send(JSON.stringify({ id: 0, method: "Browser.close" }));
    const kill = () => this.#process.kill("SIGKILL");
    const timer = setTimeout(kill, COMMAND_MS_MAX);
    await Promise.all([closed, this.#process.status]);
    clearTimeout(timer);
    this.#profile[Symbol.dispose]();
  }

  #receive(message: unknown): void {
    const id = memberAt(message, "id");
    if (typeof id === "number") {
      const error = memberAt(message, "error", "message");
      const reply = this.#replies.get(id);
      if (error === undefined) reply?.resolve(memberAt(message, "result"));
      else reply?.reject(new Error(String(error)));
      return;
    }
    const tab = this.#tabs.get(String(memberAt(message, "sessionId")));
    tab?.handle(memberAt(message, "method"), memberAt(message, "params"));
  }
}

/** A tab of the browser. */
export class Tab implements AsyncDisposable {
  /** Exceptions, console messages and violations of the page's policy. */
  readonly problems: string[] = [];
  readonly send: (method: string, params?: Params) => Promise<unknown>;
  readonly #close: () => Promise<void>;
  #loaded = Promise.withResolvers<void>();

  constructor(send: Tab["send"], close: () => Promise<void>) {
    this.send = send;
    this.#close = close;
  }

  /** Opens a page, and waits until it is loaded. */
  async open(url: string): Promise<void> {
    this.#loaded = Promise.withResolvers();
    await this.send("Page.navigate", { url });
    await this.#loaded.promise;
  }

  /** Returns the value of an expression in the page; promises are awaited. */
  async evaluate(expression: string): Promise<unknown> {
    const reply = await this.send("Runtime.evaluate", {
      expression,
      awaitPromise: true,
      returnByValue: true,
    });
    const exception = memberAt(reply, "exceptionDetails", "exception");
    assert.equal(memberAt(exception, "description"), undefined, expression);
    return memberAt(reply, "result", "value");
  }

  /** Returns the visible text of an element, empty if it is hidden. */
  async textOf(id: string): Promise<string> {
    return String(
      await this.evaluate(`document.getElementById("${id}").innerText`),
    );
  }

  /** Returns whether an element is rendered. */
  async isVisible(id: string): Promise<unknown> {
    return await this.evaluate(
      `document.getElementById("${id}").checkVisibility()`,
    );
  }

  /** Types a text at the cursor. */
  async type(text: string): Promise<void> {
    await this.send("Input.insertText", { text });
  }

  /** Presses and releases a key. */
  async press(key: "Tab" | "Enter"): Promise<void> {
    const event = key === "Tab"
      ? { key, windowsVirtualKeyCode: 9 }
      : { key, windowsVirtualKeyCode: 13, text: "\r" };
    for (const type of ["keyDown", "keyUp"]) {
      await this.send("Input.dispatchKeyEvent", { ...event, type });
    }
  }

  /** Returns the ids of the inputs that match a selector. */
  async inputs(selector: string): Promise<unknown> {
    return await this.evaluate(
      `[...document.querySelectorAll("input${selector}")].map(({ id }) => id)`,
    );
  }

  /** Returns a part of the page, at its full width, as a PNG. */
  async screenshot(from: string, to: string): Promise<Uint8Array> {
    await this.send("Emulation.setScrollbarsHidden", { hidden: true });
    const edges = await this.evaluate(`
      document.activeElement.blur();
      scrollTo(0, 0);
      [
        innerWidth,
        document.querySelector("${from}").getBoundingClientRect().top - 24,
        document.querySelector("${to}").getBoundingClientRect().bottom,
      ]`);
    const [width = 0, top = 0, bottom = 0] = Array.from(Object(edges), Number);
    const reply = await this.send("Page.captureScreenshot", {
      captureBeyondViewport: true,
      clip: { x: 0, y: top, width, height: bottom - top, scale: 1 },
    });
    return Buffer.from(String(memberAt(reply, "data")), "base64");
  }

  /** Emulates a screen of a width and the color scheme of its user. */
  async emulate(width: number, colorScheme: string): Promise<void> {
    await this.send("Emulation.setDeviceMetricsOverride", {
      width,
      // A small phone, without the bars of its browser.
      height: width < 600 ? 664 : 900,
      deviceScaleFactor: 1,
      mobile: width < 600,
    });
    await this.send("Emulation.setEmulatedMedia", {
      features: [{ name: "prefers-color-scheme", value: colorScheme }],
    });
  }

  /** Makes every later request of the page fail. */
  async disconnect(): Promise<void> {
    await this.send("Network.enable");
    await this.send("Network.emulateNetworkConditions", {
      offline: true,
      latency: 0,
      downloadThroughput: -1,
      uploadThroughput: -1,
    });
  }

  /** Handles an event that the browser sent for this tab. */
  handle(method: unknown, params: unknown): void {
    switch (method) {
      case "Page.loadEventFired":
        this.#loaded.resolve();
        break;
      case "Runtime.exceptionThrown":
      case "Runtime.consoleAPICalled":
        this.problems.push(JSON.stringify(params));
        break;
      case "Log.entryAdded":
        // Chromium logs every reply with a status from 400 on.
        if (memberAt(params, "entry", "source") !== "network") {
          this.problems.push(JSON.stringify(params));
        }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#close();
  }
}

/** Reads stderr to its end; resolves with the URL of DevTools in it. */
function readDevtoolsUrl(stderr: ReadableStream<Uint8Array>): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const read = async () => {
    const decoder = new TextDecoder();
    let text = "";
    for await (const chunk of stderr) {
      text += decoder.decode(chunk, { stream: true });
      const url = DEVTOOLS_URL.exec(text)?.[1];
      if (url !== undefined) resolve(url);
    }
    reject(new Error(`Chromium did not start: ${text}`));
  };
  read();
  return promise;
}
