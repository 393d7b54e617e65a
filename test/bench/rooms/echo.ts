import { RtcPeer } from "../../../src/rtc-client/peer.ts";
import { SrtpReceiver, SrtpSender } from "../../../src/sfu/wire/srtp/srtp.ts";
import { firstLine } from "../harness/cache.ts";
import { LOAD_ADDRESS, ON_SERVER_SIDE, SERVER_ADDRESS } from "../harness/own-network.ts";
import { type MeetingServer, SENT } from "./meeting-server.ts";

const MASTER = { profile: "AEAD_AES_128_GCM", key: new Uint8Array(16), salt: new Uint8Array(12) } as const;

/** The floor: the same peers and packets by the same way, and a client that sends one gets it back as it is. */
export async function echo(): Promise<MeetingServer> {
  const child = Bun.spawn([...ON_SERVER_SIDE, process.execPath, `${import.meta.dir}/echo-server.ts`, SERVER_ADDRESS], {
    stdout: "pipe",
    stderr: "inherit",
  });
  const port = Number(await firstLine(child.stdout));
  return {
    name: "echo",
    pid: child.pid,
    copies: 1,
    async publish(_place, hooks) {
      const node = { negotiate: () => Promise.reject(new Error("an echo takes no offers")) };
      const place = { roomId: "", participantId: "", hostname: LOAD_ADDRESS };
      const peer = await RtcPeer.create({ ...hooks, ...place, node, sections: SENT });
      peer.remote = { ufrag: "", pwd: "", port, address: SERVER_ADDRESS };
      peer.outgoing = new SrtpSender(MASTER);
      peer.incoming = new SrtpReceiver(MASTER);
      return peer;
    },
    watch: (_place, sending) => Promise.resolve(sending),
    async stop() {
      child.kill();
      await child.exited;
    },
  };
}
