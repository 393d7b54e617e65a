import { afterAll, afterEach, expect, test } from "bun:test";

const before = { fetch: globalThis.fetch, location: globalThis.location };
const requests: string[] = [];
globalThis.location = { origin: "http://stoa.test" } as Location;
globalThis.fetch = (async (input: string, { method }: RequestInit) => {
  requests.push(`${method} ${new URL(input).pathname}${new URL(input).search}`);
  return Response.json({});
}) as typeof fetch;
const { api } = await import("../../../web/dashboard/api.ts");
afterEach(() => requests.splice(0));
afterAll(() => Object.assign(globalThis, before));

test("[2] an identity leads no request to another route", async () => {
  const at = api.v1.projects({ projectId: "p" });
  for (const identity of ["../../..", "..", ".", "ben?x=1", "ben#x", "a/b", "Zoë 100%"]) {
    await at.rooms({ roomId: "r" }).participants({ identity }).delete();
    await at.people({ userId: identity }).get({ query: { environment: "PRODUCTION" } });
  }
  const names = ["..%2F..%2F..", "%20..", "%20.", "ben%3Fx%3D1", "ben%23x", "a%2Fb", "Zo%C3%AB%20100%25"];
  expect(requests).toEqual(
    names.flatMap((name) => [
      `DELETE /v1/projects/p/rooms/r/participants/${name}`,
      `GET /v1/projects/p/people/${name}?environment=PRODUCTION`,
    ]),
  );
});

test("[2] bodies with a single field are sent as they are", async () => {
  let sent: unknown;
  const { fetch } = globalThis;
  globalThis.fetch = (async (_, { body }: RequestInit) => {
    sent = JSON.parse(String(body));
    return Response.json({});
  }) as typeof fetch;
  await api.v1.projects({ projectId: "p" }).rooms.post({ name: "a b/c" });
  globalThis.fetch = fetch;
  expect(sent).toEqual({ name: "a b/c" });
});
