/** The blocks of commands in the handbook and the pages beside it, each by a name. */
import assert from "node:assert/strict";
import { blocksIn } from "./readme.ts";

/** Returns a function that finds a block of a page. */
function blocksOf(page: string) {
  const blocks = blocksIn(page);
  /**
   * Returns the only block that fits.
   * @param heading the start of the heading above it
   * @param words words that it has, and no other block below the heading
   */
  return (heading: string, words = ""): string => {
    const [found, ...others] = blocks.filter((it) =>
      it.heading.startsWith(heading) && it.text.includes(words)
    );
    const what = `with "${words}" below "${heading}" in ${page}`;
    assert.ok(found !== undefined, `no block ${what}`);
    assert.deepEqual(others, [], `more than one block ${what}`);
    return found.text;
  };
}

const handbook = blocksOf("src/deploy/README.md");

export const HANDBOOK = {
  GET: handbook("1. Get the program"),
  INSTALL: handbook("2. Install it"),
  CREATE_STORE: handbook("3. Create the store"),
  START: handbook("4. Start it"),
  CREATE_PLANT: handbook("5. Create the first plant"),
  SHOW_STATE: handbook("The state"),
  GET_CERTIFICATE: handbook("With nginx", "certbot"),
  COPY_NGINX: handbook("With nginx", "cp "),
  SERVE_WITH_NGINX: handbook("With nginx", "nginx -t"),
  TRY_NGINX: handbook("With nginx", "curl"),
  COPY_CERTIFICATE: handbook("Without nginx"),
  APPLY_SETTINGS: handbook("Settings"),
  ADD_TOKEN: handbook("Tokens", "openssl rand"),
  LOAD_TOKENS: handbook("Tokens", "systemctl reload"),
  COUNT_REQUESTS: handbook("Tokens", "curl"),
  BACK_UP: handbook("Upgrade", "plant-store-backup"),
  UPGRADE: handbook("Upgrade", "deploy/install"),
  READ_EVERY_PLANT: handbook("Upgrade", "plants export"),
  LIST_BACKUPS: handbook("Back up", "ls -l"),
  KEY_LINE: handbook("Back up", "restrict"),
  COPY_BACKUPS: handbook("Back up", "install"),
  COUNT_PLANTS: handbook("Back up", "zcat"),
  REPLACE: handbook("Correct", "plants replace"),
  REMOVE: handbook("Correct", "plants remove"),
  FSTAB_LINE: handbook("Another disk", "UUID="),
  SAVE_STORE: handbook("Another disk", "plants export"),
  USE_DISK: handbook("Another disk", "daemon-reload"),
  RESTORE_ON_DISK: handbook("Another disk", "plants-restore"),
  DELETE_MOVED_STORE: handbook("Another disk", "rm -rv"),
  INSTALL_MACHINE: handbook("Another machine", "deploy/install"),
  RESTORE_MACHINE: handbook("Another machine", "plants-restore"),
  RESTORE: handbook("Restore", "plants-restore"),
  DELETE_OLD_STORES: handbook("Restore", "rm -r"),
  ADD_REMOVED: handbook("An earlier state", "grep -E"),
  UNDO_REPLACEMENT: handbook("An earlier state", "plants replace"),
  STOP: handbook("An earlier state", "systemctl stop"),
  RESTORE_FILE: handbook("An earlier state", "plants-restore"),
  ADD_STORE: handbook("An earlier state", "old-DATE"),
  READ_JOURNAL: handbook("If something is wrong"),
  SAVE: handbook("A disk that fails", "mkdir"),
  RESTORE_SAVED: handbook("A disk that fails", "plants-restore"),
};

const container = blocksOf("src/deploy/container/README.md");

export const CONTAINER = {
  PUT: container("Deploy", "install -d -m 700 /srv"),
  MAKE_TOKEN: container("Deploy", "openssl rand"),
  BUILD: container("Deploy", "docker build"),
  CREATE_STORE: container("Deploy", "--kv-create"),
  START: container("Deploy", "up -d --wait"),
  CREATE_PLANT: container("Deploy", "curl"),
  PRINT_STATUS: container("Status"),
  APPLY_SETTINGS: container("Settings"),
  ADD_TOKEN: container("Tokens", "openssl rand"),
  LOAD_TOKENS: container("Tokens", "kill -s HUP"),
  INSTALL_BACKUP: container("Back up", "printf"),
  BACK_UP: container("Back up", "ls -l"),
  READ_OLD_STORE: container("Restore", "wc -l"),
  MAKE_VOLUME: container("Restore", "docker volume create $store"),
  IMPORT_OLD_STORE: container("Restore", "- < $old"),
  IMPORT_BACKUP: container("Restore", 'zcat "$(ls'),
  USE_NEW_STORE: container("Restore", "echo STORE="),
  READ_BACKUP: container("Restore", "earlier.jsonl"),
  MAKE_VOLUME_ON_DISK: container("Another disk"),
  CORRECT: container("Everything else"),
};

const kvConnect = blocksOf("src/deploy/kv-connect/README.md");

export const KV_CONNECT = {
  NAME_SERVER: kvConnect("Move from a file", "read -rsp"),
  COPY: kvConnect("Move from a file", "plants export"),
  USE_SERVER: kvConnect("Move from a file", "plants check"),
  NGINX_LINES: kvConnect("Run several"),
};

const litestream = blocksOf("src/deploy/litestream/README.md");

export const LITESTREAM = {
  INSTALL: litestream("Install it", "install -m 755"),
  START: litestream("Install it", "systemctl"),
  TRY: litestream("Try the copy"),
  RESTORE: litestream("Restore the copy"),
  BEGIN_NEW_COPY: litestream("Begin a new copy"),
};

const prometheus = blocksOf("src/deploy/prometheus/README.md");

export const PROMETHEUS = {
  COPY_TOKEN_AND_ALERTS: prometheus("Scrape", "install"),
  CHECK_AND_RESTART: prometheus("Scrape", "promtool"),
};
