import { afterAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { createDiagnostics, type Probe } from "../../../src/features/sessions/metrics/diagnostics.ts";
import { testServer } from "../../harness/server.ts";

const server = testServer({ SMTP_URL: "smtp://127.0.0.1:9" });
afterAll(() => server.close());

type Dependency = { name: string; status: string; latencyMs: number; detail: string | null };

test("[4.6] each dependency is probed, and one that does not respond is reported", async () => {
  const { key } = await server.project();
  const { status, body } = await server.call("GET", "/v1/diagnostics", { key });
  expect(status).toBe(200);
  const dependencies = body.dependencies as Dependency[];
  expect(dependencies.map(({ name }) => name)).toEqual(["database", "media", "storage", "webhooks", "mail"]);
  const by = Object.fromEntries(dependencies.map((one) => [one.name, one]));
  expect(by.database?.status).toBe("ok");
  expect(by.storage).toMatchObject({ detail: expect.stringContaining("GB free") });
  expect(by.mail).toMatchObject({ status: "down" });
  expect(by.media).toMatchObject({ status: "down", detail: expect.stringContaining("not running") });
  expect(body.status).toBe("down");
  for (const { latencyMs } of dependencies) expect(latencyMs).toBeGreaterThanOrEqual(0);
});

test("[4.6] a missing data directory shows as storage that is down", async () => {
  const broken = testServer();
  const { key } = await broken.project();
  rmSync(broken.runtime.config.DATA_DIR, { recursive: true });
  const { body } = await broken.call("GET", "/v1/diagnostics", { key });
  const storage = (body.dependencies as Dependency[]).find(({ name }) => name === "storage");
  // The path of the operator's data is for the log, not for members of a project.
  expect(storage).toMatchObject({ status: "down", detail: "ENOENT" });
  expect(JSON.stringify(body)).not.toContain(broken.runtime.config.DATA_DIR);
  expect(broken.logLines.join("")).toContain(broken.runtime.config.DATA_DIR);
  await broken.close();
});

test("[4.6] one dependency that hangs delays no other beyond its own time limit", async () => {
  const fine: Probe = async () => ({ status: "ok", detail: null });
  const diagnose = createDiagnostics(server.runtime, {
    database: fine,
    media: () => new Promise(() => {}),
    storage: async () => ({ status: "degraded", detail: "little room" }),
    webhooks: fine,
    mail: fine,
  });
  const { status, dependencies } = await diagnose({ projectId: "p" });
  expect(status).toBe("down");
  expect(dependencies.map((one) => one.status)).toEqual(["ok", "down", "degraded", "ok", "ok"]);
});

test("[17] requests during a diagnosis of a project share it, and a later request starts another", async () => {
  const asked: string[] = [];
  const open: (() => void)[] = [];
  const fine: Probe = async () => ({ status: "ok", detail: null });
  const database: Probe = ({ projectId }) => {
    asked.push(projectId);
    return new Promise((done) => open.push(() => done({ status: "ok", detail: null })));
  };
  const diagnose = createDiagnostics(server.runtime, {
    database,
    media: fine,
    storage: fine,
    webhooks: fine,
    mail: fine,
  });
  const many = Array.from({ length: 100 }, () => diagnose({ projectId: "p" }));
  const other = diagnose({ projectId: "q" });
  expect(asked).toEqual(["p", "q"]);
  for (const answer of open) answer();
  const [first] = await Promise.all(many);
  expect(await other).not.toBe(first);
  const again = diagnose({ projectId: "p" });
  expect(asked).toEqual(["p", "q", "p"]);
  open.at(-1)?.();
  expect((await again).status).toBe("ok");
});
