import { mayPublish } from "../../src/protocol/may-publish.ts";
import type { NodeLoad } from "../../src/protocol/media/node-load.ts";
import {
  MediaError,
  type MediaEvent,
  type MediaNode,
  type ParticipantSnapshot,
} from "../../src/protocol/media-node.ts";
import type { Permissions, Track } from "../../src/protocol/room-records.ts";

type Peer = {
  roomId: string;
  participantId: string;
  identity: string;
  permissions: Permissions;
  state: ParticipantSnapshot["state"];
  /** Tracks by clientTrackId; `live` once their packets have arrived. */
  published: Map<string, { track: Track; live: boolean }>;
  subscriptions: { trackId: string; mid: string }[];
};

export type FakeMediaNode = MediaNode & {
  /** ICE and DTLS connect, and packets of the offered tracks arrive. */
  connect(participantId: string): void;
  emit(event: MediaEvent): void;
  /** Every call fails, as when a remote node does not respond. */
  reachable: boolean;
  /** The only worker crashes. */
  crash(): void;
  peers(): Peer[];
  calls: string[];
};

/** A media node in memory, without packets; the test controls its network events. */
export function fakeMediaNode(): FakeMediaNode {
  const rooms = new Map<string, Map<string, Peer>>();
  const listeners = new Set<(event: MediaEvent) => void>();
  const calls: string[] = [];
  let tracks = 0;

  const emit = (event: MediaEvent) => {
    for (const listener of listeners) listener(event);
  };
  const roomOf = (roomId: string) => {
    const room = rooms.get(roomId);
    if (!room) throw new MediaError("ROOM_NOT_FOUND", "no such room");
    return room;
  };
  const peerOf = ({ roomId, participantId }: { roomId: string; participantId: string }) => {
    const peer = roomOf(roomId).get(participantId);
    if (!peer) throw new MediaError("PARTICIPANT_NOT_FOUND", "no such participant");
    return peer;
  };
  const find = (participantId: string) =>
    [...rooms.values()].flatMap((room) => [...room.values()]).find((peer) => peer.participantId === participantId);
  const of = ({ roomId, participantId, identity }: Peer) => ({ roomId, participantId, identity });
  const unpublish = (peer: Peer, clientTrackId: string) => {
    const { track, live } = peer.published.get(clientTrackId) ?? {};
    peer.published.delete(clientTrackId);
    if (live && track) emit({ ...of(peer), type: "trackUnpublished", trackId: track.id });
  };
  const entryOf = (peer: Peer, trackId: string) => {
    const entry = [...peer.published].find(([, { track }]) => track.id === trackId);
    if (!entry) throw new MediaError("TRACK_NOT_FOUND", "no such track");
    return entry;
  };

  const node: FakeMediaNode = {
    calls,
    reachable: true,
    emit,
    peers: () => [...rooms.values()].flatMap((room) => [...room.values()]),
    connect(participantId) {
      const peer = find(participantId);
      if (!peer) throw new Error("connect: no such participant");
      if (peer.state !== "connected") {
        peer.state = "connected";
        emit({
          ...of(peer),
          type: "participantConnected",
          transport: "udp",
          remoteAddress: "127.0.0.1",
          connectMs: 20,
        });
      }
      for (const published of peer.published.values()) {
        if (published.live) continue;
        published.live = true;
        emit({ ...of(peer), type: "trackPublished", track: published.track });
      }
    },
    crash() {
      const lost = [...rooms].map(([roomId, room]) => ({ roomId, participantIds: [...room.keys()] }));
      rooms.clear();
      emit({ type: "workerCrashed", worker: 0, rooms: lost });
    },

    async openRoom({ roomId }) {
      if (!rooms.has(roomId)) rooms.set(roomId, new Map());
    },
    async closeRoom({ roomId }) {
      rooms.delete(roomId);
    },
    async addParticipant({ roomId, participantId, identity, permissions }) {
      const room = roomOf(roomId);
      if (room.has(participantId)) return;
      const empty = { state: "new" as const, published: new Map(), subscriptions: [] };
      room.set(participantId, { roomId, participantId, identity, permissions, ...empty });
    },
    async removeParticipant({ roomId, participantId }) {
      const peer = rooms.get(roomId)?.get(participantId);
      if (!peer) return;
      for (const clientTrackId of [...peer.published.keys()]) unpublish(peer, clientTrackId);
      rooms.get(roomId)?.delete(participantId);
    },
    async setPermissions({ permissions, ...ref }) {
      const peer = peerOf(ref);
      peer.permissions = permissions;
      if (!permissions.subscribe) peer.subscriptions = [];
      for (const [clientTrackId, { track }] of [...peer.published]) {
        if (!mayPublish(permissions, track.kind)) unpublish(peer, clientTrackId);
      }
    },
    async negotiate({ sdp, publish = [], subscribe = [], ...ref }) {
      const peer = peerOf(ref);
      if (!sdp.startsWith("v=0")) throw new MediaError("NEGOTIATION_FAILED", "the offer cannot be read");
      for (const { kind } of publish) {
        if (!mayPublish(peer.permissions, kind)) throw new MediaError("PERMISSION_DENIED", `may not publish ${kind}`);
      }
      for (const clientTrackId of [...peer.published.keys()]) {
        if (!publish.some((section) => section.clientTrackId === clientTrackId)) unpublish(peer, clientTrackId);
      }
      for (const { clientTrackId, kind, source, name = null } of publish) {
        if (peer.published.has(clientTrackId)) continue;
        const codec = kind === "audio" ? "opus" : "VP8";
        const track = { id: `trk_${++tracks}`, kind, source, name, muted: false, simulcast: kind === "video", codec };
        peer.published.set(clientTrackId, { track, live: false });
      }
      peer.subscriptions = subscribe.map(({ trackId, mid }) => ({ trackId, mid }));
      if (peer.state === "new") peer.state = "connecting";
      const answered = [...peer.published].map(([clientTrackId, { track }]) => ({ clientTrackId, trackId: track.id }));
      return { sdp: `v=0\r\ns=answer\r\n${"a=padding\r\n".repeat(Math.ceil(sdp.length / 12))}`, tracks: answered };
    },
    async updateSubscriptions({ tracks: changes, ...ref }) {
      const peer = peerOf(ref);
      const known = [...roomOf(ref.roomId).values()].flatMap((other) => [...other.published.values()]);
      for (const { trackId, mid } of changes) {
        if (mid !== null && !known.some(({ track }) => track.id === trackId)) {
          throw new MediaError("TRACK_NOT_FOUND", "no such track");
        }
        peer.subscriptions = peer.subscriptions.filter((subscription) => subscription.trackId !== trackId);
        if (mid !== null) peer.subscriptions.push({ trackId, mid });
      }
    },
    async setTrackMuted({ trackId, muted, ...ref }) {
      const peer = peerOf(ref);
      const [clientTrackId, entry] = entryOf(peer, trackId);
      if (entry.track.muted === muted) return;
      peer.published.set(clientTrackId, { ...entry, track: { ...entry.track, muted } });
      emit({ ...of(peer), type: muted ? "trackMuted" : "trackUnmuted", trackId });
    },
    async unpublish({ trackId, ...ref }) {
      const peer = peerOf(ref);
      unpublish(peer, entryOf(peer, trackId)[0]);
    },
    async setNetwork() {},
    async limitDownlink({ participantId, bitsPerSecond }) {
      calls.push(`limitDownlink ${participantId} ${bitsPerSecond}`);
    },
    async linkPoint({ roomId }) {
      roomOf(roomId);
      return { worker: 0, publicKey: "A".repeat(43), addresses: ["127.0.0.1"], port: 9 };
    },
    async relay({ method, request }) {
      calls.push(`${method} ${"trackId" in request ? request.trackId : ""}`.trim());
      if (method === "openLink") emit({ type: "linkChanged", linkId: request.linkId, state: "up", rttMs: 1 });
    },
    flight: async () => ({
      version: 1,
      sinceMs: 0,
      lastedMs: 1,
      streams: [],
      received: [],
      sent: [],
      rtcp: [],
      states: [],
    }),
    async startRecording({ roomId, recordingId }) {
      calls.push(`startRecording ${roomId} ${recordingId}`);
    },
    async stopRecording({ roomId, recordingId }) {
      calls.push(`stopRecording ${roomId} ${recordingId}`);
      emit({ type: "recordingEnded", roomId, recordingId });
    },
    async sendData({ roomId, from, topic, to, payload }) {
      const recipients = [...roomOf(roomId).values()]
        .filter(({ identity, permissions }) => identity !== from && permissions.publishData)
        .filter(({ identity }) => to === undefined || to.includes(identity))
        .map(({ participantId }) => participantId);
      if (recipients.length > 0) emit({ type: "data", roomId, from, topic, payload, recipients });
    },
    async room({ roomId }) {
      const room = rooms.get(roomId);
      return room ? { roomId, participants: [...room.values()].map(snapshotOf) } : null;
    },
    rooms: async () => [...rooms].map(([roomId, room]) => ({ roomId, participants: room.size })),
    load: async () => ({ ...IDLE, rooms: rooms.size, participants: node.peers().length }),
    onEvent(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    async close() {
      rooms.clear();
      listeners.clear();
    },
  };

  return new Proxy(node, {
    get(target, name: keyof FakeMediaNode) {
      const member = target[name];
      if (typeof member !== "function" || !(member.constructor.name === "AsyncFunction")) return member;
      return async (...args: unknown[]) => {
        calls.push(name);
        if (!target.reachable) throw new MediaError("RTC_SERVER_UNREACHABLE", "the node does not answer");
        return (member as (...args: unknown[]) => unknown)(...args);
      };
    },
  });
}

const IDLE: NodeLoad = {
  rooms: 0,
  participants: 0,
  cpuPercent: 1,
  memoryPercent: 10,
  networkInBps: 0,
  networkOutBps: 0,
  packetsIn: 0,
  packetsOut: 0,
  nacksIn: 0,
  nacksOut: 0,
  keyframesIn: 0,
  keyframesOut: 0,
  refused: {},
};

function snapshotOf(peer: Peer): ParticipantSnapshot {
  const { participantId, identity, state, permissions } = peer;
  return {
    participantId,
    identity,
    state,
    permissions,
    quality: null,
    tracks: [...peer.published.values()].filter(({ live }) => live).map(({ track }) => track),
    subscriptions: peer.subscriptions.map((subscription) => ({ ...subscription, layer: null, paused: false })),
    transport: {
      transport: "udp",
      remoteAddress: "127.0.0.1",
      srtpProfile: null,
      rttMs: null,
      jitterMs: null,
      packetLossPercent: null,
      uplinkLossPercent: null,
      downlinkLossPercent: null,
      availableOutBps: null,
      bytesIn: 0,
      bytesOut: 0,
    },
  };
}
