import { expect, test } from "bun:test";
import { Turns } from "../../src/kernel/socket/turns.ts";

const nextTurn = () => new Promise<void>((done) => setImmediate(done));

/** Sockets whose frames write down what was heard; each frame takes a millisecond of a clock that only they move. */
function world() {
  const heard: string[] = [];
  let now = 0;
  const turns = new Turns(() => now);
  const socket = (name: string, framesPerWindow?: number) => {
    let floods = 0;
    const hear = (what: string) => {
      heard.push(name + what);
      now += 1;
    };
    const speaker = turns.speaker<{ length: number; what: string }>({
      hear: ({ what }) => hear(what),
      kept: (frame) => frame,
      framesPerWindow: () => framesPerWindow,
      flooded() {
        floods++;
        if (framesPerWindow !== undefined) speaker.forget();
      },
    });
    return {
      say: (n: number | string, bytes = 10) => speaker.say({ length: bytes, what: `${n}` }),
      end: () => speaker.end(() => hear("end")),
      forget: () => speaker.forget(),
      floods: () => floods,
    };
  };
  return { heard, socket };
}

test("[4] a flood is heard a few frames at a time, in its order, and others between them", async () => {
  const { heard, socket } = world();
  const mallory = socket("m");
  const ann = socket("a");
  for (let n = 0; n < 100; n++) mallory.say(n);
  expect(heard.length).toBe(8);
  ann.say(0);
  expect(heard.at(-1)).toBe("a0");
  let turns = 0;
  for (; heard.length < 101; turns++) {
    const before = heard.length;
    await nextTurn();
    // Five milliseconds, and the frames that one socket says at once.
    expect(heard.length - before).toBeLessThanOrEqual(13);
    ann.say(turns + 1);
    expect(heard.at(-1)).toBe(`a${turns + 1}`);
    heard.pop();
  }
  expect(turns).toBeGreaterThan(5);
  expect(heard.filter((what) => what.startsWith("m"))).toEqual(Array.from({ length: 100 }, (_, n) => `m${n}`));
});

test("[4] of many who flood, each gets its turn", async () => {
  const { heard, socket } = world();
  const many = Array.from({ length: 5 }, (_, n) => socket(`${n}:`));
  for (const one of many) for (let n = 0; n < 40; n++) one.say(n);
  const served = new Set<string>();
  heard.length = 0;
  for (let turn = 0; turn < 5; turn++) {
    await nextTurn();
    for (const what of heard) served.add(what.split(":")[0] ?? "");
  }
  expect(served.size).toBe(5);
});

test("[4] the end comes after everything that was said before it", async () => {
  const { heard, socket } = world();
  const ann = socket("a");
  for (let n = 0; n < 20; n++) ann.say(n);
  ann.end();
  expect(heard).not.toContain("aend");
  while (heard.length < 21) await nextTurn();
  expect(heard.at(-1)).toBe("aend");
  const silent = socket("s");
  silent.end();
  expect(heard.at(-1)).toBe("send");
});

test("[4] what waits has a bound: past it the socket is told, and nothing more is kept", () => {
  const { heard, socket } = world();
  const mallory = socket("m");
  for (let n = 0; n < 300; n++) mallory.say(n, 64 * 1024);
  expect(mallory.floods()).toBeGreaterThan(0);
  // Whoever is not closed for it is heard all the same, at once.
  expect(300 - heard.length).toBeLessThanOrEqual(64);
});

test("[17] a thousand frames past a window's budget wait to be refused, and of one more the socket is told", () => {
  const { heard, socket } = world();
  const mallory = socket("m", 600);
  for (let n = 0; n < 8 + 1_600; n++) mallory.say(n);
  expect(mallory.floods()).toBe(0);
  mallory.say("once more");
  expect(mallory.floods()).toBe(1);
  const uncounted = socket("u");
  for (let n = 0; n < 5_000; n++) uncounted.say(n);
  expect(uncounted.floods()).toBe(0);
  expect(heard.filter((what) => what.startsWith("m"))).toHaveLength(8);
});

test("[17] what is forgotten is heard by nobody, and the end is not waited for", async () => {
  const { heard, socket } = world();
  const mallory = socket("m");
  for (let n = 0; n < 100; n++) mallory.say(n);
  mallory.end();
  mallory.forget();
  expect(heard).toHaveLength(9);
  expect(heard.at(-1)).toBe("mend");
  for (let turn = 0; turn < 3; turn++) await nextTurn();
  expect(heard).toHaveLength(9);
  mallory.say("again");
  expect(heard.at(-1)).toBe("magain");
});
