/** What a tenant can take from others by forwarding participants to other rooms, each with a process of its own. */
import { afterAll, beforeAll, expect, spyOn, test } from "bun:test";
import { SignJWT } from "jose";
import type { AddParticipant } from "../../src/protocol/media-node.ts";
import { RawClient } from "../gateways/livekit/harness/raw-client.ts";
import { type RealServer, realServer } from "../harness/real-server.ts";

let server: RealServer;
let key = { publicId: "", secret: "" };
beforeAll(async () => {
  server = await realServer({ FORWARD_MAX_RUNNING: 3, FORWARD_MAX_PER_PROJECT: 2 });
  const { apiKeys } = server.services;
  const { publicId } = await server.runtime.write((unit) =>
    apiKeys.create(unit, server.projectId, { name: "livekit", environment: "DEVELOPMENT" }),
  );
  key = { publicId, secret: apiKeys.signingSecret(publicId) };
});
afterAll(() => server.close());

const tokenOf = (video: object, identity = "") =>
  new SignJWT({ video })
    .setProtectedHeader({ alg: "HS256" })
    .setIssuer(key.publicId)
    .setSubject(identity)
    .setExpirationTime("10m")
    .sign(Buffer.from(key.secret));

async function twirp(method: string, grant: object, body: object): Promise<number> {
  const { status } = await fetch(`${server.url}/twirp/livekit.RoomService/${method}`, {
    method: "POST",
    headers: { authorization: `Bearer ${await tokenOf(grant)}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return status;
}

const forward = (to: string) =>
  twirp(
    "ForwardParticipant",
    { roomAdmin: true, room: "stage", destinationRoom: to },
    { room: "stage", identity: "ann", destinationRoom: to },
  );
const remove = (room: string) => twirp("RemoveParticipant", { roomAdmin: true, room }, { room, identity: "ann" });

test("simultaneous requests start no more forwards than a project may have, and an ended one makes room", async () => {
  const wsUrl = server.url.replace(/^http/, "ws");
  const ann = await RawClient.open(wsUrl, await tokenOf({ roomJoin: true, room: "stage" }, "ann"));
  await ann.hears("join");
  const rooms = ["a", "b", "c", "d", "e", "f"];
  const statuses = await Promise.all(rooms.map(forward));
  expect(statuses.filter((status) => status === 200)).toHaveLength(2);
  expect(statuses.filter((status) => status === 429)).toHaveLength(4);
  for (const [n, room] of rooms.entries()) if (statuses[n] === 200) expect(await remove(room)).toBe(200);

  // One that is removed while it begins leaves neither a process nor its place.
  const { node } = server.media;
  const addParticipant = node.addParticipant.bind(node);
  const begins = Promise.withResolvers<void>();
  const goesOn = Promise.withResolvers<void>();
  const slow = spyOn(node, "addParticipant").mockImplementation(async (request: AddParticipant) => {
    if (request.unlisted) {
      begins.resolve();
      await goesOn.promise;
    }
    return addParticipant(request);
  });
  const overtaken = forward("overtaken");
  await begins.promise;
  expect(await remove("overtaken")).toBe(200);
  goesOn.resolve();
  expect(await overtaken).toBe(412);
  slow.mockRestore();
  expect(await Promise.all(["g", "h"].map(forward))).toEqual([200, 200]);
  ann.close();
}, 60_000);
