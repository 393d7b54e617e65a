import { expect, test } from "bun:test";
import { createLiveRooms } from "../../../src/gateways/signaling/live-rooms.ts";
import type { Lobby } from "../../../src/gateways/signaling/lobby.ts";
import type { Membership } from "../../../src/gateways/signaling/membership.ts";
import type { SessionRegistry } from "../../../src/gateways/signaling/rtc-session.ts";
import type { MediaNode } from "../../../src/protocol/media-node.ts";
import type { NetworkProfile } from "../../../src/protocol/playground.ts";

test("a network profile can be lifted for a participant who left, and set only for a present one", async () => {
  const set: NetworkProfile[] = [];
  const node = { setNetwork: async ({ profile }: { profile: NetworkProfile }) => void set.push(profile) };
  const registry = {
    room: () => ({ sites: new Map([["n1", { node: node as unknown as MediaNode }]]) }),
    find: () => undefined,
  };
  const rooms = createLiveRooms(registry as unknown as SessionRegistry, {} as Membership, {} as Lobby, {
    links: () => [],
  });
  await expect(rooms.setNetwork("room", "anna", "offline")).rejects.toMatchObject({
    code: "SVC_PARTICIPANT_NOT_FOUND",
  });
  await rooms.setNetwork("room", "anna", "none");
  expect(set).toEqual(["none"]);
});
