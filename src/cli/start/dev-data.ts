import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RunningServer } from "../../server.ts";
import { CommandFailure } from "../failure.ts";

/** What `stoa dev` made and shows again; a key cannot be had back from its hash, so it is kept here, for dev only. */
export type DevData = { email: string; password: string; projectId: string; apiKey: string };

const EMAIL = "dev@example.com";

export function devDataPath(dataDir: string): string {
  return join(dataDir, "dev.json");
}

/** An account, a project and a usable key: those of the last time, or new ones where they are gone. */
export async function ensureDevData({ runtime, services }: RunningServer): Promise<DevData> {
  const path = devDataPath(runtime.config.DATA_DIR);
  const { users, accounts, projects, apiKeys } = services;
  const known = readDevData(path);
  if (known !== undefined && isUsable(() => apiKeys.verify(known.apiKey))) return known;

  if (known === undefined && !users.isEmpty()) {
    throw new CommandFailure(
      `${runtime.config.DATA_DIR} holds accounts that \`stoa dev\` did not make. Choose another folder with --data-dir, or run \`stoa serve\`.`,
    );
  }
  const email = known?.email ?? EMAIL;
  const password = known?.password ?? randomPassword();
  const owner = users.findByEmail(email) ?? (await accounts.createOperator({ email, password, name: "Developer" }));
  const { projectId, apiKey } = await runtime.write((unit) => {
    const kept = known !== undefined && isActive(() => projects.find(known.projectId));
    const projectId = kept ? known.projectId : projects.create(unit, owner.id, { name: "Development" }).id;
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

function isActive(show: () => { status: string }): boolean {
  return isUsable(show) && show().status === "ACTIVE";
}

function randomPassword(): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(15))).toString("base64url");
}
