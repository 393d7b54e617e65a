import { afterEach, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beginExchange, finishExchange } from "../../src/kernel/data-directory/data-exchange.ts";
import { mountSmall } from "./machine.ts";

const OLD = ["stoa.db-wal", "stoa.db-shm", "stoa.db", "secret", "sfu-secret", "attachments"];
const NEW = ["stoa.db", "secret", "attachments"];

let dataDir = "";
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

function fill(folder: string, names: string[], content: string): void {
  mkdirSync(folder, { recursive: true });
  for (const name of names) writeFileSync(join(folder, name), content);
}

function prepare(): void {
  dataDir = mkdtempSync(join(tmpdir(), "stoa-exchange-"));
  fill(dataDir, OLD, "old");
  fill(dataDir, ["serve.lock"], "stays");
  fill(join(dataDir, "from"), NEW, "new");
}

const note = (step: string) =>
  writeFileSync(join(dataDir, "restore.json"), JSON.stringify({ step, from: "from", aside: "aside" }));

function expectExchanged(): void {
  for (const name of NEW) expect([name, readFileSync(join(dataDir, name), "utf8")]).toEqual([name, "new"]);
  for (const name of OLD) expect([name, readFileSync(join(dataDir, "aside", name), "utf8")]).toEqual([name, "old"]);
  expect(readdirSync(dataDir).sort()).toEqual(["aside", "attachments", "secret", "serve.lock", "stoa.db"]);
}

test("[11] the old data is set aside with its write-ahead log, and the new data replaces it", () => {
  prepare();
  beginExchange(dataDir, "from", "aside");
  expectExchanged();
  finishExchange(dataDir);
  expectExchanged();
});

test("[11] an exchange that was interrupted after any of its steps is finished by the next process that opens the data", () => {
  for (let moved = 0; moved <= OLD.length; moved++) {
    prepare();
    note("set aside");
    mkdirSync(join(dataDir, "aside"));
    for (const name of OLD.slice(0, moved)) renameSync(join(dataDir, name), join(dataDir, "aside", name));
    finishExchange(dataDir);
    expectExchanged();
    rmSync(dataDir, { recursive: true });
  }
  for (let moved = 0; moved <= NEW.length; moved++) {
    prepare();
    note("put in place");
    mkdirSync(join(dataDir, "aside"));
    for (const name of OLD) renameSync(join(dataDir, name), join(dataDir, "aside", name));
    for (const name of NEW.slice(0, moved)) renameSync(join(dataDir, "from", name), join(dataDir, name));
    finishExchange(dataDir);
    expectExchanged();
    rmSync(dataDir, { recursive: true });
  }
});

test("[11] when a file cannot be moved, all of them stay where they were", async () => {
  prepare();
  rmSync(join(dataDir, "attachments"));
  mkdirSync(join(dataDir, "attachments"));
  const unmount = await mountSmall(join(dataDir, "attachments"), "64k");
  try {
    expect(() => beginExchange(dataDir, "from", "aside")).toThrow("EBUSY");
  } finally {
    await unmount();
  }
  for (const name of OLD.slice(0, -1)) expect(readFileSync(join(dataDir, name), "utf8")).toBe("old");
  expect(existsSync(join(dataDir, "restore.json"))).toBe(false);
});
