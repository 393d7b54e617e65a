import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findFfmpeg } from "../../../src/features/recordings/composition/ffmpeg.ts";
import { sectionsOf } from "../../../src/gateways/livekit/ingress/ingresses.ts";
import { RtcPeer } from "../../../src/rtc-client/peer.ts";
import { RtpSource } from "../../../src/rtc-client/rtp-source.ts";
import { media } from "../../features/recordings/ffmpeg.ts";
import { startReceiver } from "../../features/webhooks/receiver.ts";
import { openStage, type Stage, WAIT_MS } from "./harness/stage.ts";

// biome-ignore lint/suspicious/noExplicitAny: the classes of a stock package
type Anything = any;

const WHIP = 1;
const URL_INPUT = 2;
const [INACTIVE, BUFFERING, PUBLISHING, FAILED, COMPLETE] = [0, 1, 2, 3, 4];

let stage: Stage;
let ingress: Anything;
let sdk: Record<string, Anything>;
const events = startReceiver();
beforeAll(async () => {
  stage = await openStage();
  sdk = await import(join(stage.packages, "livekit-server-sdk"));
  ingress = new sdk.IngressClient(stage.server.url, stage.apiKey, stage.apiSecret);
  await stage.stoa.webhooks.create({ url: events.url, format: "livekit" });
}, 180_000);
afterAll(async () => {
  await stage.close();
  events.close();
});

const guest = { roomName: "stüdio one", participantIdentity: "obs 1", participantName: "Öbs" };

async function until(ingressId: string, done: (info: Anything) => boolean): Promise<Anything> {
  const deadline = Date.now() + WAIT_MS;
  for (;;) {
    const [info] = await ingress.listIngress({ ingressId });
    if (done(info)) return info;
    if (Date.now() > deadline) throw new Error(`ingress stays ${info.toJsonString()}`);
    await Bun.sleep(50);
  }
}
const isState =
  (status: number) =>
  ({ state }: Anything): boolean =>
    state.status === status;

const post = (url: string, sdp: string, key?: string) =>
  fetch(url, {
    method: "POST",
    headers: { "content-type": "application/sdp", ...(key && { authorization: `Bearer ${key}` }) },
    body: sdp,
  });

/** An encoder that sends sound and video until it is closed. */
async function encoder(url: string, key?: string) {
  let location = "";
  const peer = await RtcPeer.create({
    node: {
      async negotiate({ sdp }) {
        const answer = await post(url, sdp, key);
        if (answer.status !== 201) throw new Error(`${answer.status} ${await answer.text()}`);
        location = new URL(answer.headers.get("location") ?? "", url).href;
        return { sdp: await answer.text(), tracks: [] };
      },
    },
    roomId: "",
    participantId: "",
    sections: [
      { kind: "audio", direction: "sendonly", ssrc: 11 },
      { kind: "video", direction: "sendonly", ssrc: 22 },
    ],
  });
  await peer.connect(undefined, undefined);
  const audio = new RtpSource({ ssrc: 11, payloadType: 111, mid: "0" });
  const video = new RtpSource({ ssrc: 22, payloadType: 96, mid: "1" });
  const timer = setInterval(() => {
    audio.sendAudio(peer);
    video.sendFrame(peer, true);
  }, 20);
  return {
    location,
    close() {
      clearInterval(timer);
      peer.close();
    },
  };
}

const eventsOf = (ingressId: string) =>
  events.received.map(({ body }) => JSON.parse(body)).filter(({ ingressInfo }) => ingressInfo?.ingressId === ingressId);

test("an encoder that publishes with the stream key is a participant, and the ingress's state and events show it", async () => {
  const video = new sdk.IngressVideoOptions({ name: "slides", source: 3 });
  const made = await ingress.createIngress(WHIP, { ...guest, name: "main", participantMetadata: "m", video });
  expect(made).toMatchObject({ ...guest, name: "main", url: `${stage.server.url}/w`, reusable: true, inputType: 1 });
  expect([made.state.status, made.video.name, made.enabled]).toEqual([INACTIVE, "slides", true]);
  expect(made.ingressId).toMatch(/^IN_\w{24}$/);
  const wrong = `${made.streamKey.slice(0, -1)}${made.streamKey.endsWith("0") ? 1 : 0}`;
  expect((await post(made.url, "v=0", wrong)).status).toBe(401);
  expect((await post(made.url, "v=0")).status).toBe(401);

  const obs = await encoder(made.url, made.streamKey);
  expect(obs.location).not.toContain(made.streamKey);
  const live = await until(made.ingressId, ({ state }) => state.status === PUBLISHING && state.tracks.length === 2);
  expect(live.state.startedAt).toBeGreaterThan(0n);
  const seen = await stage.rooms.getParticipant("stüdio one", "obs 1");
  expect([seen.name, seen.metadata, seen.kind]).toEqual(["Öbs", "m", 1]);
  const sources = seen.tracks.map(({ source, name }: Anything) => [source, name]).sort();
  expect(sources).toEqual([
    [2, ""],
    [3, "slides"],
  ]);
  expect((await fetch(obs.location.replace(/.$/, "x"), { method: "DELETE" })).status).toBe(404);
  expect((await fetch(obs.location, { method: "DELETE" })).status).toBe(200);
  obs.close();
  const over = await until(made.ingressId, isState(INACTIVE));
  expect(over.state.endedAt).toBeGreaterThan(0n);
  expect(await stage.rooms.listParticipants("stüdio one")).toEqual([]);
  while (eventsOf(made.ingressId).length < 2) await Bun.sleep(50);
  const told = eventsOf(made.ingressId);
  expect(told.map(({ event }) => event)).toEqual(["ingress_started", "ingress_ended"]);
  expect(JSON.stringify(told)).not.toContain(made.streamKey);
  const stored = stage.server.runtime.db.$client.query("SELECT * FROM ingresses, audit_entries").all();
  expect(JSON.stringify(stored)).not.toContain(made.streamKey.slice(24));
}, 120_000);

test("an ingress can be used again with other settings and a key in the path, until it is disabled or deleted", async () => {
  const { ingressId, url, streamKey } = await ingress.createIngress(WHIP, guest);
  const changed = await ingress.updateIngress(ingressId, { name: "second", roomName: "studio two", enabled: true });
  expect(changed).toMatchObject({ ...guest, name: "second", roomName: "studio two", streamKey });
  const first = await encoder(`${url}/${streamKey}`);
  await until(ingressId, isState(PUBLISHING));
  const second = await encoder(url, streamKey);
  await until(ingressId, isState(PUBLISHING));
  expect((await stage.rooms.listParticipants("studio two")).map(({ identity }: Anything) => identity)).toEqual([
    "obs 1",
  ]);
  expect((await fetch(first.location, { method: "DELETE" })).status).toBe(404);
  const listed = await ingress.listIngress({ roomName: "studio two" });
  expect(listed.map((one: Anything) => one.ingressId)).toEqual([ingressId]);
  await ingress.updateIngress(ingressId, { name: "", enabled: false });
  await until(ingressId, isState(INACTIVE));
  expect((await post(url, "v=0", streamKey)).status).toBe(403);
  expect((await ingress.deleteIngress(ingressId)).ingressId).toBe(ingressId);
  expect(await ingress.listIngress({ ingressId })).toEqual([]);
  expect((await post(url, "v=0", streamKey)).status).toBe(401);
  for (const { close } of [first, second]) close();
}, 120_000);

test("an unsupported or forbidden request is refused with the reason", async () => {
  const refusal = (work: Promise<unknown>) =>
    work.then(
      () => "taken",
      (error: Anything) => error.code,
    );
  const create = (input: number, options: object) => refusal(ingress.createIngress(input, { ...guest, ...options }));
  const transcoded = new sdk.IngressVideoOptions({ encodingOptions: { case: "preset", value: 0 } });
  expect(await create(0, {})).toBe("unimplemented");
  expect(await create(WHIP, { enableTranscoding: true })).toBe("unimplemented");
  expect(await create(WHIP, { video: transcoded })).toBe("unimplemented");
  expect(await create(WHIP, { roomName: "" })).toBe("invalid_argument");
  expect(await create(WHIP, { participantIdentity: " " })).toBe("invalid_argument");
  for (const url of ["http://169.254.169.254/a", "http://10.1.2.3/a", "file:///etc/passwd", "https://a:b@example.com/"])
    expect([url, await create(URL_INPUT, { url })]).toEqual([url, "invalid_argument"]);
  expect(await refusal(ingress.updateIngress("IN_none", {}))).toBe("not_found");
  expect(await refusal(ingress.deleteIngress("IN_none"))).toBe("not_found");
  const token = await stage.token("x", "x", { grant: { roomAdmin: true } });
  const response = await fetch(`${stage.server.url}/twirp/livekit.Ingress/ListIngress`, {
    method: "POST",
    body: "{}",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
  });
  expect(response.status).toBe(403);
}, 60_000);

test.skipIf(findFfmpeg() === null)(
  "a URL is transcoded into the room, and its end is told",
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "stoa-ingress-"));
    const path = join(folder, "film.webm");
    const sources = ["-f", "lavfi", "-i", "testsrc=s=160x90:r=10:d=10", "-f", "lavfi", "-i", "sine=d=10"];
    media("ffmpeg", ...sources, "-c:v", "libvpx", "-c:a", "libopus", path);
    const inside: string[] = [];
    const site = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch(request) {
        const { pathname } = new URL(request.url);
        if (pathname === "/film.webm") return new Response(Bun.file(path));
        if (pathname === "/away") return Response.redirect("http://169.254.169.254/latest", 302);
        inside.push(pathname);
        return new Response("nothing", { status: 404 });
      },
    });
    const url = `http://127.0.0.1:${site.port}/film.webm?token=very-secret`;
    const made = await ingress.createIngress(URL_INPUT, { ...guest, roomName: "cinema", url });
    expect([made.url, made.state.status, made.reusable]).toEqual([url.split("?")[0], BUFFERING, false]);
    const live = await until(made.ingressId, ({ state }) => state.status === PUBLISHING && state.tracks.length === 2);
    expect(live.state.tracks.map(({ mimeType }: Anything) => mimeType).sort()).toEqual(["audio/opus", "video/VP8"]);
    const over = await until(made.ingressId, ({ state }) => state.endedAt > 0n);
    expect([over.state.status, over.state.error]).toEqual([COMPLETE, ""]);

    for (const lost of ["none", "away"]) {
      const wrong = `http://127.0.0.1:${site.port}/${lost}?token=very-secret`;
      const { ingressId } = await ingress.createIngress(URL_INPUT, { ...guest, url: wrong });
      const { state } = await until(ingressId, isState(FAILED));
      expect(state.error).not.toBe("");
      expect(state.error).not.toContain("very-secret");
    }
    expect(inside).toEqual(["/none"]);
    const { ingressId } = await ingress.createIngress(URL_INPUT, { ...guest, url });
    await ingress.deleteIngress(ingressId);
    expect(JSON.stringify(stage.server.runtime.db.$client.query("SELECT * FROM ingresses").all())).not.toContain(
      "very-secret",
    );
    await site.stop(true);
    rmSync(folder, { recursive: true });
  },
  180_000,
);

test("the sending sections of an offer are published with the names of the ingress", () => {
  const settings = { audio: { name: "", source: "microphone" }, video: { name: "v", source: "screenShare" } };
  const offer = [
    "v=0",
    "m=audio 9 UDP/TLS/RTP/SAVPF 111\r\na=mid:0\r\na=sendonly",
    "m=video 9 UDP/TLS/RTP/SAVPF 96\r\na=mid:1\r\na=sendrecv",
    "m=video 9 UDP/TLS/RTP/SAVPF 96\r\na=mid:2\r\na=recvonly",
    "m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\na=mid:3",
  ].join("\r\n");
  expect(sectionsOf(offer, settings as never)).toEqual([
    { mid: "0", clientTrackId: "0", kind: "audio", source: "microphone" },
    { mid: "1", clientTrackId: "1", kind: "video", source: "screenShare", name: "v" },
  ]);
});
