// @ts-check
/// <reference no-default-lib="true" />
/// <reference lib="esnext" />
/// <reference lib="dom" />
/// <reference lib="dom.iterable" />

/** Time to wait for a reply. */
const REPLY_MS_MAX = 30_000;

/** How long a copy button shows the result. */
const COPIED_MS = 2_000;

/** Headers of a reply to show. */
const SHOWN_HEADERS = ["WWW-Authenticate", "Retry-After", "Content-Type"];

/**
 * What to enter in inputs of a type, of which not everything can be sent.
 * @type {Record<string, { pattern: RegExp, expected: string }>}
 */
const RULES = {
  integer: {
    pattern: /^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$/,
    expected: "a number without leading zeros",
  },
  token: {
    pattern: /^[\x21-\x7e]+$/,
    expected: "ASCII characters without spaces",
  },
};

/** @param {string} id */
function byId(id) {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`no element ${id}`);
  return element;
}

/**
 * Copies the code beside a button. Outside a secure context there is no
 * clipboard, so it selects the code instead.
 * @param {Element} button
 * @param {string} label the HTML that the button shows afterwards
 */
async function copyCode(button, label) {
  const code = button.closest("figure")?.querySelector("code");
  if (!code) return;
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection()?.selectAllChildren(code);
    button.textContent = "Selected";
  }
  setTimeout(() => button.innerHTML = label, COPIED_MS);
}

/**
 * Shows the problem of an input, if any, and returns whether it has one.
 * @param {HTMLInputElement} input
 */
function hasProblem(input) {
  const rule = RULES[input.dataset.type ?? ""];
  const text = input.value.trim();
  let problem = "";
  if (rule !== undefined && !rule.pattern.test(text)) {
    problem = text === ""
      ? `The ${input.id} is empty.`
      : `Expected ${rule.expected}.`;
  }
  byId(`${input.id}-problem`).textContent = problem;
  input.setAttribute("aria-invalid", String(problem !== ""));
  return problem !== "";
}

/**
 * Returns the body of a create. An integer is sent as it was typed: a
 * JavaScript number would round it above 2 ** 53.
 */
function bodyText() {
  const members = inputs
    .filter(({ dataset }) => dataset.type !== "token")
    .filter(({ value, dataset }) => value !== "" || !("optional" in dataset))
    .map(({ id, value, dataset }) =>
      dataset.type === "integer"
        ? `"${id}":${value.trim()}`
        : `"${id}":${JSON.stringify(value)}`
    );
  return `{${members.join(",")}}`;
}

/**
 * Shows the outcome of a create; without a verdict, that nothing was sent.
 * @param {"" | "stored" | "refused"} kind
 */
function showOutcome(kind, verdict = "", advice = "", reply = "") {
  byId("outcome").className = `outcome ${kind}`;
  byId("placeholder").hidden = verdict !== "";
  byId("exchange").hidden = verdict === "";
  byId("verdict").textContent = verdict;
  byId("advice").textContent = advice;
  byId("reply").textContent = reply;
  byId("verdict").scrollIntoView({ block: "nearest" });
}

/**
 * Returns the advice for an error, from the table of replies.
 * @param {string} text the body of the reply
 */
function adviceFor(text) {
  try {
    const row = byId(`error-${JSON.parse(text).error}`);
    return row.querySelector(".remedy")?.textContent ?? "";
  } catch {
    return "";
  }
}

/**
 * Sends a create and shows request, reply and the same call as curl.
 * @param {string} token
 * @param {string} body
 */
async function create(token, body) {
  // Relative to this page, which may be served under any prefix.
  const path = location.pathname.replace(/\/?$/, "/plants");
  byId("sent").textContent = `POST ${path}
Authorization: Bearer ••••••
Content-Type: application/json

${body}`;
  // A JSON text with this escape is one word of the shell in single quotes.
  const quoted = `'${body.replaceAll("'", String.raw`\u0027`)}'`;
  byId("curl").textContent = form.dataset.curl + quoted;

  const startMs = performance.now();
  try {
    const reply = await fetch(location.origin + path, {
      method: "POST",
      headers: {
        "Authorization": `Bearer ${token}`,
        "Content-Type": "application/json",
      },
      body,
      credentials: "omit",
      cache: "no-store",
      signal: AbortSignal.timeout(REPLY_MS_MAX),
    });
    const text = await reply.text();
    const ms = Math.round(performance.now() - startMs);
    const status = `${reply.status} ${reply.statusText}`.trim();
    const lines = SHOWN_HEADERS.filter((name) => reply.headers.has(name))
      .map((name) => `${name}: ${reply.headers.get(name)}`);
    showOutcome(
      reply.ok ? "stored" : "refused",
      `${status} in ${ms} ms`,
      reply.ok ? "" : adviceFor(text),
      [status, ...lines, "", text].join("\n"),
    );
  } catch (error) {
    const advice = "Send the same request again.";
    showOutcome("refused", "No reply", advice, String(error));
  }
}

for (const button of document.querySelectorAll(".copy")) {
  const label = button.innerHTML;
  button.addEventListener("click", () => copyCode(button, label));
}

const form = byId("create");
const sendButton = byId("send");
const inputs = [...form.querySelectorAll("input")];

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (sendButton.ariaDisabled === "true") return;
  const [invalid] = inputs.filter(hasProblem);
  if (invalid !== undefined) {
    showOutcome("");
    invalid.focus();
    return;
  }
  sendButton.ariaDisabled = "true";
  const token = inputs.find(({ id }) => id === "token")?.value.trim() ?? "";
  await create(token, bodyText());
  sendButton.ariaDisabled = null;
});
