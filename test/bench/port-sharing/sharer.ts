/** One of the two processes that share a port, for the bench: it is told what to do, and says what it has received and used. */
import { findNativeLibrary } from "../../../src/nodes/native-library.ts";
import { Engine } from "../../../src/sfu/engine.ts";
import { PortSharing, type SharedPort } from "../../../src/sfu/transport/port-sharing/port-sharing.ts";
import { UdpPort } from "../../../src/sfu/transport/udp.ts";

export type Addresses = { address: string; port: number }[];
export type Told =
  | { type: "older" }
  | { type: "serve"; addresses: Addresses }
  | { type: "newer"; shared: SharedPort }
  | { type: "used" };
export type Says = { shared?: SharedPort; packets?: number; relayed?: number; micros?: number };

const HOST = "127.0.0.1";
let engine: Engine | null = null;
let serves: Addresses = [];
let sharing: PortSharing | null = null;
let packets = 0;
const say = (said: Says) => process.send?.(said);
const fail = (error: unknown) => {
  console.error(error);
  process.exit(1);
};

/** Treats every datagram as a packet of its clients. */
async function older(): Promise<void> {
  const count = () => void packets++;
  const udp = await UdpPort.bind({ hostname: HOST, port: 0, onDatagram: count });
  const sockets = { udp, tcp: null, addresses: () => serves, deliver: count };
  sharing = PortSharing.alone({ onSharers() {}, onFault: fail }, sockets);
  say({ shared: sharing.offer() as SharedPort });
}

async function newer(succeeds: SharedPort): Promise<void> {
  const library = await findNativeLibrary("auto", { info() {} });
  engine = await Engine.start(
    {
      hostname: HOST,
      port: succeeds.port,
      announce: [HOST],
      tcp: false,
      succeeds,
      srtpProfiles: ["AEAD_AES_128_GCM"],
      nativeLibrary: library?.path,
    },
    { emit() {}, onFault: fail },
    { usesReceiveLoop: true },
  );
  say({});
}

process.on("message", (told: Told) => {
  switch (told.type) {
    case "older":
      older().catch(fail);
      break;
    case "newer":
      newer(told.shared).catch(fail);
      break;
    case "serve":
      serves = told.addresses;
      sharing?.addressesChanged();
      setTimeout(say, 500, {});
      break;
    case "used": {
      const { user, system } = process.cpuUsage();
      say({ packets, relayed: engine?.relayed.relayedOut ?? 0, micros: user + system });
      break;
    }
  }
});
