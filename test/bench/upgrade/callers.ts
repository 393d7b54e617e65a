/** All clients of a round that send and receive media, in a process of their own. */
import type { JoinAck } from "../../../src/protocol/signaling.ts";
import { RtcPeer } from "../../../src/rtc-client/peer.ts";
import { RtpSource } from "../../../src/rtc-client/rtp-source.ts";
import { readAnswer } from "../../../src/rtc-client/sdp.ts";
import { createCertificate, type DtlsCertificate } from "../../../src/sfu/werift/werift-hooks.ts";
import { Member } from "../../nodes/remote/member.ts";
import { until } from "../../nodes/remote/until.ts";
import { tcpPeerSocket } from "../../ops/tcp-peer-socket.ts";
import { turnPeerSocket } from "../../ops/turn-peer-socket.ts";
import { CallMember, type Watched } from "./call-member.ts";
import { serveHelper } from "./helper.ts";
import { LivekitMember } from "./livekit-member.ts";

const TICK_MS = 20;
/** Clients do not send all at once. */
const PHASES = 4;
const OPENED_AT_ONCE = 4;

export type Opening = {
  url: string;
  /** The port of TURN over TLS. */
  turnPort: number;
  /** The tokens of each room's participants. */
  rooms: string[][];
  whip: { roomId: string; token: string; viewerToken: string };
  livekit: string[];
};

/** `direct` is by UDP; the gaps of others are those that the bench itself has noticed. */
type Situation = { modes: string[]; told: string[]; othersGaps: number[] };

type Ticking = { tick(): void };

const certificate: DtlsCertificate = await createCertificate();
let members: CallMember[] = [];
let others: CallMember[] = [];
let livekit: LivekitMember[] = [];
let whip: Awaited<ReturnType<typeof openWhip>> | null = null;
let ticking: Ticking[] = [];

let ticks = 0;
const startedAt = performance.now();
setInterval(() => {
  const due = Math.floor((performance.now() - startedAt) / (TICK_MS / PHASES));
  // What a pause has missed is not made up for.
  for (ticks = Math.max(ticks, due - PHASES); ticks < due; ticks++) {
    for (let i = ticks % PHASES; i < ticking.length; i += PHASES) ticking[i]?.tick();
  }
}, TICK_MS / PHASES);

/** The last participant of the first room comes by ICE-TCP, and the first of the last room by TURN. */
function memberOf(url: string, token: string, count: number, way: "direct" | "tcp" | "relay", turnPort: number) {
  const options = { others: count - 1, certificate };
  if (way === "direct") return new CallMember(url, token, options);
  const relayed = (joined: Promise<JoinAck>) => async (onData: (data: Buffer) => void) => {
    const turn = (await joined).iceServers.find(({ username }) => username !== undefined);
    return turnPeerSocket(turnPort, turn ?? {})(onData);
  };
  const openSocket = way === "tcp" ? () => tcpPeerSocket : relayed;
  const member = new CallMember(url, token, { ...options, openSocket });
  others.push(member);
  return member;
}

async function openRoom({ url, turnPort, rooms }: Opening, index: number): Promise<void> {
  const tokens = rooms[index] ?? [];
  const room = tokens.map((token, i) => {
    const isTcp = index === 0 && i === tokens.length - 1;
    const isRelayed = index === rooms.length - 1 && i === 0;
    return memberOf(url, token, tokens.length, isTcp ? "tcp" : isRelayed ? "relay" : "direct", turnPort);
  });
  for (const member of room) await member.publish();
  for (const member of room) await member.watch(room.filter((other) => other !== member));
  members.push(...room);
  ticking.push(...room);
}

async function openWhip(url: string, { roomId, token, viewerToken }: Opening["whip"]) {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/sdp" };
  let location = "";
  const peer = await RtcPeer.create({
    node: {
      async negotiate({ sdp }) {
        const answer = await fetch(`${url}/whip/${roomId}`, { method: "POST", headers, body: sdp });
        location = answer.headers.get("location") ?? "";
        return { sdp: await answer.text(), tracks: [] };
      },
    },
    roomId: "",
    participantId: "",
    sections: [{ kind: "video", direction: "sendonly" }],
    certificate,
    hostname: "0.0.0.0",
  });
  await peer.connect(undefined, undefined);
  const source = new RtpSource({ ssrc: 31, payloadType: 96, mid: "0" });
  let count = 0;
  const sender = { tick: () => count++ % 2 === 0 && source.sendFrame(peer, true) };
  ticking.push(sender as Ticking);
  const viewer = new Member(url, viewerToken);
  await viewer.join();
  await viewer.watch("whip");
  return {
    viewer,
    watched(): Watched {
      const [ssrc = 0] = readAnswer(viewer.peer?.answerSdp ?? "")[0]?.ssrcs ?? [];
      return { port: viewer.peer?.port ?? 0, ssrc, sourcePort: peer.port };
    },
    async end(): Promise<number> {
      const { status } = await fetch(new URL(location, url), { method: "DELETE", headers });
      ticking = ticking.filter((one) => one !== sender);
      peer.close();
      await viewer.client.leave();
      viewer.close();
      return status;
    },
  };
}

async function openLivekit(url: string, tokens: readonly string[]): Promise<void> {
  livekit = tokens.map((token) => new LivekitMember(url, token, { others: tokens.length - 1, certificate }));
  for (const member of livekit) await member.join();
  ticking.push(...livekit);
  await Promise.all(livekit.map((member) => member.watch()));
}

const functions = {
  async open(opening: Opening): Promise<void> {
    members = [];
    others = [];
    livekit = [];
    const waiting = [...opening.rooms.keys()];
    const open = async () => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) await openRoom(opening, next);
    };
    [whip] = await Promise.all([
      openWhip(opening.url, opening.whip),
      openLivekit(opening.url.replace("http", "ws"), opening.livekit),
      ...Array.from({ length: OPENED_AT_ONCE }, open),
    ]);
  },

  /** Resolves when everybody receives every video. */
  async ready(): Promise<void> {
    await until(() => functions.lacking().length === 0);
  },

  /** Who does not receive every video. */
  lacking(): string[] {
    return members.flatMap((member, i) => {
      const wanted = member.watched().length;
      const way = others.includes(member) ? "not by UDP" : "by UDP";
      return member.videos < wanted ? [`member ${i}, ${way}, receives ${member.videos} of ${wanted} videos`] : [];
    });
  },

  /** The videos that arrive by UDP. */
  watched(): Watched[] {
    const all = [
      ...members.flatMap((member) => member.watched()),
      ...livekit.flatMap((member) => member.watched(livekit.filter((other) => other !== member))),
      ...(whip ? [whip.watched()] : []),
    ];
    return all.filter(({ port }) => port !== 0);
  },

  /** Begins to note gaps and what the server tells. */
  forget(): void {
    for (const member of others) member.takeGaps();
    for (const member of members) member.pushes = [];
    if (whip) whip.viewer.pushes = [];
  },

  async resume(): Promise<string[]> {
    const all = [...members, ...livekit].map((member) => member.resume());
    return Promise.all([...all, ...(whip ? [whip.viewer.resume().then(({ mode }) => mode)] : [])]);
  },

  situation(): Omit<Situation, "modes"> {
    return {
      told: [
        ...members.flatMap(({ pushes }) => pushes),
        ...(whip?.viewer.pushes.map(({ type }) => type) ?? []),
        ...livekit.flatMap(({ told }) => told),
      ],
      othersGaps: others.flatMap((member) => member.takeGaps()),
    };
  },

  /** Returns what went wrong. */
  async leave(): Promise<string[]> {
    ticking = ticking.filter((one) => !members.includes(one as CallMember) && !livekit.includes(one as LivekitMember));
    await Promise.all([...members, ...livekit].map((member) => member.leave()));
    const status = await whip?.end();
    whip = null;
    return status === 204 ? [] : [`DELETE of WHIP: ${status}`];
  },
};

export type Callers = typeof functions;

serveHelper(functions);
