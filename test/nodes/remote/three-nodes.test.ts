// needs: chromium python3
/** A room on three media nodes, each on a machine of its own, 40 ms away from the others each way, on links that lose 2 %. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { join, type Participant } from "../../../src/rtc-client/participant/participant.ts";
import { RtcPeer } from "../../../src/rtc-client/peer.ts";
import { RtpSource } from "../../../src/rtc-client/rtp-source.ts";
import type * as Sdk from "../../../web/sdk/index.ts";
import { type Link, openLink } from "../../e2e/networks/link.ts";
import { serveSite } from "../../e2e/sdk/stage.ts";
import { openChromium } from "../../harness/browsers.ts";
import { Fleet, type Process } from "./fleet-of-processes.ts";
import { moreFrames, Streams } from "./streams.ts";
import { until } from "./until.ts";

const LONG = 180_000;
const LINK = { delayMs: 40, loss: 0.02 };
const ROUND_TRIP_MS = 2 * LINK.delayMs;
const REGIONS = { ada: "eu", ben: "us", cyd: "ap" } as const;
type Name = keyof typeof REGIONS;
const NAMES = Object.keys(REGIONS) as Name[];

let fleet: Fleet;
let nodes: Record<"eu1" | "us1" | "ap1", Process>;
let roomId: string;
const links: Link[] = [];
const people = {} as Record<Name, Participant>;
const streams = new Streams();
const stops: (() => unknown)[] = [];

const streamOf = (watcher: string, publisher: string) => streams.of(watcher, publisher);
const pairs = (names: readonly Name[]) => streams.among(names);

async function enter(name: Name): Promise<void> {
  const person = await join(fleet.url, await fleet.mint(roomId, name, REGIONS[name]));
  people[name] = person;
  stops.push(() => person.close());
  await streams.exchange(name, person);
}

const sites = async () =>
  ((await fleet.call("GET", `/v1/rooms/${roomId}`)).sites as unknown as { serverName: string }[])
    .map(({ serverName }) => serverName)
    .sort();

beforeAll(async () => {
  fleet = await Fleet.start();
  const { eu1, us1, ap1 } = fleet.lan.machines;
  for (const [near, far] of [[eu1, us1] as const, [us1, ap1] as const, [ap1, eu1] as const]) {
    const link = await openLink(near, far);
    link.set({ up: LINK, down: LINK });
    links.push(link);
  }
  const [eu, us, ap] = await Promise.all([fleet.node("eu1", "eu"), fleet.node("us1", "us"), fleet.node("ap1", "ap")]);
  nodes = { eu1: eu, us1: us, ap1: ap };
  roomId = await fleet.room("eu");
  for (const name of NAMES) await enter(name);
}, LONG);

afterAll(async () => {
  for (const stop of stops.reverse()) await stop();
  for (const link of links) await link.close();
  await fleet?.close();
}, LONG);

test(
  "audio and video reach all of three nodes, and what the links lose is sent again",
  async () => {
    expect(await sites()).toEqual(["ap1", "eu1", "us1"]);
    const all = pairs(NAMES);
    await moreFrames(all, 1);
    await until(() => all.every(({ samples }) => samples > 48_000));
    const from = all.map(({ timestamps }) => timestamps.length);
    await moreFrames(all, 60);
    // Without repair, seven of 360 would be missing.
    expect(all.reduce((sum, stream, n) => sum + stream.missing(from[n] ?? 0), 0)).toBeLessThanOrEqual(1);
  },
  LONG,
);

test(
  "[17] operators see the loss of each link, and participants who get tracks over a bad link are notified",
  async () => {
    type Links = { links: { servers: string[]; state: string; rttMs: number; lossPercent: number | null }[] };
    const read = async () => ((await fleet.asOperator("GET", "/v1/rtc/links")) as unknown as Links).links;
    const known = await until(async () => {
      const all = await read();
      return all.every(({ lossPercent }) => lossPercent !== null) && all;
    });
    expect(known.map(({ servers, state }) => `${[...servers].sort()} ${state}`).sort()).toEqual([
      "ap1,eu1 up",
      "ap1,us1 up",
      "eu1,us1 up",
    ]);
    for (const { rttMs, lossPercent } of known) {
      expect(rttMs).toBeGreaterThan(ROUND_TRIP_MS - 5);
      expect(lossPercent).toBeLessThan(8);
    }
    const lossy = { ...LINK, loss: 0.2 };
    links[0]?.set({ up: lossy, down: lossy });
    const gil = await fleet.member(roomId, "gil", "us");
    await gil.watch("ada");
    const [told] = await until(() => gil.of("quality.explained").length > 0 && gil.of("quality.explained"));
    links[0]?.set({ up: LINK, down: LINK });
    expect(told?.cause).toBe("server_link");
    await gil.client.request("room.leave");
    gil.close();
  },
  LONG,
);

/** Runs in the page. */
async function takePart({ endpoint, token }: { endpoint: string; token: string }): Promise<void> {
  const path = "/sdk.js";
  const sdk: typeof Sdk = await import(path);
  const room = await sdk.connect(endpoint, token);
  const shown = new Map<string, HTMLMediaElement>();
  Object.assign(window, {
    /** The identities whose sound plays and whose video moves. */
    shown: () => [...shown].flatMap(([key, element]) => (element.currentTime > 0.5 ? [key] : [])).sort(),
  });
  room.on("trackSubscribed", (track, participant) => {
    const element = track.attach();
    element.muted = true;
    document.body.append(element);
    shown.set(`${participant.identity} ${track.kind}`, element);
  });
  await room.localParticipant.enableCamera();
  await room.localParticipant.enableMicrophone();
}

test(
  "a browser on one of the nodes takes part with all others",
  async () => {
    const site = await serveSite();
    stops.push(() => site.stop(true));
    const browser = await openChromium();
    stops.push(() => browser.close());
    const context = await browser.newContext({ permissions: ["camera", "microphone"] });
    const page = await context.newPage();
    await page.goto(site.url.origin);
    const endpoint = `${fleet.url.replace(/^http/, "ws")}/v1/rtc`;
    await page.evaluate(takePart, { endpoint, token: await fleet.mint(roomId, "dan", "us") });
    const expected = NAMES.flatMap((name) => [`${name} audio`, `${name} video`]);
    await page.waitForFunction(
      (all) => JSON.stringify((window as unknown as { shown(): string[] }).shown()) === JSON.stringify(all),
      expected,
      { timeout: LONG / 2 },
    );
    await until(() => NAMES.every((name) => streamOf(name, "dan").timestamps.length > 5));
    await until(() => NAMES.every((name) => streamOf(name, "dan").samples > 10_000));
    await browser.close();
  },
  LONG,
);

test(
  "a keyframe comes within a round trip of the link and the time of its encoder",
  async () => {
    // The participants of the other room watch everything.
    const alone = await fleet.room("eu");
    const publisher = await fleet.member(alone, "eve", "eu");
    const watcher = await fleet.member(alone, "fay", "ap");
    const ref = { roomId: "", participantId: "", hostname: "0.0.0.0" };
    // Each track is watched once, because a track that was watched recently continues to cross the link for a while.
    const mids = Array.from({ length: 8 }, (_, n) => String(n));
    const sources = mids.map((mid, n) => new RtpSource({ ssrc: 7 + n, payloadType: 96, mid }));
    const sending = await RtcPeer.create({
      ...ref,
      node: publisher.client,
      sections: mids.map(() => ({ kind: "video" as const, direction: "sendonly" as const })),
      onRtcp(packet, peer) {
        if (packet.type !== "pli") return;
        for (const source of sources) if (source.options.ssrc === packet.mediaSsrc) source.sendFrame(peer, true);
      },
    });
    stops.push(() => sending.close());
    const sections = mids.map(
      (mid) => ({ mid, clientTrackId: `camera ${mid}`, kind: "video", source: "camera" }) as const,
    );
    await sending.connect(sections, []);
    const timer = setInterval(() => {
      for (const source of sources) source.sendFrame(sending, false);
    }, 40);
    stops.push(() => clearInterval(timer));
    const published = () => watcher.of("track.published").filter(({ identity }) => identity === "eve");
    await until(() => published().length === mids.length);
    let heard = Promise.withResolvers<number>();
    const watching = await RtcPeer.create({
      ...ref,
      node: watcher.client,
      sections: [{ kind: "video" as const, direction: "recvonly" as const }],
      onRtp({ data, payloadOffset }) {
        // After a descriptor of four bytes, the first bit of a VP8 frame is 0 in a keyframe.
        if (((data[payloadOffset + 4] ?? 1) & 1) === 0) heard.resolve(performance.now());
      },
    });
    stops.push(() => watching.close());
    await watching.connect([], []);
    const delays: number[] = [];
    for (const { track } of published()) {
      const startedAt = performance.now();
      await watcher.client.request("subscription.update", { tracks: [{ trackId: track.id, mid: "0" }] });
      delays.push((await heard.promise) - startedAt);
      await watcher.client.request("subscription.update", { tracks: [{ trackId: track.id, mid: null }] });
      heard = Promise.withResolvers();
    }
    // A busy machine delays most of them.
    expect(Math.min(...delays)).toBeGreaterThan(ROUND_TRIP_MS - 10);
    expect(Math.min(...delays)).toBeLessThan(ROUND_TRIP_MS + 60);
  },
  LONG,
);

test(
  "the control plane and then a node are killed: the others continue, and the node's are back within five seconds",
  async () => {
    const lasting = pairs(["ada", "cyd"]);
    const reset = () => {
      for (const stream of lasting) stream.longestGapMs = 0;
    };
    reset();
    await fleet.stopServer("SIGKILL");
    await moreFrames(pairs(NAMES), 5);
    const resumed = NAMES.map((name) => new Promise<void>((resolve) => people[name].once("reconnected", resolve)));
    await fleet.startServer();
    await Promise.all(resumed);
    await moreFrames(pairs(NAMES), 5);
    for (const { longestGapMs } of lasting) expect(longestGapMs).toBeLessThan(2_000);
    expect(await sites()).toEqual(["ap1", "eu1", "us1"]);

    reset();
    const lostAt = performance.now();
    nodes.us1.child.kill("SIGKILL");
    const again = [streamOf("ada", "ben"), streamOf("ben", "ada")];
    for (const stream of again) stream.timestamps.length = 0;
    await until(() => again.every(({ timestamps }) => timestamps.length > 1));
    expect(performance.now() - lostAt).toBeLessThan(5_000);
    await moreFrames(lasting, 5);
    for (const { longestGapMs } of lasting) expect(longestGapMs).toBeLessThan(2_000);
    expect(await sites()).toEqual(["ap1", "eu1"]);
  },
  LONG,
);
