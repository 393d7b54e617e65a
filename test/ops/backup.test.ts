import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import {
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { $ } from "bun";
import { tokensValidFrom } from "../../src/kernel/data-directory/installation.ts";
import { openDatabase } from "../../src/kernel/db/open.ts";
import { stoa } from "../cli/stoa.ts";
import { requireRoot } from "./machine.ts";
import { prepareData, type Served, served } from "./served.ts";

const work = mkdtempSync(join(tmpdir(), "stoa-backup-"));
const dataDir = join(work, "data");
const file = join(work, "one.tar");
const running: Served[] = [];
let room: string;
let attachment: string;
let epoch: string;

async function serve(): Promise<Served> {
  const server = await served(dataDir);
  running.push(server);
  return server;
}

beforeAll(async () => {
  await prepareData(dataDir);
  const server = await serve();
  room = await server.conversation("room", "alice");
  const { client, ack } = await server.member("alice", room);
  epoch = ack.epoch;
  await client.ask("message.send", { room, text: "before", clientMessageId: "1" });
  attachment = await server.upload(room, "alice", "the content");

  const made = await stoa(["backup", file, "--data-dir", dataDir]);
  expect([made.code, made.err]).toEqual([0, ""]);
  expect(made.out).toContain("with 1 attachments");

  await client.ask("message.send", { room, text: "after", clientMessageId: "2" });
  await server.upload(room, "alice", "too late");
}, 60_000);

afterEach(async () => {
  for (const server of running.splice(0)) if (server.child.exitCode === null) await server.stop();
});
afterAll(() => rmSync(work, { recursive: true, force: true }));

test("[11] a backup made beside a running server is a tar that other programs can check and only its owner can read", async () => {
  const unpacked = join(work, "unpacked");
  mkdirSync(unpacked);
  expect((await $`tar xf ${file} -C ${unpacked}`.nothrow().quiet()).exitCode).toBe(0);
  const checked = await $`sha256sum --check --strict checksums.txt`.cwd(unpacked).nothrow().quiet();
  expect(checked.exitCode).toBe(0);
  const names = (await $`tar tf ${file}`.text()).trim().split("\n");
  expect(names.slice(0, 4)).toEqual(["backup.json", "stoa.db", "secret", "sfu-secret"]);
  expect(names.slice(4)).toEqual([expect.stringMatching(/^attachments\/objects\//), "checksums.txt"]);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(readdirSync(work).filter((name) => name.includes("partial"))).toEqual([]);
});

test("[11] restore is refused while a server runs, and so is a second server", async () => {
  const server = await serve();
  const restored = await stoa(["restore", file, "--data-dir", dataDir]);
  expect(restored.code).toBe(1);
  expect(restored.err).toContain(`A server is running on ${dataDir} (process ${server.child.pid}, ${server.url})`);
  const second = await stoa(["serve", "--port", "0", "--media-udp-port", "0", "--data-dir", dataDir]);
  expect([second.code, second.err.includes("    at ")]).toEqual([1, false]);
  expect(second.err).toContain("A server is running on");
  expect(await server.texts(room, "alice")).toContain("after");
});

test("[11] restore brings back the data of the backup, notifies clients and keeps the replaced data", async () => {
  const checked = await stoa(["restore", file, "--check", "--data-dir", dataDir]);
  expect([checked.code, checked.out]).toEqual([0, expect.stringContaining("is whole")]);
  const restored = await stoa(["restore", file, "--data-dir", dataDir]);
  expect([restored.code, restored.err]).toEqual([0, ""]);
  const [aside = ""] = readdirSync(dataDir).filter((name) => name.startsWith("before-restore-"));
  expect(restored.out).toContain(join(dataDir, aside));
  expect(readdirSync(join(dataDir, aside))).toEqual(expect.arrayContaining(["stoa.db", "secret", "attachments"]));
  expect(readdirSync(dataDir).filter((name) => /^(restor|verifying)/.test(name))).toEqual([]);

  const server = await serve();
  expect(await server.texts(room, "alice")).toEqual(["before", null]);
  expect(await server.download(attachment, "alice")).toBe("the content");
  // The file of the deleted message is deleted too, so no unreferenced file is left.
  const files = readdirSync(join(dataDir, "attachments"), { recursive: true, encoding: "utf8" });
  expect(files.filter((name) => statSync(join(dataDir, "attachments", name)).isFile())).toHaveLength(1);
  const { ack } = await server.member("alice", room, { since: 2, epoch });
  expect(ack).toMatchObject({ type: "ack", recovered: false });
  expect(ack.epoch).not.toBe(epoch);
});

test("[11] files in a directory without a database are kept as well", async () => {
  const orphaned = join(work, "orphaned");
  mkdirSync(join(orphaned, "attachments"), { recursive: true });
  writeFileSync(join(orphaned, "attachments", "kept"), "somebody's");
  const restored = await stoa(["restore", file, "--data-dir", orphaned, "--json"]);
  expect([restored.code, restored.err]).toEqual([0, ""]);
  const { setAside } = JSON.parse(restored.out);
  expect(await Bun.file(join(setAside, "attachments", "kept")).text()).toBe("somebody's");

  const fresh = await stoa(["restore", file, "--data-dir", join(work, "fresh"), "--json"]);
  expect(JSON.parse(fresh.out).setAside).toBeNull();
  expect(readdirSync(join(work, "fresh")).filter((name) => name.startsWith("before-restore-"))).toEqual([]);
});

test("[11] a damaged backup is refused, and nothing is changed", async () => {
  const before = await $`find ${dataDir} -type f -exec sha256sum {} +`.text();
  const bytes = await Bun.file(file).bytes();
  const broken = join(work, "broken.tar");
  const flipped = (at: number) => {
    const copy = bytes.slice();
    copy[at] = (copy[at] ?? 0) ^ 1;
    return copy;
  };
  const damaged: [string, Uint8Array, string][] = [
    ["in the database", flipped(512 * 40), "stoa.db has changed"],
    ["in a header", flipped(3), "not a backup of Stoa"],
    ["in the list of checksums", flipped(bytes.length - 1024 - 512), "it is damaged"],
    ["cut off in the database", bytes.slice(0, 50_000), "ends too early"],
    ["cut off before its list", bytes.slice(0, bytes.length - 3072), "ends too early"],
    ["empty", new Uint8Array(), "ends too early"],
    ["something else", new TextEncoder().encode("hello".repeat(1000)), "not a backup of Stoa"],
  ];
  for (const [what, content, reason] of damaged) {
    await Bun.write(broken, content);
    const { code, err } = await stoa(["restore", broken, "--data-dir", dataDir]);
    expect([what, code, err]).toEqual([what, 1, expect.stringContaining(reason)]);
    expect(err).not.toContain("    at ");
  }
  const absent = await stoa(["restore", join(work, "absent.tar"), "--data-dir", join(work, "none")]);
  expect([absent.code, absent.out, absent.err]).toEqual([
    1,
    "",
    `stoa: there is no file ${join(work, "absent.tar")}\n`,
  ]);
  expect(existsSync(join(work, "none"))).toBe(false);
  expect(await $`find ${dataDir} -type f -exec sha256sum {} +`.text()).toBe(before);
}, 60_000);

test("[11] a backup with paths outside of the data directory writes none of them", async () => {
  const folder = join(work, "evil");
  mkdirSync(folder);
  writeFileSync(join(folder, "x"), "x");
  await $`tar cf ${join(work, "evil.tar")} --format=ustar --transform s,x,../escaped, x`.cwd(folder).quiet();
  const { code, err } = await stoa(["restore", join(work, "evil.tar"), "--data-dir", dataDir]);
  expect([code, err]).toEqual([1, expect.stringContaining("not a backup of Stoa")]);
  expect(existsSync(join(dataDir, "escaped"))).toBe(false);
});

test("[11] backup replaces a file only with --force, and reports when there is nothing to back up", async () => {
  const taken = join(work, "taken.tar");
  copyFileSync(file, taken);
  const refused = await stoa(["backup", taken, "--data-dir", dataDir]);
  expect([refused.code, refused.err]).toEqual([2, expect.stringContaining("--force")]);
  const replaced = await stoa(["backup", taken, "--force", "--json", "--data-dir", dataDir]);
  expect(JSON.parse(replaced.out)).toMatchObject({ file: taken, attachments: 1, elsewhere: 0 });
  const empty = await stoa(["backup", join(work, "empty.tar"), "--data-dir", join(work, "nowhere")]);
  expect([empty.code, empty.err]).toEqual([1, expect.stringContaining("no data in")]);
  expect(existsSync(join(work, "nowhere"))).toBe(false);
});

test("restore says first that tokens become invalid, and keeps them on request", async () => {
  const validFrom = (folder: string) => {
    const db = openDatabase(join(folder, "stoa.db"), { readonly: true });
    const from = tokensValidFrom(db);
    db.$client.close();
    return from;
  };
  const [voided, kept] = [join(work, "voided"), join(work, "kept")];
  const { out } = await stoa(["restore", file, "--data-dir", voided]);
  expect(out).toMatch(/^Tokens of end users that were minted until now become invalid/);
  expect(validFrom(voided)).toBeGreaterThan(0);
  const again = await stoa(["restore", file, "--keep-tokens", "--data-dir", kept]);
  expect(again.out).not.toContain("become invalid");
  expect(validFrom(kept)).toBe(0);
});

test("[11] files that root restores belong to the user who runs the server", async () => {
  requireRoot();
  const data = join(work, "owned");
  mkdirSync(data);
  await $`cp ${file} ${join(work, "root.tar")} && chmod 600 ${join(work, "root.tar")}`;
  const owner = Number((await $`id -u nobody`.text()).trim());
  const restore = () => stoa(["restore", join(work, "root.tar"), "--data-dir", data]);
  chownSync(data, owner, owner);
  // The first restore is into an empty folder, the second over existing data.
  for (const round of [1, 2]) {
    expect([round, (await restore()).code]).toEqual([round, 0]);
    for (const entry of readdirSync(data, { recursive: true, encoding: "utf8" })) {
      expect([entry, statSync(join(data, entry)).uid]).toEqual([entry, owner]);
    }
  }
}, 60_000);
