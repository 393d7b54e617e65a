import type { TransportStats } from "../../../src/protocol/media-node.ts";
import type { CallVerdict } from "../../../src/protocol/room-records.ts";
import { type RtcServer, settled } from "../../harness/rtc.ts";

export const QUIET: TransportStats = {
  transport: "udp",
  remoteAddress: "127.0.0.1",
  srtpProfile: null,
  rttMs: 30,
  jitterMs: 3,
  packetLossPercent: 0,
  uplinkLossPercent: 0,
  downlinkLossPercent: 0,
  availableOutBps: 2_000_000,
  bytesIn: 0,
  bytesOut: 0,
};

export type Judged = {
  identity: string;
  verdict: CallVerdict | null;
  leftAt: string | null;
  leaveReason?: string | null;
};

/** Calls whose media server reports what a test wants. */
export function measuredCalls(server: RtcServer) {
  const { key, node } = server;

  async function participants(roomId: string): Promise<Judged[]> {
    const list = await server.call("GET", `/v1/calls?roomId=${roomId}`, { key });
    const [call] = JSON.parse(list.text) as { id: string }[];
    const { body } = await server.call("GET", `/v1/calls/${call?.id}`, { key });
    return (body as { participants: Judged[] }).participants;
  }

  return {
    participants,
    verdictOf: async (roomId: string, identity: string) =>
      (await participants(roomId)).find((one) => one.identity === identity)?.verdict,

    /** A participant in a room of their own. */
    async measured(identity: string, transport: TransportStats["transport"] = "udp") {
      const roomId = await server.room();
      const { token } = await server.mint(roomId, identity);
      const client = server.connect(token);
      const ack = await client.join({ connectionId: `${identity}-1` });
      const participantId = node.peers().find((peer) => peer.identity === identity)?.participantId ?? "";
      const subject = { roomId, participantId, identity };
      if (transport === "relay") {
        const path = { transport, remoteAddress: "127.0.0.1", connectMs: 20 } as const;
        node.emit({ ...subject, type: "participantConnected", ...path });
      } else node.connect(participantId);
      await settled();
      const stats = (change: Partial<TransportStats>) =>
        node.emit({ ...subject, type: "transportStats", stats: { ...QUIET, transport, ...change } });
      const report = (type: string, data: object) =>
        server.call("POST", "/v1/telemetry/events", {
          key: token,
          body: { connectionId: `${identity}-1`, type, data },
        });
      return { roomId, subject, client, ack, token, stats, report };
    },

    serverBusy: (cpuPercent: number) =>
      server.runtime.write((unit) =>
        server.services.fleet.beat(unit, "n1", { activeRooms: 1, activeParticipants: 1, cpuPercent }),
      ),
  };
}
