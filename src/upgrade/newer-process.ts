/** The newer process of an upgrade: it checks everything before the older one gives anything up, then takes over. */
import { assetFolder } from "../kernel/assets.ts";
import type { Config } from "../kernel/config/index.ts";
import { listenAddresses } from "../kernel/config/listen-addresses.ts";
import { pendingMigrations, readMigrations } from "../kernel/db/migrate.ts";
import { openDatabase } from "../kernel/db/open.ts";
import type { Log } from "../kernel/log.ts";
import { databasePath } from "../kernel/runtime.ts";
import { VERSION } from "../kernel/version.ts";
import type { EmbeddedMedia } from "../nodes/embedded-media.ts";
import { type OpenedMedia, openMedia } from "../nodes/local-media.ts";
import type { RunningServer } from "../server.ts";
import type { ToNewer, ToOlder } from "./messages.ts";

type Deps = {
  config: Config;
  log: Log;
  threads: EmbeddedMedia;
  start(succeeds: { media: OpenedMedia; httpPort: number }): Promise<RunningServer>;
};

/** Resolves when this process serves. Rejects when it cannot, or the older process has ended before it let go of its data. */
export async function takeOver({ config, log, threads, start }: Deps): Promise<RunningServer> {
  const { next, send } = openChannel();
  try {
    const { ports, httpPort } = await next("check");
    checkConfig(config, httpPort);
    checkData(config);
    const media = await openMedia({ config, log }, { threads, succeeds: ports });
    send({ type: "ready", version: VERSION });
    await next("released");
    const server = await start({ media, httpPort });
    if (server.loopback) send({ type: "serving", version: VERSION, loopback: server.loopback });
    return server;
  } catch (error) {
    send({ type: "refused", reason: error instanceof Error ? error.message : String(error) });
    throw error;
  }
}

/** Throws when the settings need another start. */
function checkConfig(config: Config, httpPort: number): void {
  if (config.PORT !== 0 && config.PORT !== httpPort)
    throw new Error(`PORT: has changed from ${httpPort} to ${config.PORT}, which needs a restart`);
  if (listenAddresses(config) !== null)
    throw new Error("TLS: a server with its own https port cannot be replaced during calls yet. Restart it instead.");
}

/** Throws when this version cannot use the data. Nothing is written. */
function checkData(config: Config): void {
  const db = openDatabase(databasePath(config), { readonly: true });
  try {
    pendingMigrations(db, readMigrations(assetFolder("migrations")));
  } finally {
    db.$client.close();
  }
}

function openChannel() {
  const arrived = new Map<string, ToNewer>();
  const waiting = new Map<string, (message: ToNewer) => void>();
  const { promise: ended, reject: end } = Promise.withResolvers<never>();
  ended.catch(() => {});
  process.on("message", (message: ToNewer) => {
    arrived.set(message.type, message);
    waiting.get(message.type)?.(message);
  });
  process.on("disconnect", () => end(new Error("the older process has ended")));
  return {
    next<T extends ToNewer["type"]>(type: T): Promise<Extract<ToNewer, { type: T }>> {
      const { promise, resolve } = Promise.withResolvers<ToNewer>();
      const known = arrived.get(type);
      if (known) resolve(known);
      else waiting.set(type, resolve);
      return Promise.race([promise, ended]) as Promise<Extract<ToNewer, { type: T }>>;
    },
    /** The older process may have ended. */
    send(message: ToOlder): void {
      if (process.connected) process.send?.(message);
    },
  };
}
