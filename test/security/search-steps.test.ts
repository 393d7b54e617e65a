import { afterAll, expect, test } from "bun:test";
import { searchService } from "../../src/features/chat/search/search.service.ts";
import { searchStore } from "../../src/features/chat/search/search.store.ts";
import type { Runtime } from "../../src/kernel/runtime.ts";
import { testServer } from "../harness/server.ts";

const server = testServer({ CHAT_SEND_RATE_LIMIT: 100_000 });
afterAll(server.close);
const { key } = await server.project();
const { body: room } = await server.call("POST", "/v1/chat/conversations", { key, body: { name: "long" } });
const at = `/v1/chat/conversations/${room.id}`;
const db = server.runtime.db.$client;

async function send(text: string): Promise<string> {
  const { status, body } = await server.call("POST", `${at}/messages`, { key, body: { text } });
  expect(status).toBe(201);
  return String(body.id);
}

async function found(q: string): Promise<string[]> {
  const { body } = await server.call("GET", `${at}/search?q=${encodeURIComponent(q)}`, { key });
  return (body as unknown as { id: string }[]).map(({ id }) => id);
}

/** A message with as many different words as possible, others in each message. */
const crowded = (n: number) =>
  Array.from({ length: 3_900 }, (_, k) => String.fromCharCode(0x4e00 + ((k * (2 * n + 1) + n * 37) % 20_000))).join("");

/** A separate index over the same messages; `onUnit` is called before each of its units of work. */
function indexWith(onUnit: () => void) {
  const runtime: Runtime = {
    ...server.runtime,
    write: (work) =>
      server.runtime.write((unit) => {
        onUnit();
        return work(unit);
      }),
  };
  return searchService(runtime, searchStore(server.runtime.db));
}

test("[18] each unit of work of the index changes only a few pages, whatever was sent, and its segments stay few", async () => {
  await server.services.search.catchUp();
  for (let n = 0; n < 60; n++) await send(crowded(n));
  const changes = () => db.query<{ n: number }, []>("SELECT total_changes() AS n").get()?.n ?? 0;
  const perUnit: number[] = [];
  let before = changes();
  const index = indexWith(() => {
    // The changes of a unit are visible when the next one begins, because much is written with its commit.
    perUnit.push(changes() - before);
    before = changes();
  });
  await index.catchUp();
  await index.stop();
  expect(perUnit.length).toBeGreaterThan(60);
  // One message fills some twenty pages; a step of merging fills eight, and clears those that they came from.
  expect(Math.max(...perUnit)).toBeLessThan(256);
  const parts = db.query<{ n: number }, []>("SELECT count(DISTINCT segid) AS n FROM message_search_idx").get()?.n;
  expect(parts).toBeLessThan(16);
  expect(await found(crowded(59).slice(-2))).not.toEqual([]);
}, 60_000);

test("[18] a message that is edited or deleted while it is being indexed is not found by its old text", async () => {
  await server.services.search.catchUp();
  const ids: string[] = [];
  for (let n = 0; n < 6; n++) ids.push(await send(`${crowded(100 + n)} ending${n}`));
  const [edited = "", deleted = "", changedLater = ""] = ids;
  let units = 0;
  const index = indexWith(() => units++);
  const following = index.catchUp();
  // The first of them is being looked at, and is in no index yet.
  while (units < 1) await Bun.sleep(0);
  await server.call("PATCH", `/v1/chat/messages/${edited}`, { key, body: { text: `${crowded(200)} rewritten` } });
  await server.call("DELETE", `/v1/chat/messages/${deleted}`, { key });
  await following;
  await server.call("PATCH", `/v1/chat/messages/${changedLater}`, { key, body: { text: "short" } });
  await index.catchUp();
  await index.stop();
  expect(await found("ending0")).toEqual([]);
  expect(await found("rewritten")).toEqual([edited]);
  expect(await found("ending1")).toEqual([]);
  expect(await found("ending2")).toEqual([]);
  expect(await found("short")).toEqual([changedLater]);
  for (let n = 3; n < 6; n++) expect(await found(`ending${n}`)).toEqual(ids.slice(n, n + 1));
}, 60_000);

test("[18] an indexer that was stopped between two steps is completed by the next run", async () => {
  await server.services.search.catchUp();
  const ids: string[] = [];
  for (let n = 0; n < 6; n++) ids.push(await send(`${crowded(300 + n)} remaining${n}`));
  let units = 0;
  const first = indexWith(() => {
    units++;
    if (units === 3) void first.stop();
  });
  await first.catchUp();
  const waiting = db.query<{ n: number }, []>("SELECT count(*) AS n FROM search_pending").get()?.n ?? 0;
  expect(waiting).toBeGreaterThan(0);
  for (let n = 0; n < 6; n++) expect(await found(`remaining${n}`)).toEqual(ids.slice(n, n + 1));
}, 60_000);

test("[18] an index that has fallen behind queries the pending messages once per step", async () => {
  await server.services.search.catchUp();
  const held = Promise.withResolvers<void>();
  const due: (() => void)[] = [];
  let looks = 0;
  let units = 0;
  const store = searchStore(server.runtime.db);
  const runtime: Runtime = {
    ...server.runtime,
    timers: {
      ...server.runtime.timers,
      after(_ms, run) {
        due.push(run);
        return () => {};
      },
    },
    async write(work) {
      await held.promise;
      units++;
      return server.runtime.write(work);
    },
  };
  const isPending = () => {
    looks++;
    return store.isPending();
  };
  const index = searchService(runtime, { ...store, isPending });
  for (let n = 0; n < 50; n++) {
    await send(`${crowded(400 + n)} behind${n}`);
    for (const run of due.splice(0)) run();
  }
  held.resolve();
  await index.catchUp();
  await index.stop();
  expect(units).toBeGreaterThan(50);
  expect(looks).toBeLessThanOrEqual(units + 3);
  expect(await found("behind49")).toHaveLength(1);
}, 60_000);

test("[18] users find messages that they have just sent, even if many search at the same time", async () => {
  await Promise.all(
    Array.from({ length: 20 }, async (_, n) => {
      const id = await send(`${"word ".repeat(300)} mine${n}x`);
      expect(await found(`mine${n}x`)).toEqual([id]);
    }),
  );
}, 60_000);
