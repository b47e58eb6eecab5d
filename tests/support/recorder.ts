/** Records what a program writes, syncs and replies, with strace. */
import assert from "node:assert/strict";
import { gunzipSync } from "node:zlib";
import { has, type ProgramOptions } from "./program.ts";
import { type Call, parseTrace } from "./strace.ts";
import { concatenate } from "./wire.ts";

/**
 * What a program did to the files below a directory, or sent. Paths start at
 * that directory.
 */
export type RecordedEvent =
  /** Opened a file, which is created if it is missing. */
  | {
    readonly kind: "open";
    readonly path: string;
    readonly truncates: boolean;
  }
  | {
    readonly kind: "write";
    readonly path: string;
    readonly offset: number;
    readonly bytes: Uint8Array<ArrayBuffer>;
  }
  | { readonly kind: "truncate"; readonly path: string; readonly size: number }
  | {
    readonly kind: "link" | "rename";
    readonly from: string;
    readonly path: string;
  }
  | { readonly kind: "unlink"; readonly path: string }
  /** A sync covers what was done before it started, once it has ended. */
  | {
    readonly kind: "sync started" | "sync ended";
    readonly path: string;
    readonly sync: number;
  }
  | { readonly kind: "reply"; readonly status: number; readonly body: string }
  | { readonly kind: "printed"; readonly text: string };

/** Everything that can change a file or its name, or send a reply. */
const CALLS = [
  ...["?open", "openat", "?openat2", "?creat", "write", "writev", "pwrite64"],
  ...["pwritev", "pwritev2", "?truncate", "?ftruncate", "fallocate", "fsync"],
  ...["fdatasync", "sync_file_range", "?rename", "?renameat", "renameat2"],
  ...["?unlink", "unlinkat", "?link", "linkat", "copy_file_range"],
  ...["?sendfile", "splice", "mmap", "sendto", "sendmsg", "io_uring_setup"],
];

/** More than any write has. */
const STRING_BYTES_MAX = 4_000_000;

/** `-D`: signals to the process reach the program, not strace. */
const OPTIONS = "-D -f -y -xx";

/** Other system calls do not stop the program. */
const AT_FULL_SPEED = "--seccomp-bpf";

/** Whether this machine has strace and permits it. */
export const CAN_RECORD = await has(
  "strace",
  ...[...OPTIONS.split(" "), AT_FULL_SPEED],
  ...["-o", "/dev/null", "-e", `trace=${CALLS.join(",")}`, "true"],
);

/** The index of a database is memory that processes share, not data. */
const INDEX = /-shm$/;

const FILE_DESCRIPTOR = /(\d+)<([^>]*)>/g;

const decoder = new TextDecoder();

/** The events of programs that ran one after the other. */
export class Recorder {
  readonly events: RecordedEvent[] = [];
  readonly #root: string;
  readonly #trace: string;
  #syncs = 0;

  /**
   * @param root the directory to observe, by its real path
   * @param trace the file for the output of strace
   */
  constructor(root: string, trace: string) {
    this.#root = root;
    this.#trace = trace;
  }

  /**
   * Returns how to start a program to be recorded.
   * @param injection a fault for strace to inject
   */
  options(injection?: string): ProgramOptions {
    const trace = `-e 'trace=${CALLS.join(",")}'`;
    // strace injects no signal into a program at full speed.
    const options = injection === undefined
      ? `${AT_FULL_SPEED} ${trace}`
      : `${trace} -e 'inject=${injection}'`;
    return {
      shell: `exec strace ${OPTIONS} -s ${STRING_BYTES_MAX} ` +
        `-o ${this.#trace} ${options} "$0" "$@"`,
    };
  }

  /** Adds the events of a program that was recorded and has ended. */
  collect(): void {
    const trace = Deno.readFileSync(this.#trace);
    Deno.removeSync(this.#trace);
    const tail = decoder.decode(trace.subarray(-200));
    assert.match(tail, /\+\+\+ (exited with|killed by) .*\n$/);
    const reader = new CallReader(this.#root, this.#syncs);
    for (const call of parseTrace(trace)) reader.add(call);
    this.#syncs = reader.syncs;
    const events = reader.events.toSorted((a, b) => a.at - b.at);
    for (const { event } of events) this.events.push(event);
  }
}

/** Turns the calls of one program into events. */
class CallReader {
  readonly events: { readonly at: number; readonly event: RecordedEvent }[] =
    [];
  syncs: number;
  readonly #root: string;
  /** Where a descriptor writes next, by its number. */
  readonly #positions = new Map<string, number>();
  /** What was sent of a reply, by connection. */
  readonly #replies = new Map<string, Uint8Array<ArrayBuffer>>();

  constructor(root: string, syncs: number) {
    this.#root = root;
    this.syncs = syncs;
  }

  add(call: Call): void {
    const { name, args, strings, result, startedAt, returnedAt } = call;
    const [descriptor = "", target = ""] = descriptorsOf(args)[0] ?? [];
    const path = this.#observed(target);
    if (target.startsWith("socket:")) this.#send(call, target);
    else if (name === "write" && /^[12]$/.test(descriptor)) {
      const text = decoder.decode(strings[0]);
      this.#push(startedAt, { kind: "printed", text });
    } else if (name === "fsync" || name === "fdatasync") {
      if (path === undefined) return;
      const sync = this.syncs++;
      this.#push(startedAt, { kind: "sync started", path, sync });
      // An injected delay appends "(DELAYED)".
      if (!/^0\b/.test(result ?? "")) return;
      this.#push(returnedAt, { kind: "sync ended", path, sync });
    } else if (result !== undefined && !result.startsWith("-1")) {
      const event = this.#toChange(call, result, path);
      if (event !== undefined) this.#push(returnedAt, event);
    }
  }

  #push(at: number, event: RecordedEvent): void {
    this.events.push({ at, event });
  }

  /** Returns a path in the observed directory, if it is one that counts. */
  #observed(path: string): string | undefined {
    const isObserved = path === this.#root || path.startsWith(`${this.#root}/`);
    return isObserved && !INDEX.test(path)
      ? path.slice(this.#root.length)
      : undefined;
  }

  /**
   * Returns the change that a call made.
   * @param path what its first argument refers to, if that is observed
   */
  #toChange(
    { name, args, strings }: Call,
    result: string,
    path: string | undefined,
  ): RecordedEvent | undefined {
    const [[descriptor = ""] = []] = descriptorsOf(args);
    const names = strings.map((it) => this.#observed(decoder.decode(it)));
    const count = parseInt(result);
    const last = Number(/(\d+)$/.exec(args)?.[1]);
    switch (name) {
      case "openat": {
        const [[opened = "", target = ""] = []] = descriptorsOf(result);
        const path = this.#observed(target);
        this.#positions.set(opened, 0);
        if (path === undefined || !/O_CREAT|O_TRUNC/.test(args)) return;
        assert.doesNotMatch(args, /O_APPEND|O_TMPFILE/);
        return { kind: "open", path, truncates: args.includes("O_TRUNC") };
      }
      case "pwrite64":
      case "write": {
        if (path === undefined) return;
        const bytes = strings[0]?.subarray(0, count);
        assert.equal(bytes?.length, count, "strace has truncated a write");
        const offset = name === "pwrite64"
          ? last
          : this.#advance(descriptor, count);
        return { kind: "write", path, offset, bytes };
      }
      case "ftruncate":
        if (path === undefined) return;
        return { kind: "truncate", path, size: last };
      case "link":
      case "linkat":
      case "rename":
      case "renameat":
      case "renameat2": {
        const [from, to] = names;
        if (from === undefined || to === undefined) {
          assert.equal(from, to, args);
          return;
        }
        const kind = name.startsWith("link") ? "link" : "rename";
        return { kind, from, path: to };
      }
      case "unlink":
      case "unlinkat": {
        const [path] = names;
        return path === undefined ? undefined : { kind: "unlink", path };
      }
      case "mmap": {
        const isWritten = /PROT_WRITE.*MAP_SHARED/.test(args);
        assert.ok(!isWritten || path === undefined, args);
        return;
      }
      default: {
        const isObserved = [path, ...names].some((it) => it !== undefined);
        const isSupported = !isObserved && name !== "io_uring_setup";
        assert.ok(isSupported, `${name} is not supported: ${args}`);
      }
    }
  }

  #advance(descriptor: string, bytes: number): number {
    const position = this.#positions.get(descriptor);
    assert.ok(position !== undefined, `${descriptor} was never opened`);
    this.#positions.set(descriptor, position + bytes);
    return position;
  }

  /** Adds a reply when its last part starts to leave. */
  #send(call: Call, connection: string): void {
    const { name, strings, result, startedAt } = call;
    if (!/^(sendto|write|writev|sendmsg)$/.test(name)) return;
    const count = parseInt(result ?? "0");
    if (count <= 0) return;
    const sent = concatenate(
      this.#replies.get(connection) ?? new Uint8Array(),
      concatenate(...strings).subarray(0, count),
    );
    const text = decoder.decode(sent);
    if (!text.startsWith("HTTP/1.1 ")) return;
    // The head is ASCII: its characters are bytes.
    const head = text.indexOf("\r\n\r\n") + 4;
    const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0);
    if (head < 4 || sent.length < head + length) {
      this.#replies.set(connection, sent);
      return;
    }
    assert.equal(sent.length, head + length, "two replies in one write");
    this.#replies.delete(connection);
    const status = Number(text.slice(9, 12));
    // Older versions of Deno compress long replies.
    const isCompressed = /content-encoding: gzip/i.test(text.slice(0, head));
    const sentBody = sent.subarray(head);
    const body = decoder.decode(isCompressed ? gunzipSync(sentBody) : sentBody);
    this.#push(startedAt, { kind: "reply", status, body });
  }
}

/** Returns the descriptors in some arguments, each with its target. */
function descriptorsOf(text: string): [descriptor: string, target: string][] {
  return [...text.matchAll(FILE_DESCRIPTOR)]
    .map(([, descriptor = "", target = ""]) => [descriptor, target]);
}
