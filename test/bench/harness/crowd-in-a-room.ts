/** Many who send audio and video in one room and show some of each other, without a browser, through the socket. */

import { RtcPeer } from "../../../src/rtc-client/peer.ts";
import { RtpSource } from "../../../src/rtc-client/rtp-source.ts";
import type { PeerSection } from "../../../src/rtc-client/sdp.ts";
import { SignalingClient } from "../../../src/rtc-client/signaling-client.ts";
import { createCertificate } from "../../../src/sfu/werift/werift-hooks.ts";
import type { Api } from "../../harness/api.ts";

const FRAMES_PER_SECOND = 15;
const PACKETS_PER_FRAME = 2;
const AUDIO_PACKETS_PER_SECOND = 50;
/** "There is room": nine tiles are to be sent, not what an estimate allows before it has seen them. */
const ROOM_BPS = 5_000_000;
const REMB_EVERY_MS = 500;
const OPUS = 111;
const VP8 = 96;

type Person = {
  client: SignalingClient;
  peer: RtcPeer;
  audio: RtpSource;
  video: RtpSource;
  got: { audio: number; video: number };
  /** A participant who has just come asks for a keyframe. */
  wanted: { keyframe: boolean };
};

type CrowdFigures = { leastVideo: number; expectedVideo: number; leastAudio: number; mostAudio: number };

export type Crowd = {
  joinMs: number[];
  /** All participants send for this long, and on while anyone is still watching. Returns what arrived. */
  talk(seconds: number, onlookers?: Promise<unknown>): Promise<CrowdFigures>;
  leave(): Promise<void>;
};

export async function joinCrowd(options: {
  api: Api;
  url: string;
  roomId: string;
  names: string[];
  tiles: number;
}): Promise<Crowd> {
  const { api, url, roomId, names, tiles } = options;
  const certificate = await createCertificate();
  const sections: PeerSection[] = [
    { kind: "audio", direction: "sendonly" },
    { kind: "video", direction: "sendonly" },
    ...Array.from({ length: tiles }, () => ({ kind: "audio", direction: "recvonly" }) as const),
    ...Array.from({ length: tiles }, () => ({ kind: "video", direction: "recvonly", feedback: "goog-remb" }) as const),
  ];
  const people: Person[] = [];
  const joinMs: number[] = [];
  for (const [i, name] of names.entries()) {
    const { token } = await api.mint(roomId, name);
    const startedAt = performance.now();
    const client = new SignalingClient({ url, token });
    await client.join();
    const got = { audio: 0, video: 0 };
    const wanted = { keyframe: true };
    const peer = await RtcPeer.create({
      node: { negotiate: client.negotiate },
      roomId: "",
      participantId: "",
      certificate,
      sections,
      onRtp: ({ payloadType }) => void (payloadType === OPUS ? got.audio++ : got.video++),
      onRtcp: ({ type }) => {
        if (type === "pli" || type === "fir") wanted.keyframe = true;
      },
    });
    await peer.connect(
      [
        { mid: "0", clientTrackId: "mic", kind: "audio", source: "microphone" },
        { mid: "1", clientTrackId: "cam", kind: "video", source: "camera" },
      ],
      [],
    );
    joinMs.push(performance.now() - startedAt);
    const audio = new RtpSource({ ssrc: 1_000 + i, payloadType: OPUS, mid: "0", audioLevel: 20 + i });
    const video = new RtpSource({ ssrc: 2_000 + i, payloadType: VP8, mid: "1" });
    audio.sendAudio(peer);
    video.sendFrame(peer, true);
    people.push({ client, peer, audio, video, got, wanted });
  }
  await showTheNext(people, names, { api, roomId, tiles });

  async function talk(seconds: number, onlookers: Promise<unknown> = Promise.resolve()): Promise<CrowdFigures> {
    let isWatched = true;
    const leave = () => {
      isWatched = false;
    };
    void onlookers.then(leave, leave);
    const before = people.map(({ got }) => ({ ...got }));
    const startedAt = performance.now();
    const sent = { audio: 0, video: 0 };
    let rembDueMs = 0;
    while (isWatched || performance.now() - startedAt < seconds * 1_000) {
      const elapsed = (performance.now() - startedAt) / 1_000;
      for (; sent.audio < elapsed * AUDIO_PACKETS_PER_SECOND; sent.audio++)
        for (const { peer, audio } of people) audio.sendAudio(peer);
      for (; sent.video < elapsed * FRAMES_PER_SECOND; sent.video++)
        for (const { peer, video, wanted } of people) {
          video.sendFrame(peer, wanted.keyframe, PACKETS_PER_FRAME, 1_000);
          wanted.keyframe = false;
        }
      if (performance.now() > rembDueMs) {
        rembDueMs = performance.now() + REMB_EVERY_MS;
        for (const { peer } of people) peer.sendRemb(ROOM_BPS);
      }
      await Bun.sleep(2);
    }
    await Bun.sleep(300);
    const video = people.map(({ got }, i) => got.video - (before[i]?.video ?? 0));
    const audio = people.map(({ got }, i) => got.audio - (before[i]?.audio ?? 0));
    return {
      leastVideo: Math.min(...video),
      expectedVideo: sent.video * PACKETS_PER_FRAME * Math.min(tiles, people.length - 1),
      leastAudio: Math.min(...audio),
      mostAudio: Math.max(...audio),
    };
  }

  return {
    joinMs,
    talk,
    async leave() {
      for (const { peer } of people) peer.close();
      await Promise.all(people.map(({ client }) => client.leave()));
    },
  };
}

/** Each participant shows those who join after it. */
async function showTheNext(
  people: Person[],
  names: string[],
  { api, roomId, tiles }: { api: Api; roomId: string; tiles: number },
): Promise<void> {
  type Listed = { identity: string; tracks: { id: string; kind: string }[] };
  let listed: Listed[] = [];
  const isComplete = () => names.every((name) => listed.find(({ identity }) => identity === name)?.tracks.length === 2);
  while (!isComplete()) {
    await Bun.sleep(50);
    listed = JSON.parse((await api.call("GET", `/v1/rooms/${roomId}/participants`)).text);
  }
  const tracksOf = new Map(listed.map(({ identity, tracks }) => [identity, tracks]));
  for (const [i, { client, peer }] of people.entries()) {
    const tracks = Array.from({ length: Math.min(tiles, people.length - 1) }, (_, k) =>
      (tracksOf.get(names[(i + 1 + k) % names.length] ?? "") ?? []).map(({ id, kind }) => ({
        trackId: id,
        mid: String((kind === "audio" ? 2 : 2 + tiles) + k),
        maxHeight: 180,
      })),
    ).flat();
    peer.sendRemb(ROOM_BPS);
    await client.request("subscription.update", { tracks });
  }
}
