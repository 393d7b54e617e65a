import { existsSync, readdirSync } from "node:fs";
import { cpus, release, totalmem, type } from "node:os";
import { join } from "node:path";
import { VERSION } from "../../../src/kernel/version.ts";
import { cacheFolder } from "../harness/cache.ts";

/** The machine on which the figures were measured. */
export type Machine = {
  /** Null where the system does not say. */
  processor: string | null;
  cores: number;
  memoryGb: number;
  system: string;
  versions: Record<string, string>;
};

const NODE_MODULES = join(import.meta.dir, "../../../node_modules");

/** To be asked once the benches have run, as they bring their peers themselves. */
export async function machine(): Promise<Machine> {
  const processors = cpus();
  const model = processors[0]?.model.trim() ?? "";
  const versions: Record<string, string | null> = {
    stoa: VERSION,
    bun: Bun.version,
    werift: await ofPackage(NODE_MODULES, "werift"),
    janus: unpacked("janus"),
    mediasoup: await ofPackage(join(process.env.MEDIASOUP_DIR ?? "", "node_modules"), "mediasoup"),
    ejabberd: unpacked("ejabberd"),
    "socket.io": await ofPackage(join(cacheFolder("socket.io"), "node_modules"), "socket.io"),
    coturn: await installed("coturn"),
    chromium: await installed("chromium"),
  };
  return {
    processor: model === "" || model === "unknown" ? null : model,
    cores: processors.length,
    memoryGb: Math.round(totalmem() / 2 ** 30),
    system: `${type()} ${release().split(".", 2).join(".")} ${process.arch}`,
    versions: Object.fromEntries(
      Object.entries(versions).filter((entry): entry is [string, string] => entry[1] !== null),
    ),
  };
}

async function ofPackage(modules: string, name: string): Promise<string | null> {
  const file = join(modules, name, "package.json");
  return existsSync(file) ? ((await Bun.file(file).json()) as { version: string }).version : null;
}

/** `name_version_architecture.deb`, as `unpackDebian` keeps it. */
function unpacked(name: string): string | null {
  const file = readdirSync(cacheFolder(name)).find((found) => found.startsWith(`${name}_`) && found.endsWith(".deb"));
  return file === undefined ? null : decodeURIComponent(file.split("_")[1] ?? "");
}

async function installed(name: string): Promise<string | null> {
  if (!Bun.which("dpkg-query")) return null;
  const child = Bun.spawn(["dpkg-query", "--show", name], { stderr: "ignore" });
  const [, version = ""] = (await new Response(child.stdout).text()).trim().split("\t");
  return version === "" ? null : version;
}
