import { existsSync } from "node:fs";
import { ClusterRefused } from "../cluster/cluster.ts";
import type { LeaderOptions, RunningMember } from "../cluster/member.ts";
import type { RunningProxy } from "../cluster/proxy/proxy.ts";
import { assetFolder } from "../kernel/assets.ts";
import type { Config } from "../kernel/config/index.ts";
import { SecretRefused } from "../kernel/crypto/secrets.ts";
import { ExchangeBroken } from "../kernel/data-directory/data-exchange.ts";
import { DataInUse, runningServer } from "../kernel/data-directory/data-lock.ts";
import { SecretMismatch } from "../kernel/data-directory/installation.ts";
import { LogRefused } from "../kernel/db/commit-log.ts";
import { isDamage, sqliteCode } from "../kernel/db/health.ts";
import { logPosition } from "../kernel/db/log-position.ts";
import { MigrationRefused, pendingMigrations, readMigrations } from "../kernel/db/migrate.ts";
import { openDatabase } from "../kernel/db/open.ts";
import { CertificateRefused } from "../kernel/http/serving/certificate.ts";
import { createRuntime, databasePath, type Runtime, type RuntimeOptions } from "../kernel/runtime.ts";
import { requireCertificates } from "../network/tls/certificates.ts";
import { MediaRefused } from "../nodes/local-media.ts";
import { latestBackup } from "../ops/backup/schedule.ts";
import { type RunningServer, start } from "../server.ts";
import { CommandFailure } from "./failure.ts";
import { listenFailure } from "./listen-failure.ts";

// The code of clusters, mainly Postgres, is loaded only by servers that need it.

/** Starts the server; errors that the operator can correct are printed as one-line messages. */
export async function boot(config: Config, options: LeaderOptions = {}): Promise<RunningServer> {
  try {
    requireCertificates(config);
    return await start(config, options);
  } catch (error) {
    throw explain(error, config);
  }
}

/** Starts one server of several that share a commit log; resolves when it follows or leads. */
export async function bootMember(config: Config, options: RuntimeOptions = {}): Promise<RunningMember> {
  try {
    requireCertificates(config);
    const { startMember } = await import("../cluster/member.ts");
    const { performForMember } = await import("./operations.ts");
    const member = await startMember(config, { ...options, operate: performForMember }, start);
    await member.settled;
    return member;
  } catch (error) {
    throw explain(error, config);
  }
}

/** Starts a server without data, which forwards everything to the leader. */
export async function bootProxy(config: Config): Promise<RunningProxy> {
  try {
    const { startProxy } = await import("../cluster/proxy/proxy.ts");
    return await startProxy(config);
  } catch (error) {
    throw explain(error, config);
  }
}

/** Opens the data for a command that does not need a server. */
export function openData(config: Config): Runtime {
  try {
    requireNoLog(config);
    return createRuntime(config);
  } catch (error) {
    throw explain(error, config);
  }
}

/** Opens the data of a server that may be running. */
export function openDataBesideServer(config: Config): Runtime {
  try {
    requireSchemaOfServer(config);
  } catch (error) {
    throw explain(error, config);
  }
  return openData(config);
}

/**
 * A program that was installed for an upgrade must not migrate the data of the server that still runs: the upgrade itself does,
 * once the server has let go of them.
 */
function requireSchemaOfServer(config: Config): void {
  const path = databasePath(config);
  if (!existsSync(path)) return;
  const db = openDatabase(path, { readonly: true });
  try {
    if (pendingMigrations(db, readMigrations(assetFolder("migrations"))).length === 0) return;
  } finally {
    db.$client.close();
  }
  const server = runningServer(config.DATA_DIR);
  if (server === null) return;
  throw new CommandFailure(
    `the server that runs on ${config.DATA_DIR} is of the earlier version ${server.version}. Upgrade it first, with \`stoa upgrade\` or a restart.`,
  );
}

/** A database that is changed without its commit log would differ from those of the other servers. */
function requireNoLog(config: Config): void {
  const path = databasePath(config);
  if (!existsSync(path)) return;
  const { $client: client } = openDatabase(path, { readonly: true });
  const position = logPosition(client);
  client.close();
  if (position === null) return;
  throw new CommandFailure(
    `${config.DATA_DIR} belongs to servers that share a commit log. Set COMMIT_LOG_URL and STOA_SECRET, so that their leader runs the command.`,
    true,
  );
}

function explain(error: unknown, config: Config): unknown {
  if (error instanceof SecretMismatch) return new CommandFailure(error.message, true);
  if (error instanceof CertificateRefused) return new CommandFailure(error.message, true);
  const known = [ClusterRefused, LogRefused, ExchangeBroken, MigrationRefused, MediaRefused, DataInUse, SecretRefused];
  if (known.some((kind) => error instanceof kind)) return new CommandFailure((error as Error).message);
  const listening = listenFailure(error, config);
  if (listening) return listening;
  if (!(error instanceof Error && "code" in error)) return error;
  const sqlite = sqliteCode(error);
  if (sqlite?.startsWith("SQLITE_IOERR") || isDamage(error)) {
    const remedy =
      config.COMMIT_LOG_URL === undefined
        ? `Restore a backup: stoa restore --data-dir ${config.DATA_DIR} ${latestBackup(config) ?? "FILE"}`
        : `Move ${databasePath(config)} away, and the server fetches a copy from another one.`;
    return new CommandFailure(`the database in ${config.DATA_DIR} is damaged (${sqlite}). ${remedy}`);
  }
  switch (error.code) {
    case "ENOSPC":
    case "SQLITE_FULL":
      return new CommandFailure(`the disk of ${config.DATA_DIR} is full.`);
    case "EEXIST":
      return new CommandFailure(`${config.DATA_DIR} is a file. Name a folder with --data-dir.`);
    case "EACCES":
    case "EPERM":
    case "EROFS":
    case "ENOENT":
    case "ENOTDIR":
    case "SQLITE_CANTOPEN":
    case "SQLITE_READONLY":
      return new CommandFailure(`${config.DATA_DIR} cannot be written: ${error.message}`);
    default:
      return error;
  }
}
