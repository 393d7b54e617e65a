import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { Negotiate } from "../../../src/protocol/media-node.ts";
import { RtcPeer } from "../../../src/rtc-client/peer.ts";
import type { RtpSource } from "../../../src/rtc-client/rtp-source.ts";
import type { RtpView } from "../../../src/sfu/wire/rtp/rtp.ts";
import { ALL, ROOM, RoomOfPeers, refusal } from "../room-of-peers.ts";

type Speaker = { peer: RtcPeer; source: RtpSource };
const SPEAKING = 20;
const QUIET = 90;

describe("sections for the loudest voices", () => {
  let room: RoomOfPeers;
  let speakers: Speaker[];
  beforeEach(async () => {
    // At most two voices are audible in this room.
    room = await RoomOfPeers.open();
    speakers = await Promise.all(["ann", "ben", "cay"].map((identity, i) => room.speaker(identity, 10 + i)));
  });
  afterEach(() => room.close());

  async function listener(voices: Negotiate["voices"], onRtp: (view: RtpView) => void = () => {}): Promise<RtcPeer> {
    await room.node.addParticipant({ roomId: ROOM, participantId: "ear", identity: "ear", permissions: ALL });
    const peer = await RtcPeer.create({
      node: { negotiate: (request) => room.node.negotiate({ ...request, voices }) },
      roomId: ROOM,
      participantId: "ear",
      certificate: room.certificate,
      onRtp,
      sections: Array.from({ length: 2 }, () => ({ kind: "audio" as const, direction: "recvonly" as const })),
    });
    await peer.connect([], []);
    return peer;
  }

  /** Packets of all, until the listener has these identities on its sections. */
  async function talkUntil(levels: number[], identities: string[]): Promise<void> {
    const holds = () => JSON.stringify(Object.values(told()).sort()) === JSON.stringify(identities);
    const deadline = performance.now() + 5_000;
    while (!holds()) {
      if (performance.now() > deadline) throw new Error(`heard ${JSON.stringify(told())} instead of ${identities}`);
      await talk(levels, 1);
    }
  }

  async function talk(levels: number[], rounds: number): Promise<void> {
    for (let round = 0; round < rounds; round++) {
      for (const [k, { peer, source }] of speakers.entries()) {
        source.options.audioLevel = levels[k] ?? 127;
        source.sendAudio(peer);
      }
      await Bun.sleep(10);
    }
  }

  const told = (): Record<string, string> =>
    room.events.findLast((event) => event.type === "voicesChanged" && event.identity === "ear")?.["voices" as never] ??
    {};

  test("get one voice after another, without an offer, and a voice keeps its section while it is loud", async () => {
    const ssrcs = new Set<number>();
    const ear = await listener({ mids: ["0", "1"], except: [] }, (view) => void ssrcs.add(view.ssrc));
    await talkUntil([SPEAKING, SPEAKING, QUIET], ["ann", "ben"]);
    const sectionOf = (identity: string) => Object.entries(told()).find(([, one]) => one === identity)?.[0];
    const before = sectionOf("ann");
    await talkUntil([SPEAKING, QUIET, SPEAKING], ["ann", "cay"]);
    expect(sectionOf("ann")).toBe(before as string);
    ssrcs.clear();
    await talk([SPEAKING, QUIET, SPEAKING], 20);
    expect(ssrcs.size).toBe(2);
    ear.close();
  }, 15_000);

  test("never get a microphone that is excluded, unsubscribed, or of a participant that has left", async () => {
    await talk([SPEAKING, SPEAKING, QUIET], 2);
    const trackOf = async (identity: string) =>
      (await room.event("trackPublished", (event) => event.identity === identity)).track.id;
    await listener({ mids: ["0", "1"], except: [await trackOf("ann")] });
    await talkUntil([SPEAKING, SPEAKING, QUIET], ["ben"]);
    const ben = await trackOf("ben");
    await room.node.updateSubscriptions({ roomId: ROOM, participantId: "ear", tracks: [{ trackId: ben, mid: null }] });
    await talkUntil([SPEAKING, QUIET, SPEAKING], ["cay"]);
    await room.node.removeParticipant({ roomId: ROOM, participantId: "cay" });
    expect(told()).toEqual({});
    expect(
      room.events.flatMap((event) => (event.type === "voicesChanged" ? Object.values(event.voices) : [])),
    ).not.toContain("ann");
  }, 15_000);

  test("must receive audio, and need the permission to subscribe", async () => {
    expect(await refusal(listener({ mids: ["0", "0"], except: [] }))).toBe("NEGOTIATION_FAILED");
    expect(await refusal(listener({ mids: ["7"], except: [] }))).toBe("NEGOTIATION_FAILED");
    const ref = { roomId: ROOM, participantId: "ear" };
    await room.node.setPermissions({ ...ref, permissions: { ...ALL, subscribe: false } });
    expect(await refusal(listener({ mids: ["0"], except: [] }))).toBe("PERMISSION_DENIED");
  });
});
