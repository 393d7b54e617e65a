// needs: ffmpeg
import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { RtcPeer } from "../../../src/rtc-client/peer.ts";
import { RtpSource } from "../../../src/rtc-client/rtp-source.ts";
import { decodeAll, media } from "../../features/recordings/ffmpeg.ts";
import { startReceiver } from "../../features/webhooks/receiver.ts";
import { until } from "../../nodes/remote/until.ts";
import { Upgradable } from "../../ops/upgradable.ts";
import { colour, sender } from "./harness/composed-room.ts";
import { type StageBeside, stageBeside } from "./harness/stage.ts";

// biome-ignore lint/suspicious/noExplicitAny: the classes of a stock package
type Anything = any;

const [WHIP, URL_INPUT] = [1, 2];
const [INACTIVE, PUBLISHING] = [0, 2];
const ABORTED = 5;

const host = new Upgradable();
const events = startReceiver();
let stage: StageBeside;
let sdk: Record<string, Anything>;
beforeAll(async () => {
  await host.prepare();
  const flags = ["--livekit-clients", "on", "--ingress-allow-private", "true", "--webhook-allow-private", "true"];
  await host.start(...flags, "--egress-dir", join(host.work, "composed"));
  const { url, key } = host.server;
  stage = await stageBeside({ url, apiKey: key, livekit: await host.livekitKey() });
  sdk = await import(join(stage.packages, "livekit-server-sdk"));
  await stage.stoa.webhooks.create({ url: events.url, format: "livekit" });
}, 180_000);
afterAll(async () => {
  await stage?.close();
  events.close();
  await host.end();
  host.remove();
});

/** An encoder that sends video until it is closed. */
async function encoder(url: string, key: string) {
  let location = "";
  const peer = await RtcPeer.create({
    node: {
      async negotiate({ sdp }) {
        const headers = { "content-type": "application/sdp", authorization: `Bearer ${key}` };
        const answer = await fetch(url, { method: "POST", headers, body: sdp });
        location = new URL(answer.headers.get("location") ?? "", url).href;
        return { sdp: await answer.text(), tracks: [] };
      },
    },
    roomId: "",
    participantId: "",
    sections: [{ kind: "video", direction: "sendonly", ssrc: 22 }],
  });
  await peer.connect(undefined, undefined);
  const video = new RtpSource({ ssrc: 22, payloadType: 96, mid: "0" });
  const timer = setInterval(() => video.sendFrame(peer, true), 40);
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

test("an encoder continues during an upgrade, a URL is fetched again, and a composition ends with a whole file and an error", async () => {
  const { url } = host.server;
  const ingress = new sdk.IngressClient(url, stage.apiKey, stage.apiSecret);
  const egress = new sdk.EgressClient(url, stage.apiKey, stage.apiSecret);
  const stateOf = async (ingressId: string) => (await ingress.listIngress({ ingressId }))[0].state;
  const publishes = (ingressId: string) => until(async () => (await stateOf(ingressId)).status === PUBLISHING);

  const film = join(host.work, "film.webm");
  const sources = ["-f", "lavfi", "-i", "testsrc=s=160x90:r=10:d=120"];
  media("ffmpeg", ...sources, "-c:v", "libvpx", "-deadline", "realtime", "-cpu-used", "8", film);
  const site = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response(Bun.file(film)) });
  const about = (roomName: string) => ({ roomName, participantIdentity: "input", participantName: "Input" });
  const address = `http://127.0.0.1:${site.port}/film.webm?token=very-secret`;
  const cinema = await ingress.createIngress(URL_INPUT, { ...about("cinema"), url: address });
  const studio = await ingress.createIngress(WHIP, about("studio"));
  const obs = await encoder(studio.url, studio.streamKey);
  await Promise.all([publishes(cinema.ingressId), publishes(studio.ingressId)]);

  const room = await stage.stoa.rooms.create({ name: "composed" });
  const ann = await sender(stage, room.id, "ann", await colour("red"), 500);
  const encodingOptions = new sdk.EncodingOptions({ width: 320, height: 180, framerate: 10 });
  const file = new sdk.EncodedFileOutput({ filepath: "composed" });
  const { egressId } = await egress.startRoomCompositeEgress("composed", { file }, { encodingOptions });
  const composition = async () => (await egress.listEgress({ egressId }))[0];
  await until(async () => ((await composition()).fileResults[0]?.startedAt ?? 0n) > 0n);

  const before = await stateOf(studio.ingressId);
  expect(await host.upgrade()).toMatchObject({ code: 0, err: "" });

  const composed = await composition();
  expect([composed.status, composed.error]).toEqual([
    ABORTED,
    "The server was upgraded while it was composing. Start it again.",
  ]);
  decodeAll(composed.fileResults[0].location);

  await publishes(cinema.ingressId);
  await until(() => eventsOf(cinema.ingressId).length >= 3);
  const told = eventsOf(cinema.ingressId);
  expect(told.map(({ event }) => event)).toEqual(["ingress_started", "ingress_ended", "ingress_started"]);
  expect(told[1].ingressInfo.state.error).toContain("The server was upgraded");
  await until(async () => (await stage.rooms.listParticipants("cinema"))[0]?.tracks.length === 1);
  expect(await stage.rooms.listParticipants("cinema")).toHaveLength(1);

  expect(await stateOf(studio.ingressId)).toMatchObject({
    status: PUBLISHING,
    startedAt: before.startedAt,
    resourceId: before.resourceId,
  });
  expect((await fetch(obs.location, { method: "DELETE" })).status).toBe(200);
  await until(async () => (await stateOf(studio.ingressId)).status === INACTIVE);
  await until(() => eventsOf(studio.ingressId).length >= 2);
  expect(eventsOf(studio.ingressId).map(({ event }) => event)).toEqual(["ingress_started", "ingress_ended"]);
  obs.close();
  await ingress.deleteIngress(cinema.ingressId);
  await until(async () => (await stage.rooms.listParticipants("cinema")).length === 0);
  await ann.close();
  await site.stop(true);
}, 180_000);
