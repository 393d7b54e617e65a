import { afterEach, beforeEach, expect, test } from "bun:test";
import { accessToken, adoptSession, renewSession, sessionKnown, signedIn } from "../../../web/dashboard/session.ts";

const user = { id: "u", email: "a@example.com", name: null, emailVerified: true, isOperator: false, createdAt: "" };
const before = globalThis.fetch;
beforeEach(() => adoptSession({ user, accessToken: "old" }));
afterEach(() => {
  globalThis.fetch = before;
});

async function renewed(respond: () => Promise<Response>) {
  globalThis.fetch = respond as unknown as typeof fetch;
  return {
    renewed: await renewSession(),
    signedIn: signedIn.value,
    token: accessToken.value,
    known: sessionKnown.value,
  };
}

test("[2] a refused renewal signs the user out, a failed one does not", async () => {
  const stays = { renewed: false, signedIn: true, token: "old", known: true };
  expect(await renewed(async () => new Response(null, { status: 500 }))).toEqual(stays);
  expect(await renewed(async () => new Response(null, { status: 502 }))).toEqual(stays);
  expect(await renewed(() => Promise.reject(new TypeError("offline")))).toEqual(stays);
  expect(await renewed(async () => Response.json({ user, accessToken: "new" }))).toEqual({
    renewed: true,
    signedIn: true,
    token: "new",
    known: true,
  });
  expect(await renewed(async () => new Response(null, { status: 401 }))).toEqual({
    renewed: false,
    signedIn: false,
    token: null,
    known: true,
  });
});
