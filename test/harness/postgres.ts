import { chownSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export type TestPostgres = {
  /** `postgres://…` of an empty database made for this call. */
  database(): Promise<string>;
  /** Ends it as a power failure would. */
  kill(): Promise<void>;
  /** Ends its sessions and comes back only with `start`. */
  stop(): Promise<void>;
  start(): Promise<void>;
  close(): Promise<void>;
  readonly port: number;
};

const ROOT = "/usr/lib/postgresql";

/** A PostgreSQL of the distribution with its own folder and a loopback port, run by somebody who is not root. */
export async function testPostgres(settings: Record<string, string> = {}): Promise<TestPostgres> {
  const version = readdirSync(ROOT).sort((a, b) => Number(b) - Number(a))[0] ?? "";
  const program = (name: string) => join(ROOT, version, "bin", name);
  const folder = mkdtempSync(join(tmpdir(), "stoa-postgres-"));
  const data = join(folder, "data");
  // The server refuses to be root; the package has made a user for it.
  const isRoot = process.getuid?.() === 0;
  const as = isRoot ? ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] : [];
  if (isRoot) {
    const { uid, gid } = ownerOf("/var/lib/postgresql");
    chownSync(folder, uid, gid);
  }
  await run([...as, program("initdb"), "-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8"]);
  const port = await freePort();
  const options = Object.entries({
    listen_addresses: "127.0.0.1",
    port: String(port),
    unix_socket_directories: folder,
    ...settings,
  });
  let databases = 0;

  const server = {
    port,
    async start() {
      const flags = options.map(([name, value]) => `-c ${name}='${value}'`).join(" ");
      await run([
        ...as,
        program("pg_ctl"),
        "-D",
        data,
        "-w",
        "-t",
        "120",
        "-o",
        flags,
        "-l",
        join(folder, "log"),
        "start",
      ]);
    },
    stop: () => run([...as, program("pg_ctl"), "-D", data, "-w", "-t", "120", "-m", "fast", "stop"]),
    kill: () => run([...as, program("pg_ctl"), "-D", data, "-w", "-t", "120", "-m", "immediate", "stop"]),
    async database() {
      const name = `stoa_${process.pid}_${databases++}`;
      await run([program("createdb"), "-h", "127.0.0.1", "-p", String(port), "-U", "postgres", name]);
      return `postgres://postgres@127.0.0.1:${port}/${name}`;
    },
    async close() {
      await server.kill().catch(() => {});
      rmSync(folder, { recursive: true, force: true });
    },
  };
  await server.start();
  return server;
}

function ownerOf(path: string): { uid: number; gid: number } {
  const { uid, gid } = statSync(path);
  return { uid, gid };
}

async function run(command: string[]): Promise<void> {
  // What pg_ctl starts keeps its outputs: a pipe would not end before the server does.
  const child = Bun.spawn(command, { stdout: "ignore", stderr: "ignore", cwd: "/" });
  if ((await child.exited) !== 0) throw new Error(`${command.join(" ")} failed`);
}

/** The port was free a moment ago; the server cannot choose one itself. */
async function freePort(): Promise<number> {
  const probe = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const { port } = probe;
  probe.stop(true);
  return port;
}
