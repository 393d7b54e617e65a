import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { rehearse } from "../../src/upgrade/rehearsal.ts";
import { testConfig } from "../harness/test-config.ts";

test("the rehearsal of an upgrade leaves the data directory to the older process", async () => {
  const DATA_DIR = join(tmpdir(), `stoa-rehearsal-${crypto.randomUUID()}`);
  await rehearse(testConfig({ DATA_DIR, LIVEKIT_CLIENTS: "on" }));
  expect(existsSync(DATA_DIR)).toBe(false);
});
