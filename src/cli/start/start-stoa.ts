/** `startStoa` of the package: a server for a test or for an application's own use, gone when whoever started it is. */
import { type RunningStoa, startChild } from "./child-server.ts";

export type { RunningStoa } from "./child-server.ts";

export type StartOptions = {
  /** Where its data stays. Without it the server is thrown away: nothing of it is left after `stop()`. */
  dataDir?: string;
  /** The program; otherwise STOA_BINARY, and then `stoa` on the PATH. */
  binary?: string;
  /** Settings by their names (`CHAT_SEND_RATE_LIMIT: "100"`); the environment of this process is not handed on. */
  env?: Record<string, string>;
};

/**
 * Starts a server on free ports of this machine, with a project and a key, and resolves when it is ready. It ends with
 * this process, however that ends.
 */
export async function startStoa({ dataDir, binary, env = {} }: StartOptions = {}): Promise<RunningStoa> {
  const program = binary ?? process.env.STOA_BINARY;
  if (program === undefined && isCheckout()) {
    // Not seen by the compiler: what is installed as a package has no server in it.
    const { startInProcess } = (await import(new URL("./in-process.ts", import.meta.url).href)) as InProcess;
    return startInProcess({ dataDir, env });
  }
  return startChild([program ?? "stoa"], { dataDir, env });
}

type InProcess = { startInProcess(options: Pick<StartOptions, "dataDir" | "env">): Promise<RunningStoa> };

function isCheckout(): boolean {
  return "bun" in process.versions && import.meta.url.endsWith(".ts");
}
