import { afterEach, beforeEach, expect, test } from "bun:test";
import { type ChatRest, chatRest, outcome } from "../../features/chat/rest.ts";
import { emitConnectionEvent } from "../../features/sessions/emit-events.ts";

let chat: ChatRest;
beforeEach(async () => {
  chat = await chatRest();
});
afterEach(() => chat.server.close());

/** A burst of commits, and then none. */
async function burst(): Promise<void> {
  const { server, clock } = chat;
  for (let n = 0; n < 500; n++) await server.runtime.write(() => {});
  clock.advance(15_000);
}

test("records of past connections leave the memory after a burst, and telemetry still finds them", async () => {
  const { server, projectId, key } = chat;
  const { recorder } = server.services.rtcSessions;
  const scene = (connectionId: string) => ({ projectId, connectionId, identity: connectionId });
  emitConnectionEvent(server, scene("stays"), { type: "started", mode: "new" });
  for (let n = 0; n < 200; n++) {
    emitConnectionEvent(server, scene(`goes-${n}`), { type: "started", mode: "new" });
    emitConnectionEvent(server, scene(`goes-${n}`), { type: "left", reason: "left" });
  }
  await recorder.flush();
  expect(recorder.inMemory()).toBe(201);
  await burst();
  expect(recorder.inMemory()).toBe(1);
  emitConnectionEvent(server, scene("goes-7"), { type: "started", mode: "new" });
  await recorder.flush();
  const { body } = await server.call("GET", "/v1/connections?limit=200", { key });
  const records = (body as unknown as { connectionId: string }[]).filter(
    ({ connectionId }) => connectionId === "goes-7",
  );
  expect(records).toHaveLength(1);
});

test("after a burst, minted tokens are replayed, revoked tokens stay refused, and other tokens are accepted", async () => {
  const { ask, key } = chat;
  await chat.room("general", ["alice", "bob"]);
  const mint = async () => {
    const headers = { "idempotency-key": "mint-1" };
    return (await ask(key, "POST", "/v1/chat/tokens", { userId: "alice" }, headers)).body;
  };
  const read = async (token: string) => outcome(await ask(token, "GET", "/v1/chat/conversations/general"));
  const [alice, bob] = [await mint(), (await ask(key, "POST", "/v1/chat/tokens", { userId: "bob" })).body];
  expect([await read(alice.token), await read(bob.token)]).toEqual(["200", "200"]);
  await ask(key, "DELETE", `/v1/chat/tokens/${bob.tokenId}`);
  await burst();
  expect(await mint()).toEqual(alice);
  expect([await read(alice.token), await read(bob.token)]).toEqual(["200", "401 SVC_TOKEN_REVOKED"]);
});
