import { resolvePermissions } from "../../../src/features/rooms/participant.ts";
import { ON_SERVER_SIDE, SERVER_ADDRESS } from "../harness/own-network.ts";
import { cpuNanos } from "../harness/processes.ts";
import { type SfuProcess, type SfuProcessOptions, startSfuProcess } from "../harness/sfu-process.ts";
import type { Contestant } from "./contestant.ts";

const PERMISSIONS = resolvePermissions({ publish: true });

/** A fresh worker begins its JIT warm-up within this time. The warm-up is over when the worker does nothing for a while. */
const WARM_UP_WITHIN_MS = 4_000;
const IDLE_FOR_MS = 1_000;
const IDLE_NANOS = 20_000_000;

export const TYPESCRIPT = "Stoa in TypeScript";
export const BEFORE = "Stoa before";

/** Our own media plane, as the server runs it: workers behind the same calls. Each room is a contestant of its own. */
export async function stoa(
  options: Pick<SfuProcessOptions, "workers" | "spreads" | "bunArgs" | "fanOut" | "root"> = {},
  rooms = 1,
): Promise<[Contestant, ...Contestant[]]> {
  const server = startSfuProcess({ address: SERVER_ADDRESS, prefix: ON_SERVER_SIDE, ...options });
  // A checkout compiles its native code at its first start: only who answers has begun to count its seconds.
  await server.node.rooms();
  // Servers wait for calls, not calls for servers.
  await warmedUp(server.pid);
  const named = options.root ? BEFORE : options.fanOut === "typescript" ? TYPESCRIPT : "Stoa";
  const open = (roomId: string) => openContestant(server, roomId, named);
  const first = await open("room-0");
  const others: Contestant[] = [];
  for (let i = 1; i < rooms; i++) others.push(await open(`room-${i}`));
  return [first, ...others];
}

/** A room as a contestant. */
export async function openContestant(
  { node, pid, stop }: SfuProcess,
  roomId: string,
  name: string,
): Promise<Contestant> {
  await node.openRoom({ roomId });
  return {
    name,
    pid,
    negotiate: (request) => node.negotiate({ ...request, roomId }),
    admit: (participantId) =>
      node.addParticipant({ roomId, participantId, identity: participantId, permissions: PERMISSIONS }),
    async published() {
      for (;;) {
        const room = await node.room({ roomId });
        const tracks = room?.participants.flatMap((participant) => participant.tracks) ?? [];
        const audio = tracks.find(({ kind }) => kind === "audio");
        const video = tracks.find(({ kind }) => kind === "video");
        if (audio && video)
          return [
            { mid: "0", trackId: audio.id },
            { mid: "1", trackId: video.id, layer: "high" },
          ];
        await Bun.sleep(10);
      }
    },
    stop,
  };
}

async function warmedUp(pid: number): Promise<void> {
  await Bun.sleep(WARM_UP_WITHIN_MS);
  for (let before = cpuNanos(pid); ; ) {
    await Bun.sleep(IDLE_FOR_MS);
    const now = cpuNanos(pid);
    if (now - before < IDLE_NANOS) return;
    before = now;
  }
}
