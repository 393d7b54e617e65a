import { afterAll, expect, test } from "bun:test";
import { ChatClient } from "../chat/client.ts";
import { chatWorld } from "../chat/world.ts";

const world = await chatWorld();
afterAll(() => world.close());
const { key, call, server } = world;

test("[8] only the chat sockets of the stream's viewers receive its start and end", async () => {
  const { body: stream } = await call("POST", "/v1/live-streams", key, { title: "t", hostIdentity: "host" });
  const { body: creds } = await call("POST", `/v1/live-streams/${stream.id}/viewer-tokens`, key, { identity: "v" });
  expect(creds.chat.endpoint).toBe(`${server.url.replace("http", "ws")}/v1/chat/ws`);
  const viewer = await ChatClient.open(server.url, creds.chat.token);
  await viewer.ask("room.join", { room: stream.conversationId });
  const { body: other } = await call("POST", "/v1/live-streams", key, { title: "o", hostIdentity: "host" });
  const { body: elsewhere } = await call("POST", `/v1/live-streams/${other.id}/viewer-tokens`, key, { identity: "v" });
  const stranger = await ChatClient.open(server.url, elsewhere.chat.token);
  await stranger.ask("room.join", { room: other.conversationId });

  await call("POST", `/v1/live-streams/${stream.id}/start`);
  const common = { type: "stream.updated", conversationId: stream.conversationId, streamId: stream.id };
  await viewer.until(() => viewer.ofType("stream.updated").length >= 1);
  expect(viewer.ofType("stream.updated")).toEqual([{ ...common, status: "LIVE", viewerCount: 0 }]);
  await call("POST", `/v1/live-streams/${stream.id}/end`);
  await viewer.until(() => viewer.ofType("stream.updated").length >= 2);
  expect(viewer.ofType("stream.updated")[1]).toEqual({ ...common, status: "ENDED", viewerCount: 0 });
  await stranger.settled();
  expect(stranger.ofType("stream.updated")).toEqual([]);
});
