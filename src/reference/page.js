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

const JSON_NUMBER = /^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$/;

const TOKEN = /^[\x21-\x7e]*$/;

/** @param {string} id */
function byId(id) {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`no element ${id}`);
  return element;
}

/** @param {string} id */
function inputById(id) {
  const element = byId(id);
  if (element instanceof HTMLInputElement) return element;
  throw new Error(`${id} is not an input`);
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
 * Shows the problem of an input, if any.
 * @param {string} id
 * @param {string} problem empty if the input is valid
 */
function validate(id, problem) {
  const input = inputById(id);
  byId(`${id}-problem`).textContent = problem;
  input.setAttribute("aria-invalid", String(problem !== ""));
  if (problem !== "") input.focus();
  return problem === "";
}

/**
 * Returns the body of a create. The id is sent as it was typed: a JavaScript
 * number would round it above 2 ** 53.
 * @param {string} id
 * @param {string} name
 * @param {string} tag
 */
function bodyText(id, name, tag) {
  const members = [`"id":${id}`, `"name":${JSON.stringify(name)}`];
  if (tag !== "") members.push(`"tag":${JSON.stringify(tag)}`);
  return `{${members.join(",")}}`;
}

/** @param {string} text */
function quoteForShell(text) {
  if (/^[\w:/.-]+$/.test(text)) return text;
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/**
 * @param {string} url
 * @param {boolean} hasToken
 * @param {string} body
 */
function curlCall(url, hasToken, body) {
  return [
    `curl ${quoteForShell(url)}`,
    ...(hasToken ? ['-H "Authorization: Bearer $ACCESS_TOKEN"'] : []),
    "-H 'Content-Type: application/json'",
    `-d ${quoteForShell(body)}`,
  ].join(" \\\n  ");
}

/**
 * Shows the outcome of a create.
 * @param {"stored" | "refused"} kind
 * @param {string} verdict
 * @param {string} advice
 * @param {string} reply
 */
function showOutcome(kind, verdict, advice, reply) {
  byId("placeholder").hidden = true;
  byId("outcome").className = `outcome ${kind}`;
  byId("verdict").textContent = verdict;
  byId("verdict").hidden = false;
  byId("advice").textContent = advice;
  byId("advice").hidden = advice === "";
  byId("reply").textContent = reply;
  byId("exchange").hidden = false;
  byId("verdict").scrollIntoView({ block: "nearest" });
}

/** Hides the outcome of an earlier create. */
function hideOutcome() {
  byId("placeholder").hidden = false;
  byId("outcome").className = "outcome";
  for (const id of ["verdict", "advice", "exchange"]) byId(id).hidden = true;
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
  /** @type {Record<string, string>} */
  const headers = { "Content-Type": "application/json" };
  if (token !== "") headers["Authorization"] = `Bearer ${token}`;
  // Relative to this page, which may be served under any prefix.
  const path = location.pathname.replace(/\/?$/, "/plants");
  byId("sent").textContent = [
    `POST ${path}`,
    ...(token === "" ? [] : ["Authorization: Bearer ••••••"]),
    "Content-Type: application/json",
    "",
    body,
  ].join("\n");
  const url = form.dataset.url ?? "";
  byId("curl").textContent = curlCall(url, token !== "", body);

  const startMs = performance.now();
  try {
    const reply = await fetch(location.origin + path, {
      method: "POST",
      headers,
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
let isSending = false;

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (isSending) return;
  const token = inputById("token").value.trim();
  const id = inputById("id").value.trim();
  const isIdValid = validate(
    "id",
    JSON_NUMBER.test(id)
      ? ""
      : "Write the id as a number, without a leading zero.",
  );
  const isTokenValid = validate(
    "token",
    TOKEN.test(token)
      ? ""
      : "A token has no spaces and no characters beyond ASCII.",
  );
  if (!isIdValid || !isTokenValid) {
    hideOutcome();
    return;
  }
  isSending = true;
  sendButton.setAttribute("aria-disabled", "true");
  const { value: name } = inputById("name");
  await create(token, bodyText(id, name, inputById("tag").value));
  isSending = false;
  sendButton.removeAttribute("aria-disabled");
});
