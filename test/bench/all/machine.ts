import { cpus, release, totalmem, type } from "node:os";
import { VERSION } from "../../../src/kernel/version.ts";

/** What the figures were measured on and beside. */
export type Machine = {
  processor: string;
  cores: number;
  memoryGb: number;
  system: string;
  versions: Record<string, string>;
};

const PEERS = ["janus", "ejabberd", "coturn", "chromium"];

export async function machine(): Promise<Machine> {
  const processors = cpus();
  const versions: Record<string, string> = { stoa: VERSION, bun: Bun.version };
  for (const name of PEERS) {
    const version = await installed(name);
    if (version !== null) versions[name] = version;
  }
  return {
    processor: processors[0]?.model.trim() || process.arch,
    cores: processors.length,
    memoryGb: Math.round(totalmem() / 2 ** 30),
    system: `${type()} ${release()} ${process.arch}`,
    versions,
  };
}

async function installed(name: string): Promise<string | null> {
  if (!Bun.which("dpkg-query")) return null;
  const child = Bun.spawn(["dpkg-query", "--show", name], { stderr: "ignore" });
  const [, version = ""] = (await new Response(child.stdout).text()).trim().split("\t");
  return version === "" ? null : version;
}
