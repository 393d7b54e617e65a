import { expect, test } from "bun:test";
import { Session } from "../../src/rtc-client/participant/session.ts";

test.each([
  ["a session that missed nothing or gets what it missed", 1, true],
  ["a session whose server has restarted, and counts from elsewhere", 1_000, false],
])("%s", async (_, seqOfResume, isCurrent) => {
  const joins: { resume?: { lastSeq: number; resumeToken: string } }[] = [];
  const server = Bun.serve({
    port: 0,
    fetch: (request, listening) => void listening.upgrade(request),
    websocket: {
      message(socket, text) {
        const { id, ...frame } = JSON.parse(String(text));
        joins.push(frame);
        const isFirst = joins.length === 1;
        const ack = { mode: isFirst ? "new" : "resumed", sessionId: "s", resumeToken: `token ${joins.length}` };
        socket.send(JSON.stringify({ type: "ack", id, ...ack, seq: isFirst ? 1 : seqOfResume, participants: [] }));
      },
    },
  });
  const adopted: boolean[] = [];
  const back = Promise.withResolvers<void>();
  const session = await Session.join({
    url: server.url.origin,
    token: "t",
    sdk: "test",
    roster: undefined,
    publicKey: undefined,
    onLobby: undefined,
    signal: undefined,
    onPush: () => {},
    onJoined: async (_ack, current) => {
      adopted.push(current);
      if (adopted.length === 2) back.resolve();
    },
    onLost: () => {},
    onClosed: back.reject,
  });
  session.drop();
  await back.promise;
  expect(adopted).toEqual([false, isCurrent]);
  expect(joins[1]?.resume).toEqual({ sessionId: "s", resumeToken: "token 1", lastSeq: 1 } as never);
  await server.stop(true);
});
