/** The newer process of an upgrade: it checks everything before the older one gives anything up, and then takes over. */

import type { LeaderOptions } from "../cluster/member.ts";
import { assetFolder } from "../kernel/assets.ts";
import type { Config } from "../kernel/config/index.ts";
import { pendingMigrations, readMigrations } from "../kernel/db/migrate.ts";
import { openDatabase } from "../kernel/db/open.ts";
import { messageOf } from "../kernel/error-message.ts";
import type { Log } from "../kernel/log.ts";
import { databasePath } from "../kernel/runtime.ts";
import { systemNow } from "../kernel/time/clock.ts";
import { systemTimers } from "../kernel/time/timers.ts";
import { VERSION } from "../kernel/version.ts";
import { planTls } from "../network/tls/tls.ts";
import { TlsMultiplexer } from "../network/tls/tls-multiplexer.ts";
import type { EmbeddedMedia } from "../nodes/embedded-media.ts";
import { openMedia } from "../nodes/local-media.ts";
import type { RunningServer } from "../server.ts";
import { warmUpApplication } from "./application-warm-up.ts";
import type { ToNewer, ToOlder } from "./messages.ts";

type Deps = {
  config: Config;
  log: Log;
  threads: EmbeddedMedia;
  start(succeeds: NonNullable<LeaderOptions["succeeds"]>): Promise<RunningServer>;
};

/** Resolves when this process serves. Rejects if it cannot, or if the older process ended before it released its data. */
export async function takeOver({ config, log, threads, start }: Deps): Promise<RunningServer> {
  const { next, send } = openChannel();
  try {
    const { ports, httpPort, tlsPort } = await next("check");
    const plan = planTls({ config, log, timers: systemTimers, now: systemNow });
    checkConfig(config, { httpPort, tlsPort, hasTls: plan !== null });
    checkData(config);
    const tlsThread = plan && new TlsMultiplexer(plan.tables, log);
    await warmUpApplication(config);
    const relayed = plan?.tables.udp.memory;
    const media = await openMedia({ config, log }, { threads, relayed, succeeds: ports });
    send({ type: "ready", version: VERSION });
    const { inputs } = await next("released");
    const server = await start({ media, plan, tlsThread, httpPort, tlsPort, inputs });
    if (server.loopback) send({ type: "serving", version: VERSION, loopback: server.loopback });
    return server;
  } catch (error) {
    send({ type: "refused", reason: messageOf(error) });
    throw error;
  }
}

type Ports = { httpPort: number; tlsPort: number | null; hasTls: boolean };

/** Throws if the settings differ in a way that needs a restart. */
function checkConfig(config: Config, { httpPort, tlsPort, hasTls }: Ports): void {
  const changed = hasTls ? tlsPort === null : tlsPort !== null || (config.PORT !== 0 && config.PORT !== httpPort);
  if (changed) throw new Error("the settings have other ports than the running server, which needs a restart");
  if (config.TURN_UDP_PORT > 0)
    throw new Error("TURN_UDP_PORT: two processes cannot use it at the same time, so an upgrade needs a restart");
}

/** Throws if this version cannot use the data. Writes nothing. */
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
