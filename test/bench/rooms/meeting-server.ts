import type { PublishedSection } from "../../../src/protocol/signaling.ts";
import type { PeerOptions, RtcPeer } from "../../../src/rtc-client/peer.ts";
import type { PeerSection } from "../../../src/rtc-client/sdp.ts";
import { VIDEO } from "./traffic.ts";

/** The room of a participant, and its position in it. */
export type Place = { room: number; member: number };
export type PeerHooks = Required<Pick<PeerOptions, "onRtp" | "onRtcp" | "certificate">>;

/** A server with rooms in which each participant sends and watches all others, whatever its own protocol. */
export type MeetingServer = {
  name: string;
  /** The id of the process whose time and memory count. */
  pid: number;
  /** The number of participants that each packet has to reach. */
  copies: number;
  /** The connection by which a participant sends. */
  publish(place: Place, hooks: PeerHooks): Promise<RtcPeer>;
  /** Once all send: that by which the others are received, which may be the same. */
  watch(place: Place, sending: RtcPeer, hooks: PeerHooks): Promise<RtcPeer>;
  stop(): Promise<void>;
};

/** The largest layer first, as browsers list them for servers that go by the place in the list. */
export const SENT: PeerSection[] = [
  { kind: "audio", direction: "sendonly" },
  { kind: "video", direction: "sendonly", rids: VIDEO.layers.map(({ rid }) => rid).reverse() },
];

export const PUBLISHED: PublishedSection[] = [
  { mid: "0", clientTrackId: "a", kind: "audio", source: "microphone" },
  { mid: "1", clientTrackId: "v", kind: "video", source: "camera" },
];
