// browser: shell
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Browser, Page } from "playwright-core";
import { type ChatWorld, chatWorld } from "../features/chat/world.ts";
import { openChromium } from "../harness/browsers.ts";

declare global {
  interface Window {
    peer: RTCPeerConnection;
    sessionUrl: string;
    /** The states of DTLS and ICE when the former changed. */
    ended: [string, string] | undefined;
  }
}

let world: ChatWorld;
let browser: Browser;
beforeAll(async () => {
  world = await chatWorld();
  browser = await openChromium();
}, 180_000);
afterAll(async () => {
  await browser.close();
  await world.close();
});

type Rtc = { roomId: string; token: string };

const api = async (path: string, body?: object) =>
  (await world.call("POST", `/v1/live-streams${path}`, world.key, body)).body;

/** Connects an encoder or a player with plain WebRTC and one POST; resolves with the status of the POST. */
async function connect(kind: "whip" | "whep", { roomId, token }: Rtc): Promise<{ page: Page; status: number }> {
  const page = await (await browser.newContext({ permissions: ["camera", "microphone"] })).newPage();
  await page.goto(`${world.server.url}/healthz`);
  const status = await page.evaluate(
    async ({ kind, roomId, token }) => {
      const peer = new RTCPeerConnection();
      window.peer = peer;
      if (kind === "whip") {
        const stream = await navigator.mediaDevices.getUserMedia({ audio: true, video: { width: 640, height: 360 } });
        for (const track of stream.getTracks())
          peer.addTransceiver(track, { direction: "sendonly", streams: [stream] });
      } else {
        const video = document.body.appendChild(document.createElement("video"));
        video.muted = true;
        video.autoplay = true;
        for (const media of ["video", "audio"]) peer.addTransceiver(media, { direction: "recvonly" });
        peer.ontrack = ({ track }) => {
          if (track.kind === "video") video.srcObject = new MediaStream([track]);
        };
      }
      await peer.setLocalDescription();
      const response = await fetch(`/${kind}/${roomId}`, {
        method: "POST",
        headers: { "content-type": "application/sdp", authorization: `Bearer ${token}` },
        body: peer.localDescription?.sdp,
      });
      window.sessionUrl = response.headers.get("location") ?? "";
      if (response.ok) await peer.setRemoteDescription({ type: "answer", sdp: await response.text() });
      return response.status;
    },
    { kind, roomId, token },
  );
  if (status === 201) {
    await page.waitForFunction(() => window.peer.connectionState === "connected", undefined, { polling: 50 });
  }
  return { page, status };
}

const framesShown = (page: Page) =>
  page.evaluate(() => document.querySelector("video")?.getVideoPlaybackQuality().totalVideoFrames ?? 0);

async function moreFrames(page: Page): Promise<void> {
  await page.waitForFunction(
    (target) => (document.querySelector("video")?.getVideoPlaybackQuality().totalVideoFrames ?? 0) >= target,
    (await framesShown(page)) + 10,
    { polling: 50 },
  );
}

test("[10] a WHEP player waits for the stream of a WHIP encoder, plays it, and ends with it", async () => {
  const { id } = await api("", { title: "Encoder", hostIdentity: "host" });
  const { rtc: hosting } = await api(`/${id}/hosts`, { identity: "host" });
  const { rtc: watching } = await api(`/${id}/viewer-tokens`, { identity: "player" });
  await connect("whip", hosting);
  const { page: player } = await connect("whep", watching);
  const count = async () => (await world.call("GET", `/v1/live-streams/${id}`)).body.viewerCount;
  while ((await count()) !== 1) await Bun.sleep(50);
  await player.waitForTimeout(1000);
  expect(await framesShown(player)).toBe(0);

  await api(`/${id}/start`);
  await moreFrames(player);
  const { page: late } = await connect("whep", (await api(`/${id}/viewer-tokens`, { identity: "late" })).rtc);
  await moreFrames(late);

  for (const page of [player, late]) {
    await page.evaluate(() => {
      const transport = window.peer.getReceivers()[0]?.transport;
      if (transport) transport.onstatechange = () => (window.ended = [transport.state, transport.iceTransport.state]);
    });
  }
  await api(`/${id}/end`);
  for (const page of [player, late]) {
    await page.waitForFunction(() => window.ended, undefined, { polling: 50 });
    // The server has said so: the path is still there.
    expect(await page.evaluate(() => window.ended)).toEqual(["closed", "connected"]);
    const gone = ["disconnected", "failed", "closed"];
    await page.waitForFunction((gone) => gone.includes(window.peer.connectionState), gone, { polling: 100 });
  }
  expect((await connect("whep", watching)).status).toBe(409);
}, 180_000);

test("[10] a WHIP encoder restarts ICE within its session, and its viewers keep watching", async () => {
  const { id } = await api("", { title: "Roaming", hostIdentity: "host" });
  const { rtc: hosting } = await api(`/${id}/hosts`, { identity: "host" });
  await api(`/${id}/start`);
  const { page: encoder } = await connect("whip", hosting);
  const { page: player } = await connect("whep", (await api(`/${id}/viewer-tokens`, { identity: "player" })).rtc);
  await moreFrames(player);
  const restarted = await encoder.evaluate(async (token) => {
    const { peer } = window;
    const ufragOf = (sdp = "") => /a=ice-ufrag:(\S+)/.exec(sdp)?.[1] ?? "";
    const before = ufragOf(peer.remoteDescription?.sdp);
    await peer.setLocalDescription(await peer.createOffer({ iceRestart: true }));
    const offered = (peer.localDescription?.sdp ?? "").split("\r\n");
    const response = await fetch(window.sessionUrl, {
      method: "PATCH",
      headers: {
        "content-type": "application/trickle-ice-sdpfrag",
        "if-match": "*",
        authorization: `Bearer ${token}`,
      },
      body: `${offered.filter((line) => /^(?:m=|a=mid|a=ice-)/.test(line)).join("\r\n")}\r\n`,
    });
    const fragment = await response.text();
    const [ufrag, pwd] = [ufragOf(fragment), /a=ice-pwd:(\S+)/.exec(fragment)?.[1] ?? ""];
    const answer = (peer.currentRemoteDescription?.sdp ?? "")
      .replace(/a=ice-ufrag:\S+/g, `a=ice-ufrag:${ufrag}`)
      .replace(/a=ice-pwd:\S+/g, `a=ice-pwd:${pwd}`);
    await peer.setRemoteDescription({ type: "answer", sdp: answer });
    return { status: response.status, changed: ufrag !== before, candidates: fragment.includes("a=candidate:") };
  }, hosting.token);
  expect(restarted).toEqual({ status: 200, changed: true, candidates: true });
  await encoder.waitForFunction(() => window.peer.iceConnectionState === "connected", undefined, { polling: 50 });
  await moreFrames(player);
  expect((await world.call("GET", `/v1/rooms/${hosting.roomId}/participants`)).body).toHaveLength(2);
  await api(`/${id}/end`);
}, 180_000);

test("[4.5] a viewer's token cannot publish by WHIP", async () => {
  const { id } = await api("", { title: "Encoder", hostIdentity: "host" });
  await api(`/${id}/start`);
  const { rtc } = await api(`/${id}/viewer-tokens`, { identity: "viewer" });
  expect((await connect("whip", rtc)).status).toBe(403);
}, 180_000);
