// @ts-check
/// <reference no-default-lib="true" />
/// <reference lib="esnext" />
/// <reference lib="dom" />
/// <reference lib="dom.iterable" />

/** Time to wait for a reply. */
const REPLY_MS_MAX = 20_000;

/** How long a copy button shows the result. */
const COPIED_MS = 2_000;

/** @param {string} id */
function byId(id) {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`no element ${id}`);
  return element;
}

const form = byId("create");
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
 * Returns the body of a create. An integer is sent as it was typed: a
 * JavaScript number would round it above 2 ** 53.
 */
function bodyText() {
  /** @type {NodeListOf<HTMLInputElement>} */
  const inputs = form.querySelectorAll("[data-member]");
  const members = [...inputs]
    .filter(({ value, dataset }) => value !== "" || !("optional" in dataset))
    .map(({ value, dataset: { member, type } }) => {
      const text = type === "integer" ? value.trim() : JSON.stringify(value);
      return `"${member}":${text}`;
    });
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

/** Sends a create and shows request, reply and the same call as curl. */
async function create() {
  const body = bodyText();
  // Relative to this page, which may be served under any prefix.
  const path = location.pathname.replace(/\/?$/, "/plants");
  byId("sent").textContent = `POST ${path}
Authorization: Bearer ••••••
Content-Type: application/json

${body}`;
  // A JSON text with this escape is one word of the shell in single quotes.
  const quoted = `'${body.replaceAll("'", String.raw`\u0027`)}'`;
  byId("curl").textContent = form.dataset.curl + quoted;

  const token = /** @type {HTMLInputElement} */ (byId("token")).value.trim();
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
    const headers = [...reply.headers].map((header) => header.join(": "));
    const [, error] = /"error":(\d+)/.exec(text) ?? [];
    const remedy = document.querySelector(`#error-${error} .remedy`);
    showOutcome(
      reply.ok ? "stored" : "refused",
      `${status} in ${ms} ms`,
      reply.ok ? "" : remedy?.textContent ?? "",
      [status, ...headers, "", text].join("\n"),
    );
  } catch (error) {
    const advice = "Send the same request again.";
    showOutcome("refused", "No reply", advice, String(error));
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
