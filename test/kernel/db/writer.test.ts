import { Database } from "bun:sqlite";
import { afterAll, beforeEach, expect, test } from "bun:test";
import type { LoggedCommits } from "../../../src/kernel/db/logged-commits.ts";
import { changing } from "../../../src/kernel/db/statements.ts";
import { createWriter, type Unit, type Writer } from "../../../src/kernel/db/writer.ts";

const client = new Database(":memory:");
afterAll(() => client.close());
let commits = 0;
let writer: Writer;
/** Moved by units that take long. */
let nowMs = 0;
const callbackErrors: unknown[] = [];

beforeEach(() => {
  client.run("DROP TABLE IF EXISTS notes");
  client.run("CREATE TABLE notes (n INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT");
  commits = 0;
  callbackErrors.length = 0;
  const counted = new Proxy(client, {
    get(target, name) {
      const value = Reflect.get(target, name);
      if (name !== "prepare") return typeof value === "function" ? value.bind(target) : value;
      return (sql: string) => {
        const statement = target.prepare(sql);
        if (sql !== "COMMIT") return statement;
        return {
          run() {
            commits += 1;
            return statement.run();
          },
        };
      };
    },
  });
  nowMs = 0;
  const clock = () => nowMs;
  writer = createWriter(counted, (error) => callbackErrors.push(error), undefined, null, clock);
});

const insert = (n: number, text: string | null = "x") => client.run("INSERT INTO notes VALUES (?, ?)", [n, text]);
const insertBy = (unit: Unit, n: number, text: string | null = "x") =>
  void changing<[number, string | null]>(client, "INSERT INTO notes VALUES (?, ?)").run(unit, n, text);
const numbers = () =>
  client
    .query<{ n: number }, []>("SELECT n FROM notes ORDER BY n")
    .all()
    .map(({ n }) => n);

test("units that arrive together share one commit and keep their order", async () => {
  const order: number[] = [];
  await Promise.all(
    Array.from({ length: 100 }, (_, n) =>
      writer.write(() => {
        order.push(n);
        insert(n);
      }),
    ),
  );
  expect(order).toEqual(Array.from({ length: 100 }, (_, n) => n));
  expect(numbers()).toHaveLength(100);
  expect(commits).toBe(1);
});

test("[17] units of work that exceed the time limit of one commit are spread over several, in order, with event-loop ticks in between", async () => {
  const order: number[] = [];
  const seen: number[] = [];
  const look = () => {
    seen.push(order.length);
    if (order.length < 40) setImmediate(look);
  };
  setImmediate(look);
  const written = Array.from({ length: 40 }, (_, n) =>
    writer.write((unit) => {
      order.push(n);
      nowMs += 1;
      insertBy(unit, n, n === 20 ? null : "x");
    }),
  );
  const outcomes = await Promise.allSettled(written);
  expect(outcomes.flatMap(({ status }, n) => (status === "rejected" ? n : []))).toEqual([20]);
  expect(order).toEqual(Array.from({ length: 40 }, (_, n) => n));
  expect(numbers()).toHaveLength(39);
  expect(commits).toBe(5);
  for (const [turn, count] of seen.entries()) expect(count - (seen[turn - 1] ?? 0)).toBeLessThanOrEqual(8);
  await writer.drain();
});

/**
 * How many of `units`, which take a millisecond each, every commit took, while other work took `othersMs` in every event-loop tick.
 */
async function takenByCommits(units: number, othersMs: number): Promise<number[]> {
  const taken: number[] = [];
  let isOver = false;
  const others = () => {
    nowMs += othersMs;
    if (!isOver) setImmediate(others);
  };
  const written = Array.from({ length: units }, (_, n) =>
    writer.write((unit) => {
      taken[commits] = (taken[commits] ?? 0) + 1;
      nowMs += 1;
      insertBy(unit, n);
    }),
  );
  setImmediate(others);
  await Promise.all(written);
  isOver = true;
  return taken;
}

test("[17] a burst that waited long gets a longer commit, up to a limit", async () => {
  expect(await takenByCommits(60, 16)).toEqual([8, 16, 16, 16, 4]);
});

test("[17] the first commit of a burst may exceed its time limit if its units of work had to wait", async () => {
  setImmediate(() => {
    nowMs += 20;
  });
  expect(await takenByCommits(40, 1)).toEqual([20, 8, 8, 4]);
});

test("[17] an endless burst blocks the thread for no longer than that limit", async () => {
  expect(await takenByCommits(100, 1_000)).toEqual([8, 28, 28, 28, 8]);
});

test("[17] without other work each commit is as short as the first", async () => {
  expect(await takenByCommits(40, 1)).toEqual([8, 8, 8, 8, 8]);
});

test("an error in one unit rolls back exactly that unit", async () => {
  const failing = writer.write(() => {
    insert(2);
    insert(3, null);
  });
  const results = await Promise.allSettled([writer.write(() => insert(1)), failing, writer.write(() => insert(4))]);
  expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect(numbers()).toEqual([1, 4]);
});

test("checkThenWrite work that fails in its checks does not affect other units of its commit", async () => {
  const results = await Promise.allSettled([
    writer.write(() => insert(1)),
    writer.checkThenWrite((unit) => {
      unit.afterCommit(() => callbackErrors.push("ran"));
      throw new Error("refused");
    }),
    writer.checkThenWrite((unit) => {
      insertBy(unit, 2);
      return "sent";
    }),
    writer.write(() => insert(3, null)),
    // A change that fails by itself is not committed.
    writer.checkThenWrite((unit) => insertBy(unit, 3, null)),
    writer.checkThenWrite((unit) => insertBy(unit, 4)),
  ]);
  const [first, refused, sent, failed, failedFirst, last] = results.map(({ status }) => status);
  expect([refused, failed, failedFirst]).toEqual(["rejected", "rejected", "rejected"]);
  expect([first, sent, last]).toEqual(["fulfilled", "fulfilled", "fulfilled"]);
  expect(results[2]).toEqual({ status: "fulfilled", value: "sent" });
  expect(numbers()).toEqual([1, 2, 4]);
  expect(commits).toBe(1);
  expect(callbackErrors).toEqual([]);
});

test("checkThenWrite work that fails after a change rolls back its whole commit", async () => {
  const results = await Promise.allSettled([
    writer.write(() => insert(1)),
    writer.checkThenWrite((unit) => {
      insertBy(unit, 2);
      insertBy(unit, 3, null);
    }),
    writer.checkThenWrite((unit) => insertBy(unit, 4)),
  ]);
  expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
  expect(numbers()).toEqual([]);
  await writer.checkThenWrite((unit) => insertBy(unit, 5));
  expect(numbers()).toEqual([5]);
});

test("the error of one unit is not shown to other units that are rolled back with it", async () => {
  const results = await Promise.allSettled([
    writer.write(() => {
      throw new Error("the first was refused");
    }),
    writer.write(() => insert(1)),
    writer.checkThenWrite((unit) => {
      insertBy(unit, 2);
      throw new Error("over quota");
    }),
    writer.write(() => insert(3)),
  ]);
  expect(results.map((result) => (result.status === "rejected" ? result.reason.message : "done"))).toEqual([
    "the first was refused",
    "rolled back with another unit of work",
    "over quota",
    "rolled back with another unit of work",
  ]);
  expect(numbers()).toEqual([]);
});

test("a promise resolves with the unit's value, after its callbacks, after the commit", async () => {
  const seen: string[] = [];
  const value = await writer.write((unit) => {
    insert(1);
    unit.afterCommit(() => seen.push(client.inTransaction ? "inside" : "after"));
    return "value";
  });
  seen.push("resolved");
  expect([value, ...seen]).toEqual(["value", "after", "resolved"]);
});

test("callbacks of a failed unit never run, and a callback that throws does not affect others", async () => {
  let ran = false;
  const failed = writer.write((unit) => {
    unit.afterCommit(() => {
      ran = true;
    });
    throw new Error("no");
  });
  const fine = writer.write((unit) => {
    unit.afterCommit(() => {
      throw new Error("listener");
    });
    insert(1);
  });
  await expect(failed).rejects.toThrow("no");
  await fine;
  expect(ran).toBe(false);
  expect(callbackErrors).toHaveLength(1);
});

test("an asynchronous unit is refused and leaves nothing behind", async () => {
  const work = (async () => {
    insert(7);
    await null;
  }) as unknown as () => void;
  await expect(writer.write(work)).rejects.toThrow("synchronous");
  expect(numbers()).toEqual([]);
});

test("a unit that makes SQLite roll back the transaction fails all units in it", async () => {
  const results = await Promise.allSettled([
    writer.write(() => insert(1)),
    writer.write(() => client.run("INSERT OR ROLLBACK INTO notes VALUES (1, 'again')")),
    writer.write(() => insert(2)),
  ]);
  expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
  expect(numbers()).toEqual([]);
  await writer.write(() => insert(3));
  expect(numbers()).toEqual([3]);
});

test("a unit that is used after its work has returned throws", async () => {
  let kept: Unit | undefined;
  const returned = writer.write((unit) => {
    kept = unit;
    unit.afterCommit(() => unit.requireRunning());
  });
  const failed = writer.write((unit) => {
    kept?.requireRunning();
    unit.requireRunning();
  });
  await returned;
  await expect(failed).rejects.toThrow("this unit of work is over");
  expect(callbackErrors).toEqual([new Error("this unit of work is over")]);
  expect(() => kept?.afterCommit(() => {})).toThrow("this unit of work is over");
});

test("drain waits for all submitted units", async () => {
  void writer.write(() => insert(1));
  await writer.drain();
  expect(numbers()).toEqual([1]);
  await writer.drain();
});

/** A writer with a commit log, as with a log in another database. */
function writerWithLog(records: number[]): Writer {
  let units = 0;
  const logged: LoggedCommits = {
    begin: () => void client.run("BEGIN"),
    run: (work) => work(),
    append: async () => {
      units = client.query<{ n: number }, []>("SELECT count(*) AS n FROM notes").get()?.n ?? 0;
    },
    commit: () => {
      client.run("COMMIT");
      records.push(units);
    },
    rollback: () => void client.run("ROLLBACK"),
    concernsWholeCommit: () => false,
    isLogUnavailable: () => false,
    position: 0,
  };
  return createWriter(
    client,
    () => {},
    undefined,
    logged,
    () => nowMs,
  );
}

test("with a commit log, units of several event-loop ticks are one record, up to a limit", async () => {
  const records: number[] = [];
  const slow = writerWithLog(records);
  const turns: number[] = [];
  const writes = Array.from({ length: 20 }, (_, n) =>
    slow.write((unit) => {
      if (n % 4 === 0) setImmediate(() => turns.push(n));
      nowMs += 2;
      insertBy(unit, n);
    }),
  );
  await Promise.all(writes);
  // Four at a time, then another caller's; sixteen in the first record, the rest in the second.
  expect(turns.slice(0, 4)).toEqual([0, 4, 8, 12]);
  expect(records).toEqual([16, 20]);
});

test("with a commit log, checkThenWrite work that fails after a change in a later tick rolls back the earlier ticks too", async () => {
  const records: number[] = [];
  const slow = writerWithLog(records);
  const first = Array.from({ length: 4 }, (_, n) =>
    slow.write((unit) => {
      nowMs += 2;
      insertBy(unit, n);
    }),
  );
  const broken = slow.checkThenWrite((unit) => {
    insertBy(unit, 100);
    throw new Error("too late");
  });
  const outcomes = await Promise.allSettled([...first, broken]);
  expect(outcomes.map(({ status }) => status)).toEqual(Array(5).fill("rejected"));
  expect(outcomes.map((outcome) => (outcome as PromiseRejectedResult).reason.message)).toEqual([
    ...Array(4).fill("rolled back with another unit of work"),
    "too late",
  ]);
  expect(records).toEqual([]);
  expect(client.query("SELECT n FROM notes").all()).toEqual([]);
  await slow.write((unit) => insertBy(unit, 1));
  expect(records).toEqual([1]);
});
