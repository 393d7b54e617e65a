import { expect, test } from "bun:test";
import { localPeers, nodePeers } from "../../../src/network/tls/tls.ts";

test("a node's media is relayed to its own addresses, and never to this machine's", () => {
  const announce = ["203.0.113.9", "10.0.0.9", "2001:db9::9", "127.0.0.1", "::1", "169.254.169.254", "0.0.0.0"];
  const peers = nodePeers({ announce, ports: [7001] });
  for (const { announced, reached } of peers) expect(announced).toEqual(reached);
  const reachedAt = peers.map(({ reached }) => reached.address);
  for (const own of ["127.0.0.1", "::1", "169.254.169.254", "0.0.0.0"]) expect(reachedAt).not.toContain(own);
  expect(reachedAt).toContain("10.0.0.9");
});

test("this machine's media is reached over loopback, whatever address a client names", () => {
  const peers = localPeers({ announce: ["198.51.100.1", "2001:db8::1"], ports: [7001, 7002] });
  expect(peers.length).toBe(4);
  for (const { announced, reached } of peers) expect(reached).toEqual({ address: "127.0.0.1", port: announced.port });
});
