import { existsSync } from "node:fs";
import { ClusterRefused } from "../cluster/cluster.ts";
import { MemberAuthentication } from "../cluster/member-authentication.ts";
import { OPERATIONS_PATH } from "../cluster/routes.ts";
import type { Config } from "../kernel/config/index.ts";
import { createKeyring } from "../kernel/crypto/secrets.ts";
import { LogSeal } from "../kernel/db/log-seal.ts";
import { postgresLog } from "../kernel/db/postgres-log.ts";
import { createLog } from "../kernel/log.ts";
import type { Runtime } from "../kernel/runtime.ts";
import { closeRuntime, databasePath } from "../kernel/runtime.ts";
import { systemTimers } from "../kernel/time/timers.ts";
import { ApiError } from "../protocol/errors.ts";
import { createServices, type Services } from "../services.ts";
import { openDataBesideServer } from "./boot.ts";
import { CommandFailure } from "./failure.ts";
import { type OperationInput, type OperationName, type OperationResult, type Outcome, perform } from "./operations.ts";

const LEADER_TIMEOUT_MS = 30_000;
/**
 * Operations that may create an installation. All others need existing data and must not create any in a wrong folder.
 */
const MAY_CREATE_DATA: readonly OperationName[] = ["admin create", "node-keys create"];

/** Ends the command if there is no data, instead of creating an empty database. */
export function requireData(config: Pick<Config, "DATA_DIR">): void {
  if (existsSync(databasePath(config))) return;
  throw new CommandFailure(
    `no data in ${config.DATA_DIR}. Name the data directory with --data-dir, or start a server there first.`,
  );
}

/** Runs an operation on the local data, even while a server is running, or on the leader of the cluster. */
export async function operate<Name extends OperationName>(
  config: Config,
  name: Name,
  input: OperationInput<Name>,
): Promise<OperationResult<Name>> {
  if (config.COMMIT_LOG_URL !== undefined) {
    return (await requestLeader(config, { name, input })) as OperationResult<Name>;
  }
  if (!MAY_CREATE_DATA.includes(name)) requireData(config);
  return withServices(config, (services, runtime) => perform(services, runtime, name, input));
}

async function withServices<Result>(
  config: Config,
  work: (services: Services, runtime: Runtime) => Promise<Result>,
): Promise<Result> {
  const runtime = openDataBesideServer({ ...config, LOG_LEVEL: "error" });
  const services = createServices(runtime);
  try {
    return await work(services, runtime);
  } catch (error) {
    throw error instanceof ApiError ? new CommandFailure(error.message) : error;
  } finally {
    await services.search.stop();
    await closeRuntime(runtime);
  }
}

async function requestLeader(config: Config, request: object): Promise<unknown> {
  const { COMMIT_LOG_URL = "", STOA_SECRET = "" } = config;
  const keyring = createKeyring(STOA_SECRET);
  const commitLog = postgresLog(COMMIT_LOG_URL, {
    log: createLog({ level: "silent", format: "json" }),
    timers: systemTimers,
    seal: new LogSeal({ key: keyring.key("commit-log"), isRequired: true }),
  });
  try {
    const { leader, secretFingerprint } = await commitLog.info(keyring.fingerprint).catch((error: Error) => {
      throw new CommandFailure(`${error.message}.`);
    });
    if (secretFingerprint !== keyring.fingerprint)
      throw new ClusterRefused("STOA_SECRET is not that of the commit log.");
    if (leader === null) throw new CommandFailure("no server leads yet. Start one with `stoa serve`.");
    const authentication = new MemberAuthentication(keyring);
    const signal = AbortSignal.timeout(LEADER_TIMEOUT_MS);
    const headers = { "content-type": "application/json" };
    const init = { method: "POST", headers, body: JSON.stringify(request), signal };
    const response = await authentication.fetch(leader, OPERATIONS_PATH, init).catch((error: Error) => {
      throw new CommandFailure(`${leader}, which leads, does not answer: ${error.message}`);
    });
    if (!response.ok) throw new CommandFailure(`${leader}, which should lead, answers ${response.status}. Try again.`);
    const outcome = (await response.json()) as Outcome;
    if ("failure" in outcome) throw new CommandFailure(outcome.failure.message, outcome.failure.wrongUsage);
    return outcome.result;
  } finally {
    await commitLog.close();
  }
}
