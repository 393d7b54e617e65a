import { RtcPeer } from "../../../src/rtc-client/peer.ts";
import { LOAD_ADDRESS } from "../harness/own-network.ts";
import { startMediasoup } from "../sfu/mediasoup.ts";
import { type MeetingServer, type Place, PUBLISHED, SENT } from "./meeting-server.ts";

/** Two connections for each participant, as its client has it: one that sends, and one for all that is watched. */
export async function mediasoupMeetings(members: number, folder: string, ioUring: boolean): Promise<MeetingServer> {
  const { name, pid, extensionIds, negotiate, stop } = await startMediasoup(folder, ioUring);
  const addressOf = ({ room, member }: Place) => ({
    roomId: `room-${room}`,
    participantId: `member-${member}`,
    hostname: LOAD_ADDRESS,
    node: { negotiate },
  });
  return {
    name,
    pid,
    copies: members - 1,
    async publish(place, hooks) {
      const peer = await RtcPeer.create({ ...hooks, ...addressOf(place), sections: SENT });
      await peer.connect(PUBLISHED, []);
      return peer;
    },
    async watch(place, _sending, hooks) {
      const sections = SENT.map(({ kind }) => ({ kind, direction: "recvonly" as const }));
      const numbers = extensionIds && { extensionIds };
      const peer = await RtcPeer.create({ ...hooks, ...addressOf(place), ...numbers, sections });
      await peer.connect([], []);
      return peer;
    },
    stop,
  };
}
