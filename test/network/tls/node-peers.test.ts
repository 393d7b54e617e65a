import { expect, test } from "bun:test";
import { createRangeCheck } from "../../../src/kernel/net/addresses.ts";
import { localPeers, nodePeers } from "../../../src/network/tls/tls.ts";

test("a node's media is relayed to its own addresses, and never to this machine's", () => {
  const announce = ["203.0.113.9", "10.0.0.9", "2001:db9::9", "127.0.0.1", "::1", "169.254.169.254", "0.0.0.0"];
  const peers = nodePeers({ announce, ports: [7001], answersAt: ["10.0.0.9", "127.0.0.1"] }, () => false);
  for (const { announced, reached } of peers) expect(announced).toEqual(reached);
  const reachedAt = peers.map(({ reached }) => reached.address);
  for (const own of ["127.0.0.1", "::1", "169.254.169.254", "0.0.0.0"]) expect(reachedAt).not.toContain(own);
  expect(reachedAt).toContain("10.0.0.9");
});

test("a private address is relayed to only where the node answers, or in the operator's ranges for nodes", () => {
  const announce = ["9.9.9.9", "10.0.0.9", "10.0.0.5", "192.168.1.1", "fd00::5", "100.64.0.1"];
  const reachedBy = (answersAt: string[], ranges: string[]) =>
    nodePeers({ announce, ports: [53], answersAt }, createRangeCheck(ranges)).map(({ reached }) => reached.address);
  expect(reachedBy([], [])).toEqual(["9.9.9.9"]);
  expect(reachedBy(["::ffff:10.0.0.9"], [])).toEqual(["9.9.9.9", "10.0.0.9"]);
  expect(reachedBy([], ["192.168.0.0/16", "fd00::/8"])).toEqual(["9.9.9.9", "192.168.1.1", "fd00::5"]);
});

test("this machine's media is reached over loopback, whatever address a client names", () => {
  const peers = localPeers({ announce: ["198.51.100.1", "2001:db8::1"], ports: [7001, 7002] });
  expect(peers.length).toBe(4);
  for (const { announced, reached } of peers) expect(reached).toEqual({ address: "127.0.0.1", port: announced.port });
});
