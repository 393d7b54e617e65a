import { afterAll, expect, test } from "bun:test";
import type { SocketEvents } from "../../../src/kernel/socket/sockets.ts";
import { rtcServer, settled, until } from "../../harness/rtc.ts";

const server = await rtcServer();
afterAll(server.close);
const { clock } = server;

/** A socket of the network: it is pinged, and answers or does not. */
async function opened(roomId: string, identity: string, answers: boolean) {
  const { token } = await server.mint(roomId, identity);
  const frames: { type: string }[] = [];
  const closes: number[] = [];
  let events: SocketEvents | null = null;
  const socket = {
    send: (text: string) => void frames.push(JSON.parse(text)),
    close: (code: number) => void closes.push(code),
    ping: () => {
      if (answers) events?.pong?.();
    },
    subscribe() {},
    unsubscribe() {},
    bufferedBytes: 0,
  };
  const request = { token, origin: null, ipAddress: "127.0.0.1", userAgent: "test" };
  events = server.services.signaling.connect(socket, request);
  const join = JSON.stringify({ type: "room.join", id: "1", connectionId: identity });
  events.received(join, join.length);
  await until(() => frames.some(({ type }) => type === "ack"));
  return { frames, closes };
}

test("[signaling] a socket without pongs is closed after 24 s despite traffic, and its participant leaves 20 s later", async () => {
  const roomId = await server.room();
  const gone = await opened(roomId, "gone", false);
  const there = await opened(roomId, "there", true);
  const present = () => ["gone", "there"].filter((identity) => server.services.liveRooms.has(roomId, identity));
  for (let second = 0; second < 24; second++) {
    clock.advance(1_000);
    server.node.emit({ type: "speakersChanged", roomId, speakers: [{ identity: "there", level: second / 24 }] });
    await settled();
  }
  expect(gone.closes).toEqual([1001]);
  expect(there.closes).toEqual([]);
  expect(present()).toEqual(["gone", "there"]);
  clock.advance(20_000);
  await settled();
  expect(present()).toEqual(["there"]);
  clock.advance(120_000);
  await settled();
  expect(there.closes).toEqual([]);
});
