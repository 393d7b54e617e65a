// browser: shell
import { afterAll, beforeAll, expect, test } from "bun:test";
import { joinRoom } from "./sdk/page-api.ts";
import { openStage, type Stage } from "./sdk/stage.ts";

let stage: Stage;
beforeAll(async () => {
  // Nothing listens there, so the connection is refused at once.
  stage = await openStage({ TURN_URLS: "turn:127.0.0.1:9?transport=tcp", TURN_SECRET: "not used by anyone" });
}, 180_000);
afterAll(() => stage.close());

test("[7] without a direct path, an unreachable TURN server causes one TURN_ERROR", async () => {
  const room = await stage.stoa.rooms.create({ name: "relay" });
  const page = await stage.page();
  await page.evaluate(() => {
    type Set = (this: RTCPeerConnection, description: RTCSessionDescriptionInit) => Promise<void>;
    const set = RTCPeerConnection.prototype.setRemoteDescription as Set;
    const firewalled: Set = function (description) {
      const sdp = description.sdp?.replace(/^(a=candidate:\S+ \d+ \S+ \d+ )\S+ \d+ /gm, "$1" + "127.0.0.1 9 ");
      return set.call(this, { type: "answer", ...(sdp === undefined ? {} : { sdp }) });
    };
    RTCPeerConnection.prototype.setRemoteDescription =
      firewalled as typeof RTCPeerConnection.prototype.setRemoteDescription;
  });
  await joinRoom(page, await stage.rtc(room.id, "gina"));
  const errors = async () => {
    const response = await fetch(`${stage.server.url}/v1/errors`, {
      headers: { authorization: `Bearer ${stage.server.apiKey}` },
    });
    return (await response.json()) as { category: string; code: string; suggestedAction: string }[];
  };
  while ((await errors()).length === 0) await Bun.sleep(200);
  // The server also detects missing packets later, which is the same failure.
  await page.waitForFunction(() => window.states.includes("RECONNECTING"), null, { timeout: 60_000 });
  expect(await errors()).toMatchObject([
    { category: "TURN_ERROR", code: "TURN_UNREACHABLE", suggestedAction: expect.stringContaining("TURN_URLS") },
  ]);
}, 180_000);
