import { afterEach, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { type ServerProcess, startServer } from "../../e2e/sdk/server-process.ts";
import { Fleet } from "../../nodes/remote/fleet-of-processes.ts";
import { meet } from "./harness/meeting.ts";
import { type StageBeside, stageBeside, WAIT_MS } from "./harness/stage.ts";

const cleanup: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of cleanup.splice(0).reverse()) await one.close();
});

const closing = <T extends { close(): Promise<void> }>(opened: T): T => {
  cleanup.push(opened);
  return opened;
};

async function recordsOf({ stoa }: StageBeside) {
  const records = await stoa.connections.list();
  expect(records.map(({ participantIdentity }) => participantIdentity).sort()).toEqual(["ann", "ben"]);
  return records;
}

/** By what each peer connection of this page reaches the server. */
const protocolsOf = (page: Page) =>
  page.evaluate(async () => {
    const { publisher, subscriber } = window.livekit.engine.pcManager;
    const connections = [publisher, subscriber].flatMap((one) => (one ? [one._pc as RTCPeerConnection] : []));
    return Promise.all(
      connections.map(async (connection) => {
        const stats = await connection.getStats();
        // Whichever is in use: the state of a pair says "in-progress" again whenever a check of it is not answered yet.
        const transport = [...stats.values()].find(({ type }) => type === "transport");
        const pair = stats.get(transport?.selectedCandidatePairId);
        return stats.get(pair?.remoteCandidateId)?.protocol as string | undefined;
      }),
    );
  });

/** In a page: of the server's addresses, only those for TCP can be reached. */
function blockUdp(): void {
  const { prototype } = RTCPeerConnection;
  const setRemoteDescription: (description: RTCSessionDescriptionInit) => Promise<void> =
    prototype.setRemoteDescription;
  prototype.setRemoteDescription = function (description: RTCSessionDescriptionInit) {
    const sdp = description.sdp?.replace(/^a=candidate:\S+ \d+ udp .*\r\n/gim, "");
    return setRemoteDescription.call(this, { type: description.type, sdp });
  };
}

test(
  "a room on a remote media node takes LiveKit's clients with one and two connections",
  async () => {
    const fleet = closing(await Fleet.startOnLoopback());
    await fleet.node("eu1", "eu");
    const stage = closing(await stageBeside(await fleet.facts()));
    await stage.stoa.rooms.create({ name: "far", region: "eu" });
    await meet(stage, "far");
    expect((await recordsOf(stage)).map(({ serverName }) => serverName)).toEqual(["eu1", "eu1"]);
  },
  4 * WAIT_MS,
);

test(
  "without UDP LiveKit's clients connect over TCP on the same port",
  async () => {
    const server: ServerProcess = closing(await startServer());
    const stage = closing(await stageBeside(server, blockUdp));
    const { ann, ben } = await meet(stage, "narrow");
    expect(await protocolsOf(ann)).toEqual(["tcp"]);
    expect(await protocolsOf(ben)).toEqual(["tcp", "tcp"]);
    for (const { connectionId } of await recordsOf(stage)) {
      const { events } = await stage.stoa.connections.get(connectionId);
      expect(events.find(({ type }) => type === "connected")?.data).toMatchObject({ transport: "tcp" });
    }
  },
  4 * WAIT_MS,
);
