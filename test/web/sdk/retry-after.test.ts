import { afterAll, afterEach, beforeEach, expect, test } from "bun:test";
import { connectChat, type StoaError } from "../../../web/sdk/index.ts";
import { RoomConnection } from "../../../web/sdk/room/peer/room-connection.ts";
import { realServer } from "../../harness/real-server.ts";
import { openPage, type Page } from "./page.ts";

// These tests check against the real server what `first-connection.test.ts` checks with a fake one.

const WINDOW_SECONDS = 3;
const server = await realServer({
  CHAT_CONNECTION_RATE_LIMIT: 1,
  SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 1,
  RATE_LIMIT_WINDOW_SECONDS: WINDOW_SECONDS,
});
afterAll(server.close);
let page: Page;
beforeEach(() => {
  page = openPage();
});
afterEach(() => page.close());

type Waits = { reason: string; seconds: number }[];
type Connection = { end: () => unknown };

/** Connects until the server refuses with a rate limit, which takes more attempts if a window ends in between. */
async function connectUntilRateLimited(
  connect: (onWaiting: (error: StoaError, seconds: number) => void) => Promise<Connection>,
) {
  const open: Connection[] = [];
  const waits: Waits = [];
  while (waits.length === 0) {
    const startedAt = performance.now();
    open.push(await connect(({ reason }, seconds) => waits.push({ reason, seconds })));
    if (waits.length === 0) continue;
    // The connection succeeded, but not before the requested time had passed.
    const waitedSeconds = (performance.now() - startedAt) / 1_000;
    const requested = waits.reduce((sum, { seconds }) => sum + seconds, 0);
    expect(waitedSeconds).toBeGreaterThanOrEqual(requested - 0.01);
  }
  for (const { end } of open) await end();
  for (const { reason, seconds } of waits) {
    expect(reason).toBe("rate-limited");
    expect(seconds).toBeGreaterThanOrEqual(1);
    expect(seconds).toBeLessThanOrEqual(WINDOW_SECONDS);
  }
}

test("[17] a rate-limited chat connection waits as long as the server requests, reports it, and connects", async () => {
  const { body } = await server.call("POST", "/v1/chat/tokens", { userId: "anna" });
  await connectUntilRateLimited(async (onWaiting) => {
    const chat = await connectChat(String(body.endpoint), String(body.token), { onWaiting });
    return { end: () => chat.close() };
  });
}, 60_000);

test("[17] a rate-limited room connection waits as long as the server requests, reports it, and connects", async () => {
  const roomId = await server.room("lobby");
  const { body } = await server.call("POST", `/v1/rooms/${roomId}/rtc-tokens`, { participantIdentity: "anna" });
  const about = { endpoint: String(body.endpoint), token: String(body.token), tokenProvider: undefined, sdk: "test" };
  const ignored = () => {};
  await connectUntilRateLimited(async (onWaiting) => {
    const hooks = { onWaiting, roster: undefined, onState: ignored, onJoined: ignored, onPush: ignored };
    const connection = new RoomConnection({ ...about, ...hooks, connectionId: crypto.randomUUID() });
    await connection.start();
    return { end: () => connection.leave() };
  });
}, 60_000);
