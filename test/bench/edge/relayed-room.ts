/** Viewers of one room, all of them behind a relay: ours, or coturn. */

import { turnCredential } from "../../../src/network/turn/credentials.ts";
import {
  joinPublisher,
  joinSubscriber,
  type LoadParticipant,
  makeCertificate,
} from "../../../src/ops/load-test/participants.ts";
import { freePorts } from "../../network/acme/pebble.ts";
import { startCoturn } from "../../ops/coturn.ts";
import { within } from "../harness/patience.ts";
import { cpuNanos } from "../harness/processes.ts";
import { type Detour, openDetour, type Relay } from "./detour.ts";
import type { EdgeServer } from "./server.ts";

const SECRET = "a secret of coturn";
const PUBLISHERS = 4;

/** On loopback, unless another address is named. */
export type Edge = Pick<EdgeServer, "edgePort"> & { edgeHost?: string };
type IceServer = { urls: string[]; username: string; credential: string };
type Minted = { token: string; tokenId: string; iceServers: IceServer[] };

export async function mint(
  { api }: Pick<EdgeServer, "api">,
  roomId: unknown,
  participantIdentity: string,
): Promise<Minted> {
  const body = { participantIdentity, permissions: { publish: true } };
  return (await api("POST", `/v1/rooms/${roomId}/rtc-tokens`, body)) as Minted;
}

/** The relay that a mint names. */
export function ownRelay({ edgeHost, edgePort }: Edge, { iceServers: [own] }: Minted): Relay {
  if (!own) throw new Error("no relay is named");
  const where = edgeHost === undefined ? {} : { host: edgeHost };
  return { ...where, port: edgePort, username: own.username, credential: own.credential };
}

export type Watched = { packets: number; microsPerPacket: number; relayMicros: number };

/** Processor time for each packet that reaches a viewer: of the server, and of coturn where that relays. */
export async function watchThrough(
  server: EdgeServer,
  which: "own" | "coturn" | "none",
  viewers: number,
  seconds: number,
): Promise<Watched> {
  const coturn = which === "coturn" ? await coturnFor(server) : null;
  const room = await server.api("POST", "/v1/rooms", { name: crypto.randomUUID() });
  const seated: LoadParticipant[] = [];
  const detours: Detour[] = [];
  let packets = 0;
  try {
    const where = async (identity: string) => {
      const minted = await mint(server, room.id, identity);
      return { minted, url: server.url, token: minted.token, certificate: await makeCertificate() };
    };
    const tracks: string[] = [];
    for (let n = 0; n < PUBLISHERS; n++) {
      const publisher = await within(`publisher ${n}`, joinPublisher(await where(`publisher-${n}`)));
      seated.push(publisher);
      tracks.push(await within(`the track of publisher ${n}`, publisher.trackId));
    }
    for (let n = 0; n < viewers; n++) {
      const { minted, ...seat } = await where(`viewer-${n}`);
      const relay = coturn?.relay(n) ?? ownRelay(server, minted);
      const detour = which === "none" ? null : await within(`the relay of viewer ${n}`, openDetour(relay));
      if (detour) detours.push(detour);
      const way = detour ? { via: detour.via } : {};
      const joining = joinSubscriber({ ...seat, ...way }, tracks, () => packets++);
      seated.push(await within(`the first packet of viewer ${n}`, joining));
    }
    await Bun.sleep(1_000);
    const pids = [server.pid, ...(coturn ? [coturn.pid] : [])];
    const before = pids.map(cpuNanos);
    packets = 0;
    await Bun.sleep(seconds * 1_000);
    const counted = packets;
    const used = pids.map((pid, at) => (cpuNanos(pid) - (before[at] ?? 0)) / 1_000);
    const micros = used.reduce((sum, one) => sum + one, 0);
    return { packets: counted, microsPerPacket: micros / counted, relayMicros: (used[1] ?? 0) / counted };
  } finally {
    for (const one of seated) await one.leave().catch(() => {});
    for (const detour of detours) detour.close();
    await coturn?.stop();
  }
}

async function coturnFor({ folder, certificate }: EdgeServer) {
  const address = "127.0.0.1";
  const [port = 0, tlsPort = 0] = await freePorts(2);
  const tls = { port: tlsPort, ...certificate };
  const { child } = await startCoturn({ address, port, secret: SECRET, folder, tls });
  return {
    pid: child.pid,
    relay: (n: number): Relay => ({
      port: tlsPort,
      ...turnCredential(SECRET, `viewer-${n}`, Date.now() + 600_000),
    }),
    async stop() {
      child.kill("SIGKILL");
      await child.exited;
    },
  };
}
