import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FileSink } from "../../../src/sfu/recording/file-sink.ts";

const folder = mkdtempSync(join(tmpdir(), "stoa-sink-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Bytes that tell which file they are of and where they belong. */
function written(seed: number, length: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => (i * 31 + (i >> 8) * 7 + seed) & 0xff);
}

test("[18] a file holds what was appended, however many files share the buffer", async () => {
  const errors: Error[] = [];
  const files = Array.from({ length: 5 }, (_, seed) => {
    const path = join(folder, `${seed}.webm`);
    // The last writes at once, the others when a second has passed or enough has come.
    return {
      path,
      whole: written(seed, 900_000),
      at: 0,
      sink: new FileSink(path, (e) => errors.push(e), seed === 4 ? 0 : 60_000),
    };
  });
  for (let turn = 0; files.some(({ at, whole }) => at < whole.length); turn++) {
    for (const [seed, file] of files.entries()) {
      const length = Math.min(file.whole.length - file.at, (turn * 977 + seed * 131) % 90_000);
      const half = length >> 1;
      file.sink.append([
        { data: file.whole, at: file.at, length: half },
        { data: file.whole, at: file.at + half, length: length - half },
      ]);
      file.at += length;
      expect(file.sink.bytes).toBe(file.at);
    }
    // Some of it is being written while more comes.
    await Bun.sleep(0);
  }
  const patch = { position: 12_345, bytes: Uint8Array.of(1, 2, 3, 4) };
  await Promise.all(files.map(({ sink }) => sink.finish(Uint8Array.of(9, 9), [patch])));
  for (const { path, whole } of files) {
    const expected = Buffer.concat([whole, Uint8Array.of(9, 9)]);
    expected.set(patch.bytes, patch.position);
    expect(readFileSync(path).equals(expected)).toBe(true);
  }
  expect(errors).toEqual([]);
});

test("[18] a file that gets no new data is soon written to disk while it is still open", async () => {
  const path = join(folder, "soon.mp4");
  const sink = new FileSink(path, () => {}, 0);
  sink.append([{ data: written(7, 100), at: 0, length: 100 }]);
  const size = () => (Bun.file(path).size === 100 ? readFileSync(path) : null);
  while (!size()) await Bun.sleep(5);
  expect(size()?.equals(Buffer.from(written(7, 100)))).toBe(true);
  await sink.finish(new Uint8Array(0), []);
});

test("[18] a write error is reported once, and nothing more is buffered", async () => {
  const errors: string[] = [];
  const sink = new FileSink(join(folder, "missing/no.webm"), (error) => errors.push(error.message), 0);
  sink.append([{ data: written(1, 10), at: 0, length: 10 }]);
  while (errors.length === 0) await Bun.sleep(5);
  expect(sink.isFull).toBe(true);
  sink.append([{ data: written(1, 10), at: 0, length: 10 }]);
  await sink.finish(new Uint8Array(0), []);
  expect(errors).toHaveLength(1);
});
