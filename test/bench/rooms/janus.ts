import { type PeerOptions, RtcPeer } from "../../../src/rtc-client/peer.ts";
import { LOAD_ADDRESS } from "../harness/own-network.ts";
import { asDtlsClient, withCandidate } from "../sfu/contestant.ts";
import { answerTo, startJanus } from "../sfu/janus.ts";
import { type MeetingServer, type Place, PUBLISHED, SENT } from "./meeting-server.ts";

/** Two connections for each participant, as its video room has it: one that sends, and one for all that is watched. */
export async function janusMeetings(rooms: number, members: number, eventLoops: number): Promise<MeetingServer> {
  const { session, name, pid, stop } = await startJanus(eventLoops);
  const roomOf = ({ room }: Place) => room + 1;
  const feedOf = ({ room, member }: Place) => 1 + room * members + member;
  const admin = await session.attach();
  for (let room = 0; room < rooms; room++) {
    const codecs = { videocodec: "vp8", audiocodec: "opus" };
    await session.message(admin, {
      request: "create",
      room: roomOf({ room, member: 0 }),
      publishers: members,
      ...codecs,
    });
  }

  const connect = async (options: Omit<PeerOptions, "node" | "roomId" | "hostname">, answer: Answer) => {
    const peer: RtcPeer = await RtcPeer.create({
      ...options,
      roomId: "",
      hostname: LOAD_ADDRESS,
      node: {
        async negotiate({ sdp }) {
          const offer = asDtlsClient(withCandidate(sdp, LOAD_ADDRESS, peer.port));
          return { sdp: await answer(await session.attach(), offer), tracks: [] };
        },
      },
    });
    await peer.connect(PUBLISHED, []);
    return peer;
  };

  return {
    name,
    pid,
    copies: members - 1,
    publish: (place, hooks) =>
      connect({ ...hooks, participantId: "sends", sections: SENT }, (handle, sdp) => {
        const body = { ptype: "publisher", room: roomOf(place), id: feedOf(place), bitrate: 0 };
        return session.message(handle, { request: "joinandconfigure", ...body }, { type: "offer", sdp });
      }),
    watch: (place, _sending, hooks) => {
      const feeds = Array.from({ length: members }, (_, member) => feedOf({ ...place, member }));
      const streams = feeds.filter((feed) => feed !== feedOf(place)).map((feed) => ({ feed }));
      const sections = SENT.map(({ kind }) => ({ kind, direction: "recvonly" as const }));
      return connect({ ...hooks, participantId: "watches", sections }, async (handle, own) => {
        const body = { request: "join", ptype: "subscriber", room: roomOf(place), streams };
        const theirs = await session.message(handle, body);
        await session.message(handle, { request: "start" }, { type: "answer", sdp: answerTo(theirs, own) });
        return theirs;
      });
    },
    stop,
  };
}

type Answer = (handle: number, offer: string) => Promise<string>;
