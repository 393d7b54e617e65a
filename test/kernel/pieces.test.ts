import { expect, test } from "bun:test";
import { createInPieces, type Pieces, writeJson } from "../../src/kernel/pieces.ts";

/** A loop whose clock only the work moves. */
function slowLoop() {
  let nowMs = 0;
  let scheduled: (() => void)[] = [];
  const inPieces = createInPieces(
    () => nowMs,
    (run) => scheduled.push(run),
  );
  return {
    inPieces,
    *work(name: string, pieces: number, did: string[], pieceMs = 0.3): Pieces<string> {
      for (let n = 0; n < pieces; n++) {
        did.push(name);
        nowMs += pieceMs;
        yield;
      }
      return `${name} is done`;
    },
    /** One turn; how long it took. */
    turn(): number {
      const before = nowMs;
      const due = scheduled;
      scheduled = [];
      for (const run of due) run();
      return nowMs - before;
    },
    get isIdle(): boolean {
      return scheduled.length === 0;
    },
  };
}

test("[17] long work takes a millisecond of a turn, and as many turns as it needs", async () => {
  const loop = slowLoop();
  const did: string[] = [];
  const done = loop.inPieces(loop.work("a", 100, did));
  expect(did).toEqual([]);
  let turns = 0;
  for (; !loop.isIdle; turns++) expect(loop.turn()).toBeLessThan(1.4);
  expect(turns).toBeGreaterThan(20);
  expect(await done).toBe("a is done");
  expect(did).toHaveLength(100);
});

test("[17] and a hundred of them take no more of a turn than one, each a piece after the other", async () => {
  const loop = slowLoop();
  const did: string[] = [];
  const all = Array.from({ length: 100 }, (_, n) => loop.inPieces(loop.work(String(n), 3, did)));
  while (!loop.isIdle) expect(loop.turn()).toBeLessThan(1.4);
  expect(new Set(did.slice(0, 100)).size).toBe(100);
  expect((await Promise.all(all)).length).toBe(100);
});

test("work that fails is refused, and the others go on", async () => {
  const loop = slowLoop();
  const did: string[] = [];
  const failing = loop.inPieces(
    (function* (): Pieces<string> {
      yield;
      throw new Error("no more");
    })(),
  );
  const other = loop.inPieces(loop.work("b", 2, did));
  while (!loop.isIdle) loop.turn();
  expect(failing).rejects.toThrow("no more");
  expect(await other).toBe("b is done");
});

test("JSON that is written in pieces is what is written at once", () => {
  const value = { a: { b: { c: [1, { d: null }], e: undefined }, 'f"g': "h" }, i: null, j: [undefined], k: {} };
  for (const levels of [1, 2, 3, 9]) {
    const writing = writeJson(value, levels);
    let step = writing.next();
    while (!step.done) step = writing.next();
    expect(step.value).toBe(JSON.stringify(value));
  }
});
