import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RunningServer } from "../../server.ts";
import { CommandFailure } from "../failure.ts";

/**
 * The credentials that `stoa dev` prints at every start. The key is stored here because the database has only its
 * digest.
 */
export type DevData = { email: string; password: string; projectId: string; apiKey: string };

const EMAIL = "dev@example.com";

export function devDataPath(dataDir: string): string {
  return join(dataDir, "dev.json");
}

/** Reuses the account, project and key of the last start, and creates those that are missing. */
export async function ensureDevData({ runtime, services }: RunningServer): Promise<DevData> {
  const path = devDataPath(runtime.config.DATA_DIR);
  const { users, accounts, projects, apiKeys } = services;
  const saved = readDevData(path);
  if (saved !== undefined && isUsable(() => apiKeys.verify(saved.apiKey))) return saved;

  if (saved === undefined && !users.isEmpty()) {
    throw new CommandFailure(
      `${runtime.config.DATA_DIR} holds accounts that \`stoa dev\` did not make. Choose another folder with --data-dir, or run \`stoa serve\`.`,
    );
  }
  const email = saved?.email ?? EMAIL;
  const password = saved?.password ?? randomPassword();
  const owner = users.findByEmail(email) ?? (await accounts.createOperator({ email, password, name: "Developer" }));
  const { projectId, apiKey } = await runtime.write((unit) => {
    const isKept = saved !== undefined && isActive(() => projects.find(saved.projectId));
    const projectId = isKept ? saved.projectId : projects.create(unit, owner.id, { name: "Development" }).id;
    const { key } = apiKeys.create(unit, projectId, { name: "stoa dev", environment: "DEVELOPMENT" });
    return { projectId, apiKey: key };
  });
  const data = { email, password, projectId, apiKey };
  writeDevData(path, data);
  return data;
}

function readDevData(path: string): DevData | undefined {
  return existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as DevData) : undefined;
}

function writeDevData(path: string, data: DevData): void {
  writeFileSync(`${path}.new`, `${JSON.stringify(data, null, 2)}\n`, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

function isUsable(verify: () => unknown): boolean {
  try {
    verify();
    return true;
  } catch {
    return false;
  }
}

function isActive(find: () => { status: string }): boolean {
  return isUsable(find) && find().status === "ACTIVE";
}

function randomPassword(): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(15))).toString("base64url");
}
