import { expect, test } from "bun:test";
import { listenFailure } from "../../src/cli/listen-failure.ts";
import type { Config } from "../../src/kernel/config/index.ts";
import { TlsListenError } from "../../src/network/tls/tls-multiplexer.ts";
import { mediaRefused } from "../../src/nodes/local-media.ts";

const failed = (code: string, syscall: string) =>
  listenFailure(Object.assign(new Error("no"), { code, syscall }), { HOST: "127.0.0.1", PORT: 80 });

test("[11] a port that is reserved for root is not reported as a folder that cannot be written", () => {
  expect(failed("EACCES", "listen")?.message).toStartWith("port 80 is reserved for root.");
  expect(failed("EACCES", "open")).toBeNull();
  expect(failed("EADDRINUSE", "listen")?.message).toStartWith("port 80 of 127.0.0.1 is taken.");
  expect(failed("EADDRNOTAVAIL", "listen")?.message).toStartWith("127.0.0.1 is not an address of this machine.");
});

test("[22] a TLS or TURN port that is unavailable is reported with the flag that chooses another", () => {
  const place = { HOST: "127.0.0.1", PORT: 7_000 };
  const said = (code: string | null, port: number, isTurnPort = false) =>
    listenFailure(new TlsListenError("no such thing", code, port, isTurnPort), place)?.message;
  expect(said("EADDRINUSE", 443)).toBe(
    "port 443 is taken. Choose another with --edge-port, or --port without a domain.",
  );
  expect(said("EACCES", 443)).toBe(
    "port 443 is reserved for root. Give the program CAP_NET_BIND_SERVICE, or choose another with --edge-port.",
  );
  expect(said("EADDRINUSE", 3_478, true)).toBe("port 3478 is taken. Choose another with --turn-udp-port.");
  expect(said(null, 443)).toBe("port 443 is unavailable: no such thing");
});

test("[11] a taken media port is reported, and its address unless it is every one", () => {
  const taken = Object.assign(new Error("bind EADDRINUSE :::7001"), { code: "EADDRINUSE" });
  const said = (hostname: string, workers = 1) =>
    mediaRefused(taken, { MEDIA_WORKERS: workers, MEDIA_UDP_PORT: 7001 } as Config, hostname).message;
  const cure = "Choose another with --media-udp-port.";
  expect(said("::")).toBe(`the media port 7001 (UDP) is taken. ${cure}`);
  expect(said("0.0.0.0", 2)).toBe(`the media ports 7001 to 7002 (UDP) are taken. ${cure}`);
  expect(said("127.0.0.1")).toBe(`the media port 7001 of 127.0.0.1 (UDP) is taken. ${cure}`);
});
