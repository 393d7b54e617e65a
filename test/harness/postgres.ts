import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SQL } from "bun";

export type TestPostgres = {
  /** `postgres://…` of an empty database made for this call. */
  database(): Promise<string>;
  urlOf(database: string): string;
  /** Kills it, as a power failure would. */
  kill(): Promise<void>;
  /** Stops it; `start` starts it again. */
  stop(): Promise<void>;
  start(): Promise<void>;
  close(): Promise<void>;
  readonly port: number;
  /** The id of its main process. */
  pid(): number;
  /** Starts a synchronous replica, which every commit waits for. */
  synchronousReplica(): Promise<TestPostgres & { promote(): Promise<void> }>;
};

const ROOT = "/usr/lib/postgresql";
const DATABASE = "postgres";
const CACHE = join(import.meta.dir, "../../node_modules/.cache");

/**
 * The distribution's PostgreSQL with its own folder and a loopback port, run by a user other than root. It ends with this
 * process, even if that is killed.
 */
export async function testPostgres(settings: Record<string, string> = {}): Promise<TestPostgres> {
  const folder = ownedFolder();
  await run(["cp", "-a", await emptyData(), join(folder, "data")]);
  return startServer(folder, settings);
}

/** The initial data of a server, created once because that takes as long as ten copies. */
async function emptyData(): Promise<string> {
  const kept = join(CACHE, `postgres-${version()}`);
  if (existsSync(kept)) return kept;
  const folder = ownedFolder();
  const data = join(folder, "data");
  await run([...AS_POSTGRES, program("initdb"), "-D", data, "-U", DATABASE, "-A", "trust", "--no-sync", "-E", "UTF8"]);
  mkdirSync(CACHE, { recursive: true });
  const making = `${kept}.${process.pid}`;
  await run(["cp", "-a", data, making]);
  rmSync(folder, { recursive: true });
  try {
    renameSync(making, kept);
  } catch {
    // Another test was faster.
    rmSync(making, { recursive: true, force: true });
  }
  return kept;
}

function version(): string {
  return readdirSync(ROOT).sort((a, b) => Number(b) - Number(a))[0] ?? "";
}

function program(name: string): string {
  return join(ROOT, version(), "bin", name);
}

/** PostgreSQL refuses to run as root; the package has created a user for it. */
const IS_ROOT = process.getuid?.() === 0;
const AS_POSTGRES = IS_ROOT ? ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] : [];

function ownedFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "stoa-postgres-"));
  if (IS_ROOT) {
    const { uid, gid } = ownerOf("/var/lib/postgresql");
    chownSync(folder, uid, gid);
  }
  return folder;
}

async function startServer(folder: string, settings: Record<string, string>): Promise<TestPostgres> {
  const data = join(folder, "data");
  const port = await freePort();
  const options = Object.entries({
    listen_addresses: "127.0.0.1",
    port: String(port),
    unix_socket_directories: folder,
    ...settings,
  });
  const flags = options.map(([name, value]) => `-c ${name}='${value}'`).join(" ");
  const at = ["-h", "127.0.0.1", "-p", String(port), "-U", DATABASE];
  const control = (...args: string[]) =>
    run([...AS_POSTGRES, program("pg_ctl"), "-D", data, "-w", "-t", "120", ...args]);
  const replicas: TestPostgres[] = [];
  let databases = 0;

  // The input of `cat` ends with this process. In its own session, it outlives a signal to the process group.
  const stop = [...AS_POSTGRES, program("pg_ctl"), "-D", data, "-m", "immediate", "stop"].join(" ");
  const watchdog = Bun.spawn(["setsid", "sh", "-c", `cat; ${stop}; rm -rf "${folder}"`], {
    stdin: "pipe",
    stdout: "ignore",
    stderr: "ignore",
    cwd: "/",
  });
  watchdog.unref();

  const server: TestPostgres = {
    port,
    pid: () => Number(readFileSync(join(data, "postmaster.pid"), "utf8").split("\n")[0]),
    start: () => control("-o", flags, "-l", join(folder, "log"), "start"),
    stop: () => control("-m", "fast", "stop"),
    kill: () => control("-m", "immediate", "stop"),
    async database() {
      const name = `stoa_${process.pid}_${databases++}`;
      await run([program("createdb"), ...at, name]);
      return server.urlOf(name);
    },
    urlOf: (name) => `postgres://${DATABASE}@127.0.0.1:${port}/${name}`,
    async synchronousReplica() {
      const copy = ownedFolder();
      await run([...AS_POSTGRES, program("pg_basebackup"), ...at, "-D", join(copy, "data"), "-R", "-c", "fast"]);
      const replica = await startServer(copy, settings);
      replicas.push(replica);
      const sql = new SQL(server.urlOf(DATABASE), { max: 1 });
      // Set after the copy was made, so that a promoted replica waits for no other.
      await sql.unsafe("ALTER SYSTEM SET synchronous_standby_names = '*'");
      await sql.unsafe("SELECT pg_reload_conf()");
      const isSynchronous = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'";
      while ((await sql.unsafe(isSynchronous)).length === 0) await Bun.sleep(50);
      await sql.close({ timeout: 0 });
      const promote = () => run([...AS_POSTGRES, program("pg_ctl"), "-D", join(copy, "data"), "-w", "promote"]);
      return { ...replica, promote };
    },
    async close() {
      for (const replica of replicas) await replica.close();
      watchdog.stdin.end();
      await watchdog.exited;
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
  // The server keeps the outputs of pg_ctl: a pipe would stay open until the server ends.
  const child = Bun.spawn(command, { stdout: "ignore", stderr: "ignore", cwd: "/" });
  if ((await child.exited) !== 0) throw new Error(`${command.join(" ")} failed`);
}

/** The port was free a moment ago; the server cannot choose one itself. */
export async function freePort(): Promise<number> {
  const probe = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const { port } = probe;
  probe.stop(true);
  return port;
}
