import { heapStats } from "bun:jsc";
import { afterAll, expect, test } from "bun:test";
import { chatTokenStore } from "../../../src/features/chat/tokens/token.store.ts";
import { createRevocationList } from "../../../src/features/chat/tokens/token.verify.ts";
import { fakeClock } from "../../harness/clock.ts";
import { chatRest, outcome } from "./rest.ts";

const HOUR = 3_600_000;

test("a revocation is kept until its token expires", () => {
  const clock = fakeClock();
  const revocations = createRevocationList(clock.now);
  revocations.add("long", clock.now() + 6 * HOUR);
  for (let i = 0; i < 1_000; i += 1) revocations.add(`short-${i}`, clock.now() + HOUR);
  clock.advance(HOUR - 1);
  revocations.add("another", clock.now() + HOUR);
  expect([revocations.size, revocations.has("short-7")]).toEqual([1_002, true]);
  clock.advance(60_001);
  revocations.add("one more", clock.now() + HOUR);
  expect([revocations.size, revocations.has("short-7"), revocations.has("long")]).toEqual([3, false, true]);
});

test("a steady flood of revocations keeps no more than those of one token lifetime", () => {
  const clock = fakeClock();
  const revocations = createRevocationList(clock.now);
  let most = 0;
  for (let minute = 0; minute < 24 * 60; minute += 1) {
    for (let i = 0; i < 10; i += 1) revocations.add(`${minute}-${i}`, clock.now() + 6 * HOUR);
    clock.advance(60_000);
    most = Math.max(most, revocations.size);
  }
  expect(most).toBeLessThanOrEqual(10 * (6 * 60 + 2));
});

test("revocations are kept as numbers and leave no strings on the heap", () => {
  const clock = fakeClock();
  const revocations = createRevocationList(clock.now);
  const texts = () => {
    Bun.gc(true);
    return heapStats().objectTypeCounts.string ?? 0;
  };
  const before = texts();
  for (let i = 0; i < 30_000; i += 1) revocations.add(`token_${i}_${Math.random()}`, clock.now() + HOUR);
  // Some thousand are the engine's own, which remembers the digits of numbers it has written.
  expect(texts() - before).toBeLessThan(15_000);
  expect(revocations.size).toBe(30_000);
});

const chat = await chatRest();
afterAll(chat.close);

test("the job removes a revoked token at its expiry, after which it is refused as expired", async () => {
  const { ask, key, clock, server } = chat;
  await chat.room("general", ["alice"]);
  const { token, tokenId } = (await ask(key, "POST", "/v1/chat/tokens", { userId: "alice", ttlSeconds: 60 })).body;
  const read = () => ask(token, "GET", "/v1/chat/conversations/general");
  await ask(key, "DELETE", `/v1/chat/tokens/${tokenId}`);
  expect(outcome(await read())).toBe("401 SVC_TOKEN_REVOKED");

  const store = chatTokenStore(server.runtime.db);
  const sweep = () => server.runtime.write((unit) => server.services.chat.tokens.sweep(unit));
  clock.advance(59_000);
  await sweep();
  expect(store.revoked(clock.now()).map(({ id }) => id)).toEqual([tokenId]);
  expect(outcome(await read())).toBe("401 SVC_TOKEN_REVOKED");
  clock.advance(1_000);
  await sweep();
  expect([store.revoked(0), store.find(tokenId)]).toEqual([[], null]);
  expect(outcome(await read())).toBe("401 SVC_TOKEN_EXPIRED");
});
