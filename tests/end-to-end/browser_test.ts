/** The reference page in Chromium. */
import assert from "node:assert/strict";
import { Browser, type Tab } from "../support/browser.ts";
import { isMissing, pathOf } from "../support/needs.ts";
import { Program, replyStatus, TOKEN } from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { runTool } from "../support/tools.ts";

const WIDTHS = [1280, 390];
const COLOR_SCHEMES = ["light", "dark"];

/** What to type into the form: the token and the members. */
type Fields = Readonly<Record<"token" | "id" | "name" | "tag", string>>;

/**
 * An expression that begins to wait for the verdict of the next reply: keys may
 * overtake an expression that is not awaited.
 */
const WATCH_VERDICT = `globalThis.nextVerdict = new Promise((resolve) => {
  const verdict = document.getElementById("verdict");
  new MutationObserver(() => resolve(verdict.innerText))
    .observe(verdict, { childList: true });
}); 0`;

/** Expressions for the ids of the inputs that are marked, and of the focus. */
const INVALID =
  "[...document.querySelectorAll('input:user-invalid')].map(({ id }) => id)";
const FOCUSED = "document.activeElement.id";

/** An expression whose value is whether the exchange or a text is shown. */
const PARTS = `["exchange", "placeholder"]
  .map((id) => document.getElementById(id).checkVisibility())`;

/** What the tests create. */
const PLANT: Fields = {
  token: TOKEN,
  id: "1",
  name: "Monstera",
  tag: "climber",
};

/** The page of a new service, in a tab of a new browser. */
class OpenPage implements AsyncDisposable {
  private constructor(
    readonly program: Program,
    readonly tab: Tab,
    readonly resources: AsyncDisposableStack,
  ) {}

  /** @param path that of the base URL */
  static async open(path = "/"): Promise<OpenPage> {
    await using stack = new AsyncDisposableStack();
    const directory = stack.use(new TemporaryDirectory());
    const store = directory.file("plants.db");
    const flags = ["--base-url", `https://plants.test${path}`];
    const options = path === "/" ? {} : { flags };
    const program = stack.use(await Program.start(store, options));
    const browser = stack.use(await Browser.start());
    const tab = stack.use(await browser.openTab());
    await tab.open(program.origin + path);
    return new OpenPage(program, tab, stack.move());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.resources.disposeAsync();
  }
}

/** Returns the id of the input of a field. */
function inputOf(field: string): string {
  return field === "token" ? field : `member-${field}`;
}

async function fillIn(tab: Tab, fields: Fields): Promise<void> {
  for (const [field, text] of Object.entries(fields)) {
    const input = `document.getElementById("${inputOf(field)}")`;
    await tab.evaluate(`${input}.value = ""; ${input}.focus()`);
    await tab.type(text);
  }
}

/** Sends the form and returns the verdict that the page shows. */
async function send(tab: Tab): Promise<string> {
  await tab.evaluate(WATCH_VERDICT);
  await clickSend(tab);
  return `${await tab.evaluate("nextVerdict")}`;
}

async function clickSend(tab: Tab): Promise<void> {
  await tab.evaluate('document.getElementById("send").click()');
}

/** Fills in the form, sends it with Enter, and returns the verdict. */
async function create(tab: Tab, fields: Fields): Promise<string> {
  await fillIn(tab, fields);
  await tab.evaluate(WATCH_VERDICT);
  await tab.pressEnter();
  return `${await tab.evaluate("nextVerdict")}`;
}

Deno.test({
  name: "the page loads with its style",
  ignore: isMissing("CHROMIUM"),
  async fn() {
    await using page = await OpenPage.open();
    const { tab } = page;
    const loaded = await tab.evaluate(
      "[document.title, getComputedStyle(document.body).margin]",
    );
    assert.deepEqual(loaded, ["Plant Store: API reference", "0px"]);
    assert.deepEqual(tab.problems, []);
  },
});

Deno.test({
  name: "the page never scrolls sideways",
  ignore: isMissing("CHROMIUM"),
  async fn() {
    await using page = await OpenPage.open();
    const { tab } = page;
    const name = "M".repeat(500);
    assert.match(await create(tab, { ...PLANT, name }), /^200 /);
    for (const width of [...WIDTHS, 320]) {
      await tab.emulate(width, "light");
      const excess = await tab.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth",
      );
      assert.equal(excess, 0, `at ${width} pixels`);
    }
    assert.deepEqual(tab.problems, []);
  },
});

Deno.test({
  name:
    "the form stores a plant with an id above 2 ** 53 exactly, sends an empty name, and omits an empty tag",
  ignore: isMissing("CHROMIUM"),
  async fn() {
    await using page = await OpenPage.open();
    const { tab, program } = page;
    const id = "9223372036854775807";
    const { name } = PLANT;
    const verdict = await create(tab, { ...PLANT, id, tag: "" });
    assert.match(verdict, /^200 OK in \d+ ms$/);
    const body = `{"id":${id},"name":"${name}"}`;
    for (const part of ["sent", "curl"]) {
      assert.ok((await tab.textOf(part)).includes(body));
    }
    const reply = await tab.textOf("reply");
    assert.match(reply, /^200 OK\n.*\n\n\{"name":"Monstera"\}$/s);
    assert.equal(await replyStatus(program.create(body)), 200);
    const other = `{"id":${id},"name":"Pilea"}`;
    assert.equal(await replyStatus(program.create(other)), 409);
    assert.match(
      await create(tab, { ...PLANT, id: "1", name: "", tag: "" }),
      /^200 /,
    );
    const nameless = '{"id":1,"name":""}';
    assert.equal(await replyStatus(program.create(nameless)), 200);
    assert.deepEqual(tab.problems, []);
  },
});

Deno.test({
  name:
    "a small phone shows the message of a refusal under the status, and the remedy",
  ignore: isMissing("CHROMIUM"),
  async fn() {
    await using page = await OpenPage.open();
    const { tab } = page;
    await tab.emulate(390, "light");
    const tooLarge = "9223372036854775808";
    for (
      const [change, error, message, advice] of [
        [
          { token: "guess" },
          40102,
          /^Authorization: /,
          /^Check that the token /,
        ],
        [{ id: tooLarge }, 40003, /^id: expected /, /./],
        [{ name: "M".repeat(32 * 1024) }, 41301, /^body: /, /./],
        [{}, 200, /^$/, /^$/],
        [
          { name: "Pilea" },
          40901,
          /^id: \d+ is already /,
          /^Choose another id\.$/,
        ],
      ] as const
    ) {
      await fillIn(tab, { ...PLANT, ...change });
      // Where the screen ends when a finger has just reached the button.
      await tab.evaluate('send.scrollIntoView({ block: "end" })');
      await send(tab);
      const reply = await tab.textOf("reply");
      const pattern = error === 200
        ? /^200 OK/
        : new RegExp(`"error":${error}\\b`);
      assert.match(reply, pattern);
      assert.equal(reply.includes("invalid_token"), error === 40102);
      assert.match(await tab.textOf("message"), message);
      assert.match(await tab.textOf("advice"), advice);
      const isVisible = await tab.evaluate(`(() => {
        const { top } = verdict.getBoundingClientRect();
        const { bottom } = message.getBoundingClientRect();
        return verdict.nextElementSibling === message && top >= 0 &&
          bottom <= innerHeight;
      })()`);
      assert.equal(isVisible, true, `${message}`);
    }
    assert.deepEqual(tab.problems, []);
  },
});

Deno.test({
  name:
    "the form shows a refusal that is not from the service, and a lost connection with its remedy",
  ignore: isMissing("CHROMIUM"),
  async fn() {
    await using page = await OpenPage.open();
    const { tab } = page;
    await tab.evaluate("fetch = () => Promise.reject(new TypeError()); 0");
    assert.equal(await create(tab, PLANT), "No reply");
    assert.equal(await tab.textOf("advice"), "Send the same request again.");
    for (const text of ["", "<html>", "null", "[]", '{"error":"a b"}']) {
      const reply = `new Response(${JSON.stringify(text)}, { status: 502 })`;
      await tab.evaluate(`fetch = async () => ${reply}; 0`);
      assert.match(await send(tab), /^502 in \d+ ms$/);
      assert.match(await tab.textOf("reply"), /^502\n/);
      assert.equal(
        await tab.textOf("message") + await tab.textOf("advice"),
        "",
      );
    }
    assert.deepEqual(tab.problems, []);
  },
});

Deno.test({
  name: "the form does not send a wrong id or token, but marks the input",
  ignore: isMissing("CHROMIUM"),
  async fn() {
    await using page = await OpenPage.open();
    const { tab, program } = page;
    const { id } = PLANT;
    assert.match(await create(tab, PLANT), /^200 /);
    const wrong = {
      id: ["", " ", "seven", `0${id}`, `${id},2`, `${id},"name":"x"`],
      token: ["", "a b", "é"],
    };
    const inputs = Object.entries(wrong)
      .flatMap(([field, texts]) => texts.map((text) => [field, text] as const));
    for (const [field, text] of inputs) {
      await fillIn(tab, { ...PLANT, name: "Pilea", [field]: text });
      await clickSend(tab);
      assert.deepEqual(await tab.evaluate(INVALID), [inputOf(field)], text);
      assert.equal(await tab.evaluate(FOCUSED), inputOf(field), text);
      // The reply to the earlier create is hidden.
      assert.equal(await tab.textOf("verdict"), "");
      assert.deepEqual(await tab.evaluate(PARTS), [false, true]);
    }
    // Only the earlier create was sent.
    const metrics = await (await program.get("/metrics")).text();
    const posts = metrics.matchAll(
      /^plant_store_http_requests_total\{.*method="post"\} (\d+)$/gm,
    );
    const sent = posts.reduce((sum, [, count]) => sum + Number(count), 0);
    assert.equal(sent, 1);
    const spaced = { ...PLANT, id: ` ${id} `, token: ` ${TOKEN} ` };
    assert.match(await create(tab, { ...spaced, name: "Pilea" }), /^409 /);
    assert.deepEqual(await tab.evaluate(PARTS), [true, false]);
    assert.deepEqual(tab.problems, []);
  },
});

Deno.test({
  name: "the form shows a curl call that sends the same create",
  ignore: isMissing("CHROMIUM", "curl"),
  async fn() {
    await using page = await OpenPage.open();
    const { tab } = page;
    const name = `Jack's $HOME \`id\` "pot" \\ \\\\" \t ! é`;
    const { token, tag } = PLANT;
    assert.match(await create(tab, { ...PLANT, name }), /^200 /);
    const curl = await tab.textOf("curl");
    // In single quotes, fish reads two backslashes as one, and tcsh replaces "!".
    assert.doesNotMatch(curl, /\\\\|!/);
    const reply = await runTool("sh", ["-c", curl.replace("-i", "-s")], {
      env: { ACCESS_TOKEN: token },
    });
    assert.deepEqual(JSON.parse(reply), { name, tag });
    // The prompt of a shell follows on a line of its own.
    assert.ok(reply.endsWith("}\n"));
    assert.deepEqual(tab.problems, []);
  },
});

Deno.test({
  name: "a copy button shows the result, then its label again",
  ignore: isMissing("CHROMIUM"),
  async fn() {
    await using page = await OpenPage.open();
    const { tab } = page;
    // The timers of the page fire at once.
    await tab.send("Emulation.setVirtualTimePolicy", { policy: "advance" });
    const labels = await tab.evaluate(`new Promise((resolve) => {
    const button = document.querySelector(".copy");
    const labels = [];
    new MutationObserver(() => {
      labels.push(button.textContent);
      if (labels.length === 2) resolve(labels.join());
    }).observe(button, { childList: true });
    button.click();
  })`);
    assert.match(`${labels}`, /^(Copied|Selected),Copy$/);
    assert.deepEqual(tab.problems, []);
  },
});

Deno.test({
  name: "the page keeps the token out of its text, address and storage",
  ignore: isMissing("CHROMIUM"),
  async fn() {
    await using page = await OpenPage.open();
    const { tab } = page;
    assert.match(await create(tab, PLANT), /^200 /);
    const traces = await tab.evaluate(
      "[document.documentElement.outerHTML, location.href, document.cookie, " +
        "JSON.stringify(localStorage), JSON.stringify(sessionStorage)].join()",
    );
    assert.ok(!`${traces}`.includes(TOKEN));
    // An input without a name is never part of an address.
    const named = await tab.evaluate('document.querySelector("input[name]")');
    assert.equal(named, null);
    const type = await tab.evaluate('document.getElementById("token").type');
    assert.equal(type, "password");
    assert.deepEqual(tab.problems, []);
  },
});

Deno.test({
  name:
    "the page forgets the token, the plant and the reply when the browser leaves it, also if it keeps the page",
  ignore: isMissing("CHROMIUM"),
  async fn() {
    await using page = await OpenPage.open();
    const { tab } = page;
    assert.match(await create(tab, PLANT), /^200 /);
    await tab.evaluate("globalThis.isKept = true; 0");
    const address = `${await tab.evaluate("location.href")}`;
    await tab.open(`${address}openapi.json`);
    await tab.goBack();
    assert.equal(await tab.evaluate("globalThis.isKept"), true);
    const values = await tab.evaluate(
      "[...document.querySelectorAll('input')].map(({ value }) => value).join('')",
    );
    assert.equal(values, "");
    assert.deepEqual(await tab.evaluate(PARTS), [false, true]);
    assert.deepEqual(tab.problems, []);
  },
});

Deno.test({
  name: "on paper, no sample is cut",
  ignore: isMissing("CHROMIUM"),
  async fn() {
    await using page = await OpenPage.open();
    const { tab } = page;
    // Longer than the part of a reply that a screen shows.
    const name = "M".repeat(5_000);
    assert.match(await create(tab, { ...PLANT, name }), /^200 /);
    await tab.print(390);
    const cut = await tab.evaluate(`[...document.querySelectorAll("pre")]
    .filter((pre) => pre.scrollWidth > pre.clientWidth ||
      pre.scrollHeight > pre.clientHeight).length`);
    assert.equal(cut, 0);
    assert.deepEqual(tab.problems, []);
  },
});

Deno.test({
  name:
    "the form works under a base URL with a path, and shows curl with the address of the page",
  ignore: isMissing("CHROMIUM"),
  async fn() {
    await using page = await OpenPage.open("/garden/api/");
    const { tab } = page;
    assert.match(await create(tab, PLANT), /^200 /);
    const origin = await tab.evaluate("location.origin");
    const curl = await tab.textOf("curl");
    assert.ok(curl.startsWith(`curl -i '${origin}/garden/api/plants' `), curl);
    assert.deepEqual(tab.problems, []);
  },
});

Deno.test({
  name:
    "the form takes neither a redirect nor a page of another program for a stored plant",
  ignore: isMissing("CHROMIUM"),
  async fn() {
    await using page = await OpenPage.open();
    const { tab, program } = page;
    const signIn = () =>
      new Response("sign in", { headers: { "Content-Type": "text/html" } });
    /** What a proxy in front of the service answers, one a create. */
    const answers = [
      () =>
        new Response(null, { status: 302, headers: { Location: "/login" } }),
      signIn,
    ];
    await using proxy = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen() {} },
      ({ method, url }) => {
        const { pathname } = new URL(url);
        if (pathname === "/login") return signIn();
        if (method === "POST") return answers.shift()?.() ?? signIn();
        return fetch(program.origin + pathname);
      },
    );
    await tab.open(`http://127.0.0.1:${proxy.addr.port}/`);
    for (
      const [verdict, advice] of [
        [/^Redirect in /, /^Nothing was stored\. .* redirects creates/],
        [/^200 /, /^A program in front of the service has replied/],
      ] as const
    ) {
      assert.match(await create(tab, PLANT), verdict);
      assert.match(await tab.textOf("advice"), advice);
      const kind = 'document.getElementById("outcome").className';
      assert.equal(await tab.evaluate(kind), "outcome refused");
    }
    assert.deepEqual(tab.problems, []);
  },
});

Deno.test({
  name: "axe-core finds no serious problem at two widths in two color schemes",
  ignore: isMissing("CHROMIUM", "AXE_CORE"),
  async fn() {
    await using page = await OpenPage.open();
    const { tab } = page;
    await tab.evaluate(Deno.readTextFileSync(pathOf("AXE_CORE")));
    for (const width of WIDTHS) {
      for (const colorScheme of COLOR_SCHEMES) {
        await tab.emulate(width, colorScheme);
        const refused = { ...PLANT, token: "wrong" };
        assert.match(await create(tab, refused), /^401 /);
        const found = await tab.evaluate(
          `axe.run().then(({ violations }) => violations
            .filter(({ impact }) => impact === "serious" || impact === "critical")
            .map(({ id, nodes }) => id + ": " + nodes.map(({ html }) => html)))`,
        );
        assert.deepEqual(found, [], `at ${width} pixels, ${colorScheme}`);
      }
    }
    assert.deepEqual(tab.problems, []);
  },
});
