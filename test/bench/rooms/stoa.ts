import { resolvePermissions } from "../../../src/features/rooms/participant.ts";
import { RtcPeer } from "../../../src/rtc-client/peer.ts";
import type { PeerSection } from "../../../src/rtc-client/sdp.ts";
import { LOAD_ADDRESS, ON_SERVER_SIDE, SERVER_ADDRESS } from "../harness/own-network.ts";
import { type SfuProcess, startSfuProcess } from "../harness/sfu-process.ts";
import { type MeetingServer, type Place, PUBLISHED, SENT } from "./meeting-server.ts";

const PERMISSIONS = resolvePermissions({ publish: true });
const POLL_MS = 10;

/** One connection for each participant, as the SDK has it. */
export async function stoaMeetings(
  rooms: number,
  members: number,
  server: SfuProcess = startSfuProcess({ address: SERVER_ADDRESS, prefix: ON_SERVER_SIDE }),
  firstRoom = 0,
): Promise<MeetingServer> {
  const { node } = server;
  const nameOf = ({ room }: Place) => `room-${firstRoom + room}`;
  const idOf = ({ member }: Place) => `member-${member}`;
  for (let room = 0; room < rooms; room++) await node.openRoom({ roomId: nameOf({ room, member: 0 }) });
  const received = Array.from({ length: members - 1 }).flatMap((): PeerSection[] => [
    { kind: "audio", direction: "recvonly" },
    { kind: "video", direction: "recvonly" },
  ]);

  /** Tracks of the others, once all of them are there. */
  const others = async (place: Place) => {
    for (;;) {
      const room = await node.room({ roomId: nameOf(place) });
      const theirs = (room?.participants ?? []).filter(({ participantId }) => participantId !== idOf(place));
      const tracks = theirs.flatMap((participant) => participant.tracks);
      if (tracks.length === received.length) return tracks;
      await Bun.sleep(POLL_MS);
    }
  };

  return {
    name: "Stoa",
    pid: server.pid,
    copies: members - 1,
    async publish(place, hooks) {
      const [roomId, participantId] = [nameOf(place), idOf(place)];
      await node.addParticipant({ roomId, participantId, identity: participantId, permissions: PERMISSIONS });
      const sections = [...SENT, ...received];
      const peer = await RtcPeer.create({ ...hooks, node, roomId, participantId, hostname: LOAD_ADDRESS, sections });
      await peer.connect(PUBLISHED, []);
      return peer;
    },
    async watch(place, peer) {
      const tracks = await others(place);
      const taken = new Set<string>();
      const wanted = received.map(({ kind }, i) => {
        const track = tracks.find((candidate) => candidate.kind === kind && !taken.has(candidate.id));
        if (!track) throw new Error(`there is no ${kind} left to watch`);
        taken.add(track.id);
        return { mid: String(SENT.length + i), trackId: track.id, ...(kind === "video" && { layer: "high" as const }) };
      });
      await peer.negotiate(PUBLISHED, wanted);
      return peer;
    },
    stop: server.stop,
  };
}
