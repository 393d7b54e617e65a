import { afterAll, afterEach, beforeEach, expect, test } from "bun:test";
import { connectChat, type StoaError } from "../../../web/sdk/index.ts";
import { RoomLink } from "../../../web/sdk/room/peer/link.ts";
import { realServer } from "../../harness/running.ts";
import { openPage, type Page } from "./page.ts";

// What `first-connection.test.ts` shows with a server that is made up, against the one that is shipped.

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

/** Connects until the server says that it was once too often: right away, unless its window ends in between. */
async function untilToldToWait(
  connect: (onWaiting: (error: StoaError, seconds: number) => void) => Promise<Connection>,
) {
  const open: Connection[] = [];
  const waits: Waits = [];
  while (waits.length === 0) {
    const asked = performance.now();
    open.push(await connect(({ reason }, seconds) => waits.push({ reason, seconds })));
    if (waits.length === 0) continue;
    // It came in all the same, and not before the server said that it may.
    const waitedSeconds = (performance.now() - asked) / 1_000;
    const told = waits.reduce((sum, { seconds }) => sum + seconds, 0);
    expect(waitedSeconds).toBeGreaterThanOrEqual(told - 0.01);
  }
  for (const { end } of open) await end();
  for (const { reason, seconds } of waits) {
    expect(reason).toBe("rate-limited");
    expect(seconds).toBeGreaterThanOrEqual(1);
    expect(seconds).toBeLessThanOrEqual(WINDOW_SECONDS);
  }
}

test("[17] a chat that is one too many waits as long as the server says, says so, and connects", async () => {
  const { body } = await server.call("POST", "/v1/chat/tokens", { userId: "anna" });
  await untilToldToWait(async (onWaiting) => {
    const chat = await connectChat(String(body.endpoint), String(body.token), { onWaiting });
    return { end: () => chat.close() };
  });
}, 60_000);

test("[17] and so does a room", async () => {
  const roomId = await server.room("lobby");
  const { body } = await server.call("POST", `/v1/rooms/${roomId}/rtc-tokens`, { participantIdentity: "anna" });
  const about = { endpoint: String(body.endpoint), token: String(body.token), tokenProvider: undefined, sdk: "test" };
  const ignored = () => {};
  await untilToldToWait(async (onWaiting) => {
    const hooks = { onWaiting, onState: ignored, onJoined: ignored, onPush: ignored };
    const link = new RoomLink({ ...about, ...hooks, connectionId: crypto.randomUUID() });
    await link.start();
    return { end: () => link.leave() };
  });
}, 60_000);
