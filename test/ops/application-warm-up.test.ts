import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { warmUpApplication } from "../../src/upgrade/application-warm-up.ts";
import { testConfig } from "../harness/test-config.ts";

test("the warm-up of the newer process leaves the data directory to the older process", async () => {
  const DATA_DIR = join(tmpdir(), `stoa-warm-up-${crypto.randomUUID()}`);
  await warmUpApplication(testConfig({ DATA_DIR, LIVEKIT_CLIENTS: "on" }));
  expect(existsSync(DATA_DIR)).toBe(false);
});
