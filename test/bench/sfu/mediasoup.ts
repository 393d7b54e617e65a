import { EXTENSION_IDS } from "../../../src/rtc-client/sdp.ts";
import { EXTENSION_URI } from "../../../src/sfu/wire/rtp/rtp-extensions.ts";
import { SERVER_ADDRESS } from "../harness/own-network.ts";
import type { Contestant } from "./contestant.ts";
import { startLineServer } from "./line-server.ts";

type Introduction = { pid: number; extensions: { uri: string; preferredId: number }[] };

type Mediasoup = Pick<Contestant, "name" | "pid" | "extensionIds" | "negotiate" | "stop">;

/** mediasoup as it is installed in `folder`: it is not to be had from Debian, and brings itself with npm where it can. */
export async function startMediasoup(folder: string, ioUring: boolean): Promise<Mediasoup> {
  const program = [Bun.which("node") ?? process.execPath, `${import.meta.dir}/mediasoup-server.mjs`];
  const server = startLineServer([...program, folder, SERVER_ADDRESS, ioUring ? "io_uring" : "plain"]);
  const { pid, extensions } = (await server.introduction) as Introduction;
  const idOf = (uri: string, ours: number) => extensions.find((one) => one.uri === uri)?.preferredId ?? ours;
  const names = Object.keys(EXTENSION_IDS) as (keyof typeof EXTENSION_IDS)[];
  return {
    name: ioUring ? "mediasoup (io_uring)" : "mediasoup",
    // The process id of its worker, because the process that controls it forwards nothing.
    pid,
    extensionIds: Object.fromEntries(
      names.map((name) => [name, idOf(EXTENSION_URI[name], EXTENSION_IDS[name])]),
    ) as typeof EXTENSION_IDS,
    negotiate: server.negotiate,
    stop: server.stop,
  };
}

export async function mediasoup(folder: string, ioUring: boolean): Promise<Contestant> {
  return {
    ...(await startMediasoup(folder, ioUring)),
    admit: () => Promise.resolve(),
    published: () => Promise.resolve([]),
  };
}
