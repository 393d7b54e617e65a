import { expect, test } from "bun:test";
import { createLifecycle } from "../../src/kernel/lifecycle.ts";
import { createLog } from "../../src/kernel/log.ts";

test("components stop once, in reverse order, and one that fails to stop does not keep the others running", async () => {
  const lines: string[] = [];
  const log = createLog({ level: "error", format: "json", write: (line) => lines.push(line) });
  const lifecycle = createLifecycle(log, Date.now);
  const stopped: string[] = [];
  lifecycle.started("database", () => void stopped.push("database"));
  lifecycle.started("broken", () => {
    throw new Error("will not");
  });
  lifecycle.started("http", async (reason) => void stopped.push(`http: ${reason}`));
  expect(lifecycle.draining).toBe(false);
  const both = Promise.all([lifecycle.stop("SIGTERM", 0), lifecycle.stop("again", 0)]);
  expect(lifecycle.draining).toBe(true);
  await both;
  expect(stopped).toEqual(["http: SIGTERM", "database"]);
  expect(lines.join()).toContain("broken");
});

test("a component that does not stop is abandoned at the deadline", async () => {
  const lines: string[] = [];
  const log = createLog({ level: "error", format: "json", write: (line) => lines.push(line) });
  const lifecycle = createLifecycle(log, Date.now);
  const stopped: string[] = [];
  lifecycle.started("database", () => void stopped.push("database"));
  lifecycle.started("mail", () => new Promise(() => {}));
  await lifecycle.stop("SIGTERM", Date.now());
  expect(stopped).toEqual(["database"]);
  expect(lines.join()).toContain('"part":"mail"');
});
