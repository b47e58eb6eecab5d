// @ts-check
/// <reference no-default-lib="true" />
/// <reference lib="esnext" />
/// <reference lib="dom" />
/// <reference lib="dom.iterable" />

/** How long a copy button shows the result. */
const COPIED_MS = 2_000;

/** Time to wait for a reply. */
const REPLY_MS_MAX = 20_000;

/** @param {string} id */
function byId(id) {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`no element ${id}`);
  return element;
}

/** @param {string} id */
function valueOf(id) {
  return /** @type {HTMLInputElement} */ (byId(id)).value;
}

const form = /** @type {HTMLFormElement} */ (byId("create"));
const sendButton = byId("send");

/**
 * Copies the code beside a button. Outside a secure context there is no
 * clipboard, so it selects the code instead.
 * @param {Element} button
 */
async function copyCode(button) {
  const code = button.closest("figure")?.querySelector("code");
  if (!code) return;
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection()?.selectAllChildren(code);
    button.textContent = "Selected";
  }
  setTimeout(() => button.textContent = "Copy", COPIED_MS);
}

/**
 * Returns the body of a create. The id is sent as it was typed: JavaScript rounds
 * ids beyond ±(2^53 - 1).
 */
function bodyText() {
  /** @type {NodeListOf<HTMLInputElement>} */
  const inputs = form.querySelectorAll("[data-member]");
  const members = [...inputs]
    .filter(({ dataset, value }) => !("optional" in dataset) || value !== "")
    .map(({ dataset, value }) => [dataset.member, value]);
  const plant = JSON.stringify(Object.fromEntries(members));
  return `{"id":${valueOf("member-id").trim()},${plant.slice(1)}`;
}

/**
 * Writes a character of a JSON string, perhaps after a backslash, as its number.
 * @param {string} characters
 */
function escapeJson(characters) {
  const code = characters.charCodeAt(0).toString(16);
  return String.raw`\u00${code}`;
}

/**
 * Returns the number and the message of a refusal, if a program in between has
 * not replied instead of the service.
 * @param {string} reply
 */
function readError(reply) {
  try {
    const { error, message = "" } = JSON.parse(reply);
    return { error, message: String(message) };
  } catch {
    return { error: undefined, message: "" };
  }
}

/**
 * Returns what to do about the reply of a proxy, such as a login page.
 * @param {Response} reply
 */
function adviceForProxy({ type, ok, headers }) {
  if (type === "opaqueredirect") {
    return "Nothing was stored. A program in front of the service redirects creates: open this page at the address where they should go, or sign in there first.";
  }
  const isJson = headers.get("Content-Type")?.startsWith("application/json");
  return ok && !isJson
    ? "A program in front of the service has replied instead, so the plant is probably not stored: ask the operator for the address of the service."
    : undefined;
}

/**
 * Shows the outcome of a create, or that nothing was sent.
 * @param {"" | "stored" | "refused"} kind
 */
function showOutcome(
  kind,
  { verdict = "", message = "", advice = "", reply = "" } = {},
) {
  byId("outcome").className = `outcome ${kind}`;
  byId("placeholder").hidden = kind !== "";
  byId("exchange").hidden = kind === "";
  const texts = { verdict, message, advice, reply };
  for (const [id, text] of Object.entries(texts)) byId(id).textContent = text;
  byId("status").scrollIntoView({ block: "nearest" });
}

/** Sends a create and shows request, reply and the same call as curl. */
async function create() {
  const body = bodyText();
  // Relative to this page, which may be served under any prefix.
  const path = location.pathname.replace(/\/?$/, "/plants");
  byId("sent").textContent = `POST ${path}
Authorization: Bearer ••••••
Content-Type: application/json

${body}`;
  // A JSON text with these escapes is one word in single quotes: sh ends it at a
  // quote, fish reads two backslashes as one, and tcsh replaces "!".
  const quoted = `'${body.replaceAll(/\\\\|[!']/g, escapeJson)}'`;
  const url = `'${(location.origin + path).replaceAll("'", "%27")}'`;
  byId("curl").textContent = String.raw`curl -i ${url} \
  -H "Authorization: Bearer $ACCESS_TOKEN" \
  -H 'Content-Type: application/json' \
  -d ${quoted} -w '\n'`;

  const startMs = performance.now();
  try {
    const reply = await fetch(location.origin + path, {
      method: "POST",
      headers: {
        "Authorization": `Bearer ${valueOf("token").trim()}`,
        "Content-Type": "application/json",
      },
      body,
      credentials: "omit",
      cache: "no-store",
      redirect: "manual",
      signal: AbortSignal.timeout(REPLY_MS_MAX),
    });
    const text = await reply.text();
    const ms = Math.round(performance.now() - startMs);
    const status = reply.type === "opaqueredirect"
      ? "Redirect"
      : `${reply.status} ${reply.statusText}`.trim();
    const proxyAdvice = adviceForProxy(reply);
    const headers = [...reply.headers].map((header) => header.join(": "));
    const { error, message } = readError(text);
    const row = document.getElementById(`error-${error}`);
    const isStored = reply.ok && proxyAdvice === undefined;
    showOutcome(isStored ? "stored" : "refused", {
      verdict: `${status} in ${ms} ms`,
      message,
      advice: proxyAdvice ?? row?.querySelector(".remedy")?.textContent ?? "",
      reply: [status, ...headers, "", text].join("\n"),
    });
  } catch (error) {
    showOutcome("refused", {
      verdict: "No reply",
      advice: "Send the same request again.",
      reply: String(error),
    });
  }
}

for (const button of document.querySelectorAll(".copy")) {
  button.addEventListener("click", () => copyCode(button));
}

// The browser marks the input and says what it expects.
form.addEventListener("invalid", () => showOutcome(""), { capture: true });

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (sendButton.ariaDisabled === "true") return;
  sendButton.ariaDisabled = "true";
  await create();
  sendButton.ariaDisabled = null;
});

// The browser may keep the page to go back to it, but not the token.
addEventListener("pagehide", () => {
  form.reset();
  showOutcome("");
  for (const id of ["sent", "curl"]) byId(id).textContent = "";
});
