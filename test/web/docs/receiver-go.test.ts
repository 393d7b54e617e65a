// suite: all
// needs: golang-go
import { expect, test } from "bun:test";
import { join } from "node:path";
import { blockFor } from "./blocks.ts";
import { checkReceiver } from "./receiver.ts";

test("the guide's receiver.go accepts only recent requests with a valid signature", async () => {
  // It is built first, because `go run` would leave its child process behind.
  await checkReceiver("receiver.go", ["./receiver"], (folder) => {
    const env = { ...process.env, GO111MODULE: "off", GOCACHE: join(folder, "cache") };
    const built = Bun.spawnSync(["go", "build", "-o", "receiver", "receiver.go"], { cwd: folder, env });
    if (built.exitCode !== 0) throw new Error(built.stderr.toString());
  });
}, 120_000);

test("the Go receiver is formatted by gofmt", () => {
  const { stdout } = Bun.spawnSync(["gofmt"], { stdin: Buffer.from(blockFor("web/docs/webhooks.md", "receiver.go")) });
  expect(stdout.toString()).toBe(blockFor("web/docs/webhooks.md", "receiver.go"));
});
