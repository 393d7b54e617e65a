/** Two media nodes of this process, linked as a control plane links those of two machines. */
import { afterEach, expect, test } from "bun:test";
import { EmbeddedMedia } from "../../src/nodes/embedded-media.ts";
import { createNodeLinks } from "../../src/nodes/node-links.ts";
import { MediaError, type MediaEvent, type RelayEvent } from "../../src/protocol/media-node.ts";
import { type PeerOptions, RtcPeer } from "../../src/rtc-client/peer.ts";
import { RtpSource } from "../../src/rtc-client/rtp-source.ts";
import { ALL, CAMERA } from "../sfu/room-of-peers.ts";
import { until } from "./remote/until.ts";

const ROOM = { roomId: "r" };
const LONG = 90_000;
const RELAYED = ["linkChanged", "relayOffered", "relayMuted", "relayEnded", "relayData"];
const cleanup: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of cleanup.splice(0).reverse()) await close();
});

class Node {
  readonly events: MediaEvent[] = [];
  constructor(
    readonly serverName: string,
    readonly node: EmbeddedMedia,
  ) {}

  async add(identity: string, sections: PeerOptions["sections"]): Promise<RtcPeer> {
    await this.node.addParticipant({ ...ROOM, participantId: identity, identity, permissions: ALL });
    const peer = await RtcPeer.create({ node: this.node, ...ROOM, participantId: identity, sections });
    cleanup.push(() => peer.close());
    return peer;
  }

  async film(identity: string): Promise<{ peer: RtcPeer; trackId: string }> {
    const peer = await this.add(identity, [{ kind: "video", direction: "sendonly" }]);
    await peer.connect([CAMERA], []);
    const source = new RtpSource({ ssrc: 7, payloadType: 96, mid: "0" });
    let frames = 0;
    const timer = setInterval(() => source.sendFrame(peer, frames++ % 50 === 0), 10);
    cleanup.push(() => clearInterval(timer));
    const published = await until(() =>
      this.events.find((event) => event.type === "trackPublished" && event.identity === identity),
    );
    return { peer, trackId: published.type === "trackPublished" ? published.track.id : "" };
  }

  async watch(identity: string, trackId: string): Promise<RtcPeer> {
    const peer = await this.add(identity, [{ kind: "video", direction: "recvonly" }]);
    await peer.connect([], [{ mid: "0", trackId }]);
    await receives(peer);
    return peer;
  }

  relays = async () => (await this.node.load()).relays;
}

async function receives(peer: RtcPeer, packets = 20): Promise<void> {
  const before = peer.mediaIn;
  await until(() => peer.mediaIn >= before + packets);
}

async function two(workers = 1) {
  const split: string[][] = [];
  const links = createNodeLinks({
    split: (_, serverNames) => void split.push([...serverNames]),
    hasTrack: () => true,
  });
  const start = async (serverName: string) => {
    const where = { port: 0, hostname: "127.0.0.1", announce: ["127.0.0.1"], tcp: false };
    const log = { info() {}, error() {} };
    const media = await EmbeddedMedia.start({
      workers,
      warmUp: false,
      log,
      ...where,
      spreadFrom: workers > 1 ? 1 : 100,
    });
    cleanup.push(() => media.close());
    const node = new Node(serverName, media);
    media.onEvent((event) => {
      node.events.push(event);
      if (RELAYED.includes(event.type)) links.received(serverName, event as RelayEvent);
    });
    await media.openRoom(ROOM);
    return node;
  };
  const [a, b] = [await start("a"), await start("b")];
  await links.share(ROOM.roomId, [a], b);
  return { links, split, a, b };
}

test(
  "a track crosses while someone on the other node watches it, and once for all of them",
  async () => {
    const { a, b, links } = await two();
    const { trackId } = await a.film("ada");
    expect([await a.relays(), await b.relays()]).toEqual([
      { links: 1, streams: 0 },
      { links: 1, streams: 0 },
    ]);
    for (const identity of ["ben", "cyd"]) await b.watch(identity, trackId);
    expect(await a.relays()).toEqual({ links: 1, streams: 1 });
    for (const participantId of ["ben", "cyd"]) await b.node.removeParticipant({ ...ROOM, participantId });
    await until(async () => (await a.relays())?.streams === 0);
    links.leave(ROOM.roomId, "b");
    await until(async () => (await a.relays())?.links === 0);
  },
  LONG,
);

test(
  "a track from another node reaches every worker of this one, and data reaches everybody once",
  async () => {
    const { a, b } = await two(2);
    const { trackId } = await a.film("ada");
    const ben = await b.watch("ben", trackId);
    const cyd = await until(async () => {
      const peer = await b.watch(`cyd${Math.random()}`, trackId);
      return peer.remote.port === ben.remote.port ? undefined : peer;
    });
    await receives(cyd);
    await receives(ben);
    // The way back begins on the second worker of one node and ends on the second of the other.
    const { trackId: back } = await b.film("dan");
    await a.watch("eve", back);
    await a.watch("fay", back);
    await b.node.sendData({ ...ROOM, from: "dan", payload: "hello" });
    const heard = (node: Node) => node.events.flatMap((event) => (event.type === "data" ? event.recipients : []));
    await until(() => heard(a).length === 3);
    expect(heard(a).sort()).toEqual(["ada", "eve", "fay"]);
    expect(new Set(heard(b)).size).toBe(heard(b).length);
    expect(heard(b)).not.toContain("dan");
  },
  LONG,
);

test(
  "a node that is silent for three seconds is split off, and nodes are linked only after both have answered",
  async () => {
    const { a, b, split, links } = await two();
    const { trackId } = await b.film("ben");
    await a.watch("ada", trackId);
    await b.node.close();
    const changes = () => a.events.flatMap((event) => (event.type === "linkChanged" ? [event.state] : []));
    await until(() => split.length > 0);
    expect([...new Set(changes())]).toEqual(["up", "silent", "down"]);
    expect(split).toEqual([["a", "b"]]);
    await expect(links.share(ROOM.roomId, [a], { ...b, serverName: "c" } as Node)).rejects.toThrow(MediaError);
  },
  LONG,
);
