import { afterAll, expect, test } from "bun:test";
import { chatWorld } from "../chat/world.ts";

const VIEWERS = 500;
const AT_ONCE = 25;

const world = await chatWorld({
  SIGNALING_MAX_PARTICIPANTS_PER_ROOM: VIEWERS + 1,
  SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 2 * VIEWERS,
  RATE_LIMIT_VIEWER_TOKENS: 2 * VIEWERS,
});
afterAll(() => world.close());
const { key, call } = world;

/** Resolves with the socket once the join is acknowledged. */
function join(endpoint: string, token: string): Promise<WebSocket> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`${endpoint}?token=${token}`);
    socket.onopen = () =>
      socket.send(JSON.stringify({ type: "room.join", id: "j", connectionId: crypto.randomUUID() }));
    socket.onmessage = ({ data }) => {
      const frame = JSON.parse(String(data));
      if (frame.id !== "j") return;
      if (frame.type === "ack") resolve(socket);
      else reject(new Error(String(data)));
    };
    socket.onclose = ({ code }) => reject(new Error(`closed ${code}`));
  });
}

test(`[4.5] ${VIEWERS} viewers are admitted and join together, are counted, and all receive the end`, async () => {
  const { body: stream } = await call("POST", "/v1/live-streams", key, { title: "t", hostIdentity: "host" });
  await call("POST", `/v1/live-streams/${stream.id}/start`);
  const sockets: WebSocket[] = [];
  const startedAt = performance.now();
  for (let first = 0; first < VIEWERS; first += AT_ONCE) {
    const some = Array.from({ length: AT_ONCE }, async (_, n) => {
      const { status, body } = await call("POST", `/v1/live-streams/${stream.id}/viewer-tokens`, key, {
        identity: `viewer-${first + n}`,
      });
      expect(status).toBe(201);
      return join(body.rtc.endpoint, body.rtc.token);
    });
    sockets.push(...(await Promise.all(some)));
  }
  const joinedMs = performance.now() - startedAt;
  const { body } = await call("GET", `/v1/live-streams/${stream.id}`);
  expect(body).toMatchObject({ viewerCount: VIEWERS, peakViewerCount: VIEWERS });

  const codes = Promise.all(
    sockets.map((socket) => new Promise<number>((done) => (socket.onclose = ({ code }) => done(code)))),
  );
  const endedAt = performance.now();
  await call("POST", `/v1/live-streams/${stream.id}/end`);
  expect(new Set(await codes)).toEqual(new Set([4410]));
  const notifiedMs = performance.now() - endedAt;
  console.log(
    `      ${VIEWERS} viewers minted and joined in ${Math.round(joinedMs)} ms, all notified of the end in ${Math.round(notifiedMs)} ms`,
  );
}, 120_000);
