/** A real Chromium. */
import assert from "node:assert/strict";
import { BackgroundProcess } from "./background.ts";
import { pathOf } from "./needs.ts";
import { TemporaryDirectory } from "./temporary.ts";
import { inTime, WAIT_MS_MAX } from "./waiting.ts";

/** Time for the browser to stop its own processes, also on a busy machine. */
const STOP_MS_MAX = 20_000;

const DEVTOOLS_HOST = /^DevTools listening on ws:\/\/([^/]+)/m;

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
  readonly #profile = new TemporaryDirectory();
  readonly #process = new BackgroundProcess(pathOf("CHROMIUM"), {
    args: [
      "--headless",
      "--no-sandbox",
      "--no-first-run",
      "--disable-gpu",
      "--disable-quic",
      "--disable-dev-shm-usage",
      "--disable-sync",
      "--disable-background-networking",
      "--disable-component-update",
      "--remote-debugging-port=0",
      `--user-data-dir=${this.#profile.path}`,
    ],
  });
  /** The host and port that it listens on. */
  #host = "";

  private constructor() {}

  static async start(): Promise<Browser> {
    await using unstarted = new AsyncDisposableStack();
    const browser = unstarted.use(new Browser());
    const [, host = ""] = await browser.#process.printed(DEVTOOLS_HOST);
    browser.#host = host;
    unstarted.move();
    return browser;
  }

  async openTab(): Promise<Tab> {
    const url = `http://${this.#host}/json/new?about:blank`;
    const signal = AbortSignal.timeout(WAIT_MS_MAX);
    const response = await fetch(url, { method: "PUT", signal });
    const tab = new Tab((await response.json()).webSocketDebuggerUrl);
    for (const domain of ["Page", "Runtime", "Log"]) {
      await tab.send(`${domain}.enable`);
    }
    return tab;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // It stops its own processes, which use the profile.
    const kill = () => this.#process.process.kill("SIGKILL");
    const timer = setTimeout(kill, STOP_MS_MAX);
    await this.#process.stop();
    clearTimeout(timer);
    this.#profile[Symbol.dispose]();
  }
}

/** A tab of the browser. */
export class Tab implements AsyncDisposable {
  /** Exceptions, console messages and violations of the page's policy. */
  readonly problems: string[] = [];
  readonly #socket: WebSocket;
  readonly #opened: Promise<unknown>;
  readonly #closed: Promise<unknown>;
  readonly #replies = new Map<unknown, PromiseWithResolvers<unknown>>();
  #commands = 0;
  #loaded = Promise.withResolvers<void>();
  #navigated = Promise.withResolvers<void>();

  constructor(url: string) {
    const socket = new WebSocket(url);
    this.#socket = socket;
    this.#opened = new Promise((resolve) => socket.onopen = resolve);
    this.#closed = new Promise((resolve) => socket.onclose = resolve);
    socket.onmessage = ({ data }) => this.#receive(JSON.parse(data));
  }

  /** Sends a command, and waits for its result. */
  async send(method: string, params: Params = {}): Promise<unknown> {
    await inTime(this.#opened, () => "a connection to the tab");
    const id = ++this.#commands;
    const reply = Promise.withResolvers<unknown>();
    this.#replies.set(id, reply);
    this.#socket.send(JSON.stringify({ id, method, params }));
    return await inTime(
      reply.promise,
      () => `a reply to ${method} ${JSON.stringify(params)}`,
    );
  }

  /** Opens a page, and waits until it is loaded. */
  async open(url: string): Promise<void> {
    this.#loaded = Promise.withResolvers();
    await this.send("Page.navigate", { url });
    await inTime(this.#loaded.promise, () => `${url} is loaded`);
  }

  /** Goes back to the page before, which the browser may have kept. */
  async goBack(): Promise<void> {
    this.#navigated = Promise.withResolvers();
    const history = await this.send("Page.getNavigationHistory");
    const index = Number(memberAt(history, "currentIndex")) - 1;
    const entryId = memberAt(history, "entries", `${index}`, "id");
    await this.send("Page.navigateToHistoryEntry", { entryId });
    await inTime(this.#navigated.promise, () => "the page before is shown");
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

  /** Types a text at the cursor. */
  async type(text: string): Promise<void> {
    await this.send("Input.insertText", { text });
  }

  /** Presses and releases the key Enter. */
  async pressEnter(): Promise<void> {
    const enter = { key: "Enter", windowsVirtualKeyCode: 13, text: "\r" };
    for (const type of ["keyDown", "keyUp"]) {
      await this.send("Input.dispatchKeyEvent", { ...enter, type });
    }
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

  /** Emulates paper of a width. */
  async print(width: number): Promise<void> {
    await this.emulate(width, "light");
    await this.send("Emulation.setEmulatedMedia", { media: "print" });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.send("Page.close");
    await inTime(this.#closed, () => "the tab is closed");
  }

  /** Handles a reply or an event. */
  #receive(message: unknown): void {
    const reply = this.#replies.get(memberAt(message, "id"));
    const error = memberAt(message, "error", "message");
    if (error === undefined) reply?.resolve(memberAt(message, "result"));
    else reply?.reject(new Error(String(error)));
    const params = memberAt(message, "params");
    switch (memberAt(message, "method")) {
      case "Page.loadEventFired":
        this.#loaded.resolve();
        break;
      case "Page.frameNavigated":
        this.#navigated.resolve();
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
}
