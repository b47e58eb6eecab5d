/** Sample creates in several languages, for the page and the banner. */
import { EXAMPLES, ID_NAME, RETRY_STATUSES } from "./api.ts";

/** Tries of a sample, including the first. */
const TRIES = 5;

/** Time for a try: more than the service takes for a body and a commit. */
const TRY_S = 20;

const { id, plant } = EXAMPLES.tagged;

/** The example as a literal, which is the same in JSON and in Python. */
const PLANT_LITERAL = toLiteral(plant);
const NEW_PLANT_LITERAL = toLiteral({ [ID_NAME]: id, ...plant });

/** Status 0 is the lack of a reply. */
const RETRIED = [0, ...RETRY_STATUSES].join(", ");

function toLiteral(members: Readonly<Record<string, string | bigint>>): string {
  const parts = Object.entries(members).map(([name, value]) =>
    `"${name}": ${typeof value === "bigint" ? value : JSON.stringify(value)}`
  );
  return `{${parts.join(", ")}}`;
}

function urlLiteral(baseUrl: string): string {
  return JSON.stringify(`${baseUrl}/plants`);
}

/** Returns a text as one word of a POSIX shell. */
function quoteForShell(text: string): string {
  return /^[\w:/.-]+$/.test(text)
    ? text
    : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** Returns a create with curl up to its body. */
export function curlBeforeBody(
  baseUrl: string,
  token = "$ACCESS_TOKEN",
): string {
  return String.raw`curl -i ${quoteForShell(`${baseUrl}/plants`)} \
  -H "Authorization: Bearer ${token}" \
  -H 'Content-Type: application/json' \
  -d `;
}

/** Returns a create with curl, without retries. */
export function curlSample(baseUrl: string, token?: string): string {
  return `${curlBeforeBody(baseUrl, token)}'${NEW_PLANT_LITERAL}'`;
}

function curlRetrySample(baseUrl: string): string {
  return String.raw`${curlSample(baseUrl)} \
  --retry ${TRIES - 1} --retry-all-errors --max-time ${TRY_S}`;
}

function typescriptSample(baseUrl: string): string {
  return `// Node.js 24, or: deno run --allow-net --allow-env create.ts
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";

const id = ${id}n; // a bigint is exact above 2 ** 53
const plant = ${PLANT_LITERAL};

// JSON.stringify() refuses a bigint, so the id is written before the plant.
const body = \`{"${ID_NAME}":\${id},\${JSON.stringify(plant).slice(1)}\`;

async function send() {
  try {
    const reply = await fetch(${urlLiteral(baseUrl)}, {
      method: "POST",
      headers: {
        "Authorization": \`Bearer \${process.env.ACCESS_TOKEN}\`,
        "Content-Type": "application/json",
      },
      body,
      signal: AbortSignal.timeout(${TRY_S}_000),
    });
    const after = Number(reply.headers.get("Retry-After"));
    return { status: reply.status, after, text: await reply.text() };
  } catch (error) {
    return { status: 0, after: 0, text: String(error) }; // no reply
  }
}

let reply = await send();
for (let tries = 1; tries < ${TRIES}; tries++) {
  if (![${RETRIED}].includes(reply.status)) break;
  await sleep(1000 * (reply.after || 2 ** tries * Math.random()));
  reply = await send();
}
if (reply.status !== 200) throw new Error(reply.text);
console.log(reply.text);`;
}

function pythonSample(baseUrl: string): string {
  return `import http.client, json, os, random, time, urllib.error, urllib.request

plant = ${NEW_PLANT_LITERAL}
request = urllib.request.Request(
    ${urlLiteral(baseUrl)},
    data=json.dumps(plant).encode(),
    headers={
        "Authorization": f"Bearer {os.environ['ACCESS_TOKEN']}",
        "Content-Type": "application/json",
    },
)

def send():
    try:
        try:
            reply = urllib.request.urlopen(request, timeout=${TRY_S})
        except urllib.error.HTTPError as refusal:
            reply = refusal
        after = reply.headers.get("Retry-After", "0")
        return reply.status, int(after), reply.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return 0, 0, str(error)  # no reply

status, after, text = send()
for tries in range(1, ${TRIES}):
    if status not in (${RETRIED}):
        break
    time.sleep(after or 2**tries * random.random())
    status, after, text = send()
if status != 200:
    raise SystemExit(text)
print(text)`;
}

function goSample(baseUrl: string): string {
  return `package main

import (
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

const url = ${urlLiteral(baseUrl)}
const plant = \`${NEW_PLANT_LITERAL}\`

var client = http.Client{Timeout: ${TRY_S} * time.Second}

func send() (status, after int, text string) {
	request, err := http.NewRequest("POST", url, strings.NewReader(plant))
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("ACCESS_TOKEN"))
	request.Header.Set("Content-Type", "application/json")
	reply, err := client.Do(request)
	if err != nil {
		return 0, 0, err.Error() // no reply
	}
	defer reply.Body.Close()
	bytes, err := io.ReadAll(reply.Body)
	if err != nil {
		return 0, 0, err.Error()
	}
	after, _ = strconv.Atoi(reply.Header.Get("Retry-After"))
	return reply.StatusCode, after, string(bytes)
}

func main() {
	status, after, text := send()
	for tries := 1; tries < ${TRIES} && slices.Contains([]int{${RETRIED}}, status); tries++ {
		pause := rand.N(time.Second << tries)
		if after > 0 {
			pause = time.Duration(after) * time.Second
		}
		time.Sleep(pause)
		status, after, text = send()
	}
	if status != 200 {
		log.Fatal(text)
	}
	fmt.Println(text)
}`;
}

/** Returns the samples by language, for a base URL without a trailing slash. */
export function samples(baseUrl: string): Readonly<Record<string, string>> {
  return {
    curl: curlRetrySample(baseUrl),
    TypeScript: typescriptSample(baseUrl),
    Python: pythonSample(baseUrl),
    Go: goSample(baseUrl),
  };
}
