import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { assetFolder } from "./assets.ts";
import { type Bus, createBus } from "./bus.ts";
import type { Config } from "./config/index.ts";
import { createIds, type Ids } from "./crypto/ids.ts";
import { createJwt, type Jwt } from "./crypto/jwt.ts";
import { type Keyring, secretFromFile } from "./crypto/secrets.ts";
import { finishExchange } from "./data-directory/data-exchange.ts";
import { openKeyring } from "./data-directory/installation.ts";
import { RecordingConnection } from "./db/changesets.ts";
import type { CommitLog } from "./db/commit-log.ts";
import { type LoggedCommits, loggedCommits } from "./db/logged-commits.ts";
import { migrate, readMigrations } from "./db/migrate.ts";
import { checkpointWhenIdle, closeDatabase, type Db, openDatabase } from "./db/open.ts";
import { canShrink, isProtected, rewriteSmallDatabase } from "./db/shrink.ts";
import { releaseMemory, SplitClient, splitDatabase } from "./db/split-client.ts";
import { createWriter, type Writer } from "./db/writer.ts";
import { createLog, type Log } from "./log.ts";
import { createMetrics, type Metrics } from "./metrics.ts";
import { type Lookup, systemLookup } from "./net/targets.ts";
import { createIdleTasks, type IdleTasks } from "./scheduling/idle.ts";
import type { Fence } from "./socket/sockets.ts";
import { createSockets, type Sockets } from "./socket/sockets.ts";
import { DAY_MS, type Now, systemNow } from "./time/clock.ts";
import { systemTimers, type Timers } from "./time/timers.ts";
import { createTracing, type Tracing } from "./tracing/tracing.ts";

/** The dependencies of every feature, passed to each factory as one plain object. */
export type Runtime = {
  config: Config;
  db: Db;
  /** Tasks that free memory after a burst of commits; features add them. */
  idleTasks: IdleTasks;
  stopCheckpoints: () => void;
  /** How commits reach the commit log of a cluster; null for a single server. */
  logged: LoggedCommits | null;
  /** Runs a synchronous unit of work in the next shared transaction; resolves once it is on disk. */
  write: Writer["write"];
  writer: Writer;
  bus: Bus;
  sockets: Sockets;
  now: Now;
  timers: Timers;
  ids: Ids;
  log: Log;
  metrics: Metrics;
  keyring: Keyring;
  jwt: Jwt;
  /** Null unless this process runs a server and a collector is configured. */
  tracing: Tracing | null;
  /** The function is injected for webhooks and OAuth. */
  fetch: typeof fetch;
  /** Resolves host names of webhooks and push services. */
  lookup: Lookup;
};

export type RuntimeOptions = {
  now?: Now;
  timers?: Timers;
  ids?: Ids;
  fetch?: typeof fetch;
  lookup?: Lookup;
  logWrite?: (line: string) => void;
  /** A log with the same settings, if there is one already, because creating another takes time. */
  log?: Log;
  /** Keeps the database in memory, for tests that need no disk; bytes are its initial content. */
  inMemory?: boolean | Uint8Array;
  rotateSecret?: boolean;
  /** Sends traces and metrics to the configured collector, if any. */
  traced?: boolean;
  /** Set when this server leads a cluster: its file is at the log's head, with the schema up to date. */
  leading?: Leading;
};

export type Leading = {
  path: string;
  log: Pick<CommitLog, "append">;
  onLost: (reason: string) => void;
  fence: Fence;
};

export function createRuntime(config: Config, options: RuntimeOptions = {}): Runtime {
  const now = options.now ?? systemNow;
  const { LOG_LEVEL: level, LOG_FORMAT: format } = config;
  const log = options.log ?? createLog({ level, format, write: options.logWrite });
  const { db, logged } = options.leading
    ? openLeading(options.leading)
    : { db: openMigrated(config, options, now, log), logged: null };
  const timers = options.timers ?? systemTimers;
  const bus = createBus((err) => log.error({ err }, "bus: listener failed"));
  const idleTasks = createIdleTasks({ timers, log });
  const checkpoints = checkpointWhenIdle(db.$client, timers, (err) => log.warn({ err }, "database: checkpoint failed"));
  // Otherwise SQLite keeps its cached pages as long as the connection is open. Later reads find them in the system's cache.
  idleTasks.add(() => releaseMemory(db.$client));
  const metrics = createMetrics();
  const { OTEL_EXPORTER_OTLP_ENDPOINT: collector } = config;
  const send = options.fetch ?? fetch;
  const tracing =
    options.traced && collector !== undefined
      ? createTracing(collector, { config, log, metrics, now, timers, fetch: send })
      : null;
  const plainWriter = createWriter(
    db.$client,
    (err) => log.error({ err }, "database: callback after a commit failed"),
    () => {
      checkpoints.activity();
      idleTasks.activity();
    },
    logged,
  );
  const writer = tracing?.traceWriter(plainWriter) ?? plainWriter;
  const keyring = openKeyring(
    { db, write: writer.write },
    {
      current: config.STOA_SECRET ?? generatedSecret(config, options, "secret"),
      previous: config.STOA_SECRET_PREVIOUS,
      rotate: options.rotateSecret ?? false,
      now: now(),
    },
  );
  return {
    config,
    db,
    idleTasks,
    stopCheckpoints: checkpoints.stop,
    logged,
    writer,
    write: writer.write,
    bus,
    sockets: createSockets(options.leading?.fence),
    now,
    timers,
    ids: options.ids ?? createIds(now),
    log,
    metrics,
    tracing,
    keyring,
    jwt: createJwt(keyring, now),
    fetch: send,
    lookup: options.lookup ?? systemLookup,
  };
}

export async function closeRuntime(runtime: Runtime): Promise<void> {
  await runtime.writer.drain();
  await runtime.tracing?.stop();
  runtime.stopCheckpoints();
  runtime.idleTasks.stop();
  closeDatabase(runtime.db);
}

/** The secret `name` of the data directory, or a random one for an in-memory test. */
export function generatedSecret(config: Config, options: RuntimeOptions, name: string): string {
  return options.inMemory ? crypto.randomUUID() : secretFromFile(config.DATA_DIR, name);
}

/** The number of copies that are kept: the last one, and the one before, in case the last one already has the problem. */
const COPIES_KEPT = 2;
const COPY_LASTS_MS = 7 * DAY_MS;
const COPY_NAME = /^before-migration-(\d+)\.db$/;

/** Removes copies that are older than a week, and all but the newest two. */
export function pruneCopies(dataDir: string, now: number): void {
  const times = readdirSync(dataDir).flatMap((name) => COPY_NAME.exec(name)?.slice(1).map(Number) ?? []);
  const newestFirst = times.sort((a, b) => b - a);
  for (const [index, at] of newestFirst.entries()) {
    if (index >= COPIES_KEPT || now - at > COPY_LASTS_MS) rmSync(join(dataDir, `before-migration-${at}.db`));
  }
}

export function databasePath(config: Pick<Config, "DATA_DIR">): string {
  return join(config.DATA_DIR, "stoa.db");
}

function openLeading({ path, log, onLost }: Leading): { db: Db; logged: LoggedCommits } {
  const client = new SplitClient(new RecordingConnection(path), openDatabase(path).$client);
  return { db: splitDatabase(client), logged: loggedCommits({ client, log, onLost }) };
}

function openMigrated(config: Config, options: RuntimeOptions, now: Now, log: Log): Db {
  if (!options.inMemory) {
    mkdirSync(config.DATA_DIR, { recursive: true, mode: 0o700 });
    finishExchange(config.DATA_DIR);
  }
  const memory = options.inMemory === true ? ":memory:" : options.inMemory;
  const db = openDatabase(memory || databasePath(config));
  const snapshot = () => {
    const path = join(config.DATA_DIR, `before-migration-${now()}.db`);
    db.$client.run("VACUUM INTO ?", [path]);
    log.info({ path }, "database: copied before migrating");
    pruneCopies(config.DATA_DIR, now());
  };
  const done = migrate(db, readMigrations(assetFolder("migrations")), now(), options.inMemory ? undefined : snapshot);
  if (done.length > 0) log.info({ migrations: done.length, newest: done.at(-1) }, "database: migrated");
  rewriteSmallDatabase(db.$client);
  if (!canShrink(db.$client)) log.info({}, "database: cannot shrink until stoa migrate --compact");
  if (!isProtected(db.$client)) log.info({}, "database: pages have no checksums until stoa migrate --compact");
  return db;
}
