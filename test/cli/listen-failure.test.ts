import { expect, test } from "bun:test";
import { listenFailure } from "../../src/cli/listen-failure.ts";

const failed = (code: string, syscall: string) =>
  listenFailure(Object.assign(new Error("no"), { code, syscall }), { HOST: "127.0.0.1", PORT: 80 });

test("[11] a port that is kept for root is no folder that cannot be written", () => {
  expect(failed("EACCES", "listen")?.message).toStartWith("port 80 is kept for root.");
  expect(failed("EACCES", "open")).toBeNull();
  expect(failed("EADDRINUSE", "listen")?.message).toStartWith("port 80 of 127.0.0.1 is taken.");
  expect(failed("EADDRNOTAVAIL", "listen")?.message).toStartWith("127.0.0.1 is no address of this machine.");
});
