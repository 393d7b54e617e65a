import { setInstallationValue } from "../../../kernel/data-directory/installation.ts";
import { createDiskProbe, freeBytes } from "../../../kernel/db/disk.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { iso, type Now } from "../../../kernel/time/clock.ts";

type DiagnosticStatus = "ok" | "degraded" | "down";
type Finding = { status: DiagnosticStatus; detail: string | null };
type Dependency = "database" | "media" | "storage" | "webhooks" | "mail";
/** Tests the dependency; an exception means that it is down. */
export type Probe = (tenant: { projectId: string }) => Promise<Finding>;

const TIME_LIMIT_MS = 3_000;

export type Diagnostics = ReturnType<typeof createDiagnostics>;

/** Tests all dependencies in parallel, each within its own time limit. */
export function createDiagnostics({ log, now }: Runtime, probes: Record<Dependency, Probe>) {
  async function ask(name: Dependency, tenant: { projectId: string }) {
    const startedAt = performance.now();
    const { status, detail } = await Promise.race([probes[name](tenant), late()]).catch((err) => {
      log.warn({ err, dependency: name }, "readiness: dependency is down");
      return { status: "down" as const, detail: reasonOf(err) };
    });
    return { name, status, latencyMs: Math.round((performance.now() - startedAt) * 10) / 10, detail };
  }

  async function diagnose(tenant: { projectId: string }) {
    const names = Object.keys(probes) as Dependency[];
    const dependencies = await Promise.all(names.map((name) => ask(name, tenant)));
    const worst = (["down", "degraded"] as const).find((status) => dependencies.some((one) => one.status === status));
    return { status: worst ?? ("ok" as const), checkedAt: iso(now()), dependencies };
  }

  /**
   * Running diagnoses by project: concurrent requests share one, because each does a commit, a file write and a count.
   */
  const underWay = new Map<string, ReturnType<typeof diagnose>>();
  return (tenant: { projectId: string }) => {
    const { projectId } = tenant;
    const found = underWay.get(projectId) ?? diagnose(tenant).finally(() => underWay.delete(projectId));
    underWay.set(projectId, found);
    return found;
  };
}

/**
 * Errors of the system contain paths and hosts of the operator, so members of a project get a general reason; the log
 * has the original.
 */
function reasonOf(error: unknown): string {
  const { code, message } = error as { code?: unknown; message?: string };
  return typeof code === "string" ? code : (message ?? String(error));
}

function late(): Promise<Finding> {
  return new Promise((resolve) => {
    const timer = setTimeout(
      () => resolve({ status: "down", detail: `no answer within ${TIME_LIMIT_MS} ms` }),
      TIME_LIMIT_MS,
    );
    timer.unref();
  });
}

/** A write that reaches the disk, not a read from the cache. */
export const databaseProbe =
  ({ db, now, write }: Runtime): Probe =>
  async () => {
    await write((unit) => setInstallationValue(unit, db, "last-diagnosis", String(now())));
    return { status: "ok", detail: null };
  };

/** Tests that the disk has space and that a file can be created. */
export const storageProbe = ({ config }: Runtime): Probe => {
  const probeDisk = createDiskProbe(config.DATA_DIR);
  return async () => {
    await probeDisk();
    const free = freeBytes(config.DATA_DIR);
    const detail = `${(free / 1e9).toFixed(1)} GB free`;
    return { status: free < config.STORAGE_MIN_FREE_BYTES ? "degraded" : "ok", detail };
  };
};

/** Without SMTP_URL there is no mail server to test. */
export const mailProbe =
  (mailer: { delivers: boolean; check(): Promise<void> }): Probe =>
  async () => {
    if (!mailer.delivers) return { status: "ok", detail: "not configured: links go to the server's log" };
    await mailer.check();
    return { status: "ok", detail: null };
  };

export type WebhookBacklog = { pending: number; oldestAt: number | null; failingEndpoints: number };

/** Reports the pending deliveries, their age and the failing endpoints. */
export const webhookProbe =
  (backlogOf: (projectId: string) => WebhookBacklog, now: Now): Probe =>
  async ({ projectId }) => {
    const { pending, oldestAt, failingEndpoints } = backlogOf(projectId);
    const waited = oldestAt === null ? "" : `, the oldest for ${Math.round((now() - oldestAt) / 1000)} s`;
    return {
      status: failingEndpoints > 0 ? "degraded" : "ok",
      detail: `waiting: ${pending}${waited}; failing endpoints: ${failingEndpoints}`,
    };
  };

/** Reports the event-loop delay of the media workers. */
export const mediaProbe =
  (load: () => Promise<{ rooms: number; participants: number }>): Probe =>
  async () => {
    const startedAt = performance.now();
    const { rooms, participants } = await load();
    const ms = performance.now() - startedAt;
    const detail = `${counted(rooms, "room")}, ${counted(participants, "participant")}`;
    return { status: ms > 500 ? "degraded" : "ok", detail };
  };

const counted = (count: number, noun: string) => `${count} ${noun}${count === 1 ? "" : "s"}`;
