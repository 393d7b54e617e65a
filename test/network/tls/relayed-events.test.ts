import { expect, test } from "bun:test";
import { relayedClients, withRelayedClient } from "../../../src/nodes/relayed-events.ts";
import { ClientTable } from "../../../src/protocol/client-table.ts";
import type { MediaEvent } from "../../../src/protocol/media-node.ts";

const OF = { roomId: "r", participantId: "p", identity: "i" };
const CLIENT = { address: "203.0.113.7", port: 50_000 };
const connected = (remoteAddress: string): MediaEvent => ({
  ...OF,
  type: "participantConnected",
  transport: "udp",
  remoteAddress,
  connectMs: 5,
});

test("an address of our relay is replaced by its client's, and other addresses stay", () => {
  const table = new ClientTable();
  const behind = relayedClients(table);
  const seen = (remoteAddress: string) => withRelayedClient(connected(remoteAddress), behind);
  expect(seen("198.51.100.1:40000")).toEqual(connected("198.51.100.1:40000"));
  table.set(40_000, CLIENT, { address: "198.51.100.1", port: 40_000 });
  const relayed = { transport: "relay", remoteAddress: "203.0.113.7:50000" };
  expect(seen("198.51.100.1:40000")).toMatchObject(relayed);
  // The relay may speak from another address of this machine.
  expect(seen("127.0.0.1:40000")).toMatchObject(relayed);
  // The same port at a foreign address is no relay.
  expect(seen("192.0.2.5:40000")).toEqual(connected("192.0.2.5:40000"));
  table.clear(40_000);
  expect(seen("198.51.100.1:40000")).toEqual(connected("198.51.100.1:40000"));
});
