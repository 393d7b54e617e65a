/** `startStoa` of the package: a server for a test or an application, which ends with the process that started it. */
import { type RunningStoa, startChildServer } from "./child-server.ts";

export type { RunningStoa } from "./child-server.ts";

type StartOptions = {
  /** The data directory. Without it, the data is removed after `stop()`. */
  dataDir?: string;
  /** The program; by default STOA_BINARY, then `stoa` on the PATH. */
  binary?: string;
  /** Settings by their names (`CHAT_SEND_RATE_LIMIT: "100"`); the environment of this process is not passed on. */
  env?: Record<string, string>;
};

/**
 * Starts a server on free ports of this machine, with a project and a key, and resolves when it is ready. The server
 * ends when this process ends for any reason.
 */
export async function startStoa({ dataDir, binary, env = {} }: StartOptions = {}): Promise<RunningStoa> {
  const program = binary ?? process.env.STOA_BINARY;
  if (program === undefined && isCheckout()) {
    // The bundler must not follow this import, because the installed package contains no server.
    const { startInProcess } = (await import(new URL("./in-process.ts", import.meta.url).href)) as InProcess;
    return startInProcess({ dataDir, env });
  }
  return startChildServer([program ?? "stoa"], { dataDir, env });
}

type InProcess = { startInProcess(options: Pick<StartOptions, "dataDir" | "env">): Promise<RunningStoa> };

function isCheckout(): boolean {
  return "bun" in process.versions && import.meta.url.endsWith(".ts");
}
