import { afterAll, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { diskStorage } from "../../../src/features/storage/disk.ts";
import { createUrlSigner } from "../../../src/features/storage/signed-url.ts";
import { createKeyring } from "../../../src/kernel/crypto/secrets.ts";

const folder = mkdtempSync(join(tmpdir(), "stoa-disk-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const disk = diskStorage(folder, createUrlSigner(createKeyring("a".repeat(32)), Date.now));
const filesIn = (sub: string) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.parentPath.startsWith(join(folder, sub)))
    .map((entry) => entry.name);
const streamOf = (...chunks: string[]) => new Blob(chunks).stream();

test("[contract 9] an upload is readable only once it is kept, complete and hashed", async () => {
  const key = Bun.randomUUIDv7();
  const sha256 = await disk.receive(key, streamOf("hello ", "world"), 11);
  expect(sha256).toBe(createHash("sha256").update("hello world").digest("hex"));
  expect(await disk.read(key)).toBeNull();
  expect(await disk.holds(key, 11)).toBe(false);

  expect(await disk.keep(key)).toBe(true);
  expect(await (await disk.read(key))?.text()).toBe("hello world");
  expect(await disk.holds(key, 11)).toBe(true);
  expect(await disk.holds(key, 10)).toBe(false);
  expect(filesIn("incoming")).toEqual([]);

  await disk.remove(key);
  await disk.remove(key);
  expect(await disk.read(key)).toBeNull();
  expect(filesIn("objects")).toEqual([]);
});

test("[contract 9] an upload with a byte too few or too many, or a broken stream, leaves no file", async () => {
  const broken = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(new Uint8Array(5));
      setTimeout(() => controller.error(new Error("reset")), 5);
    },
  });
  for (const [body, size, status] of [
    [streamOf("12345"), 6, 400],
    [streamOf("12345"), 4, 413],
    [null, 1, 400],
    [broken, 10, 400],
  ] as const) {
    await expect(disk.receive(Bun.randomUUIDv7(), body, size)).rejects.toMatchObject({ status });
  }
  expect(filesIn("")).toEqual([]);
});

test("[contract 9] a stream past the declared size is not read to its end", async () => {
  let produced = 0;
  let cancelled = false;
  const endless = new ReadableStream<Uint8Array>({
    pull(controller) {
      produced += 1024;
      controller.enqueue(new Uint8Array(1024));
    },
    cancel() {
      cancelled = true;
    },
  });
  await expect(disk.receive(Bun.randomUUIDv7(), endless, 10_000)).rejects.toMatchObject({
    code: "SVC_ATTACHMENT_TOO_LARGE",
  });
  while (!cancelled) await Bun.sleep(1);
  expect(produced).toBeLessThan(20_000);
});

test("[contract 9] an upload that was removed while it arrived cannot be kept", async () => {
  const key = Bun.randomUUIDv7();
  await disk.receive(key, streamOf("x"), 1);
  await disk.remove(key);
  expect(await disk.keep(key)).toBe(false);
  expect(filesIn("")).toEqual([]);
});

test("[contract 9] after a crash, uploads known to the database are finished and all others removed", async () => {
  const [known, unknown] = [Bun.randomUUIDv7(), Bun.randomUUIDv7()];
  await disk.receive(known, streamOf("known"), 5);
  await disk.receive(unknown, streamOf("unknown"), 7);
  writeFileSync(join(folder, "incoming", "something else"), "");
  mkdirSync(join(folder, "incoming", "a folder"));

  expect(await disk.recover((key) => key === known)).toEqual({ kept: 1, removed: 3 });
  expect(await (await disk.read(known))?.text()).toBe("known");
  expect(readdirSync(join(folder, "incoming"))).toEqual([]);
  await disk.remove(known);
});

test("[contract 9] an object key that could be a path is refused", async () => {
  for (const key of [
    "../../stoa.db",
    "..",
    "",
    "a/b",
    "/etc/passwd",
    `${Bun.randomUUIDv7()}/..`,
    `${Bun.randomUUIDv7()}\0`,
  ]) {
    await expect(disk.read(key)).rejects.toThrow("not an object key");
    await expect(disk.receive(key, streamOf("x"), 1)).rejects.toThrow("not an object key");
    await expect(disk.remove(key)).rejects.toThrow("not an object key");
  }
  expect(filesIn("")).toEqual([]);
});
