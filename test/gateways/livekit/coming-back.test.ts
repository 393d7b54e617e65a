import { afterAll, beforeAll, expect, test } from "bun:test";
import { DisconnectReason, LeaveRequest_Action, ParticipantInfo_State } from "@livekit/protocol";
import type { Page } from "playwright-core";
import { type ServerProcess, startServer } from "../../e2e/sdk/server-process.ts";
import { happened, hears, joinLivekit, publishCanvas, sees } from "./harness/livekit-page.ts";
import { RawClient } from "./harness/raw-client.ts";
import { type StageBeside, stageBeside, WAIT_MS } from "./harness/stage.ts";

declare global {
  interface Window {
    /** Nothing from here reaches the server any more, and open connections are closed. */
    cut(): void;
    mend(): void;
  }
}

/** Sockets and questions of a page can be cut off from the server, as a network would do it. */
function cuttable(): void {
  let isCut = false;
  const open = new Set<WebSocket>();
  const { fetch } = window;
  const asking = (...asked: Parameters<typeof fetch>) =>
    isCut ? Promise.reject(new TypeError("no network")) : fetch(...asked);
  window.fetch = Object.assign(asking, fetch);
  window.WebSocket = class extends WebSocket {
    constructor(url: string | URL, protocols?: string | string[]) {
      // No server listens there.
      super(isCut ? "ws://127.0.0.1:9" : url, protocols);
      open.add(this);
      this.addEventListener("close", () => open.delete(this));
    }
  };
  window.cut = () => {
    isCut = true;
    for (const socket of open) socket.close(3_000);
  };
  window.mend = () => {
    isCut = false;
  };
}

let server: ServerProcess;
let stage: StageBeside;
beforeAll(async () => {
  server = await startServer({ SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 10_000 });
  stage = await stageBeside(server, { firstOfAll: cuttable });
}, 180_000);
afterAll(async () => {
  await stage?.close();
  await server?.close();
});

const sidOf = (page: Page) => page.evaluate(() => window.livekit.localParticipant.sid as string);
const closing = async (...pages: Page[]) => {
  for (const page of pages) await page.context().close();
};

async function enter(room: string, identity: string, singlePeerConnection: boolean, blank?: Page): Promise<Page> {
  const page = blank ?? (await stage.page("livekit-client"));
  const options = { publish: false, room: { singlePeerConnection } };
  await joinLivekit(page, stage.wsUrl, await stage.token(room, identity), options);
  await publishCanvas(page);
  return page;
}

/** The newest client on one connection and version 2.15 on two see and hear each other. */
async function meet(room: string): Promise<readonly [Page, Page]> {
  const ann = await enter(room, "ann", true);
  const ben = await enter(room, "ben", false, await stage.page("livekit-client-two-connections"));
  await Promise.all([sees(ann, "ben"), sees(ben, "ann"), hears(ann, "ben"), hears(ben, "ann")]);
  return [ann, ben];
}

/** From here on, earlier frames and events do not count. */
const forget = (page: Page) =>
  page.evaluate(() => {
    for (const element of document.querySelectorAll("video")) element.id = "";
    window.events.length = 0;
  });

const seesAnew = (page: Page, identity: string) =>
  page.waitForFunction(
    (id) => {
      const video = document.getElementById(id) as HTMLVideoElement | null;
      return (video?.getVideoPlaybackQuality().totalVideoFrames ?? 0) >= 15;
    },
    `${identity}-camera`,
    { timeout: 2 * WAIT_MS },
  );

/** Both are in the room under other sids than before, see and hear each other, and their pages heard of no end. */
async function areBack(room: string, [ann, ben]: readonly [Page, Page], before: readonly string[]): Promise<void> {
  await Promise.all([happened(ann, "reconnected"), happened(ben, "reconnected")]);
  await Promise.all([seesAnew(ann, "ben"), seesAnew(ben, "ann"), hears(ann, "ben"), hears(ben, "ann")]);
  const after = await Promise.all([ann, ben].map(sidOf));
  for (const sid of after) expect(before).not.toContain(sid);
  const there = (await stage.rooms.listParticipants(room)) as { identity: string; sid: string }[];
  const shown = there.filter(({ identity }) => identity !== "watcher").map(({ identity, sid }) => [identity, sid]);
  expect(shown.sort()).toEqual([
    ["ann", after[0] ?? ""],
    ["ben", after[1] ?? ""],
  ]);
  for (const page of [ann, ben]) {
    const events = await page.evaluate(() => window.events);
    expect(events.filter((event) => event.startsWith("disconnected"))).toEqual([]);
  }
}

// At once: what takes long is that the server waits.
test.concurrent("after the resume window the others see the participant leave, its resume is refused, and a new join succeeds", async () => {
  const watcher = await RawClient.open(stage.wsUrl, await stage.token("refused", "watcher"));
  const token = await stage.token("refused", "ann");
  const ann = await RawClient.open(stage.wsUrl, token);
  const sid = (await ann.hears("join")).participant?.sid ?? "";
  ann.close();
  await watcher.hears("update", ({ participants }) =>
    participants.some((one) => one.sid === sid && one.state === ParticipantInfo_State.DISCONNECTED),
  );
  const refused = await RawClient.open(stage.wsUrl, token, `&reconnect=1&sid=${sid}`);
  expect(refused.heard.map((one) => one.case)).toEqual(["leave"]);
  const { reason, action, canReconnect } = await refused.hears("leave");
  expect([reason, action, canReconnect]).toEqual([
    DisconnectReason.STATE_MISMATCH,
    LeaveRequest_Action.RECONNECT,
    true,
  ]);
  await refused.isClosed();
  const rejoined = await RawClient.open(stage.wsUrl, token);
  const { participant } = await rejoined.hears("join");
  expect(participant?.sid).not.toBe(sid);
  const there = (await stage.rooms.listParticipants("refused")) as { identity: string; sid: string }[];
  expect(there.filter(({ identity }) => identity === "ann")).toMatchObject([{ sid: participant?.sid }]);
  for (const one of [rejoined, watcher]) one.close();
}, 180_000);

test.concurrent(
  "after the resume window the others see the participant leave, and LiveKit's clients rejoin by themselves",
  async () => {
    const watcher = await RawClient.open(stage.wsUrl, await stage.token("away", "watcher"));
    const [ann, ben] = await meet("away");
    const before = await Promise.all([ann, ben].map(sidOf));
    await Promise.all([ann, ben].map(forget));
    await Promise.all([ann, ben].map((page) => page.evaluate(() => window.cut())));
    for (const gone of before) {
      const isGone = (one: { sid: string; state: ParticipantInfo_State }) =>
        one.sid === gone && one.state === ParticipantInfo_State.DISCONNECTED;
      await watcher.hears("update", ({ participants }) => participants.some(isGone));
    }
    await Promise.all([ann, ben].map((page) => page.evaluate(() => window.mend())));
    await areBack("away", [ann, ben], before);
    watcher.close();
    await closing(ann, ben);
  },
  5 * WAIT_MS,
);

/**
 * Rejoins at once, as after the server's leave message, and opens its microphone when the page is connected: LiveKit's clients
 * report that they have reconnected when both are done, and take two seconds in any case.
 */
const rejoins = (page: Page) =>
  page.evaluate(() => {
    const { mediaDevices } = navigator;
    const open = mediaDevices.getUserMedia.bind(mediaDevices);
    mediaDevices.getUserMedia = async (wanted) => {
      const connection = window.livekit.engine.pcManager.publisher._pc as RTCPeerConnection;
      while (connection.connectionState !== "connected") {
        await new Promise((changed) => connection.addEventListener("connectionstatechange", changed, { once: true }));
      }
      return open(wanted);
    };
    return window.livekit.simulateScenario("full-reconnect");
  });

for (const connections of ["one", "two"]) {
  test.concurrent(
    `a participant who joins while a LiveKit client on ${connections} rejoins is shown to it`,
    async () => {
      const room = `late-${connections}`;
      const ann = await enter(room, "ann", connections === "one");
      const blank = await stage.page("livekit-client");
      await rejoins(ann);
      await happened(ann, "reconnected");
      const ben = await enter(room, "ben", true, blank);
      await Promise.all([sees(ann, "ben"), sees(ben, "ann"), hears(ann, "ben"), hears(ben, "ann")]);
      await closing(ann, ben);
    },
    5 * WAIT_MS,
  );
}

test(
  "after a graceful or hard restart LiveKit's clients on one and two connections reconnect with audio and video",
  async () => {
    const [ann, ben] = await meet("kept");
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      const before = await Promise.all([ann, ben].map(sidOf));
      await Promise.all([ann, ben].map(forget));
      await server.restart(signal);
      await areBack("kept", [ann, ben], before);
    }
    // The old tokens are still stored, and removing their participant revokes them.
    await stage.rooms.removeParticipant("kept", "ann");
    await ann.waitForFunction(() => window.events.some((event) => event.startsWith("disconnected")));
    expect(await stage.rooms.listParticipants("kept")).toHaveLength(1);
    await closing(ann, ben);
  },
  5 * WAIT_MS,
);
