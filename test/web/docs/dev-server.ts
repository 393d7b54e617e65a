import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PROGRAM, startStoa } from "../../cli/stoa.ts";

export type DevServer = {
  url: string;
  apiKey: string;
  email: string;
  password: string;
  folder: string;
  stop(): Promise<void>;
};

/** Starts `stoa dev` in a temporary folder, as the guides describe. */
export async function startDev(): Promise<DevServer> {
  const folder = mkdtempSync(join(tmpdir(), "stoa-docs-"));
  const ports = ["--port", "0", "--media-udp-port", "0", "--media-workers", "1"];
  const { out, child } = await startStoa([
    ...PROGRAM,
    "dev",
    "--json",
    ...ports,
    "--data-dir",
    join(folder, "data"),
    "--log-level",
    "error",
  ]);
  const { url, apiKey, email, password } = JSON.parse(out);
  return {
    url,
    apiKey,
    email,
    password,
    folder,
    async stop() {
      child.kill("SIGKILL");
      await child.exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
