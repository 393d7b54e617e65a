import { afterAll, expect, test } from "bun:test";
import { AcmeClient } from "../../../src/network/acme/client.ts";
import { newKey } from "../../../src/network/acme/x509.ts";

const WEEK_MS = 7 * 86_400_000;

let retryAfter = "";
const authority = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: () => Response.json({}, { headers: { "retry-after": retryAfter } }),
});
afterAll(() => authority.stop(true));

const directoryUrl = authority.url.href;
const account = { directory: directoryUrl, key: newKey().export({ format: "jwk" }), url: null };
const client = new AcmeClient({ directoryUrl, account, ca: undefined, userAgent: "test" });

async function waitFor(value: string): Promise<number | null> {
  retryAfter = value;
  return (await client.get(directoryUrl)).retryAfterMs;
}

test("a Retry-After in seconds or as a date is honoured", async () => {
  expect(await waitFor("120")).toBe(120_000);
  const inAnHour = await waitFor(new Date(Date.now() + 3_600_000).toUTCString());
  expect(inAnHour).toBeGreaterThan(3_590_000);
  expect(inAnHour).toBeLessThanOrEqual(3_600_000);
});

test.each(["99999999999", "9".repeat(300), "9".repeat(400), "Fri, 31 Dec 9999 23:59:59 GMT"])(
  "a Retry-After of %p is limited to a week",
  async (value) => expect(await waitFor(value)).toBe(WEEK_MS),
);

test.each(["0", "-5", "soon", "1e9", "Thu, 01 Jan 1970 00:00:00 GMT"])(
  "a Retry-After of %p is ignored",
  async (value) => expect(await waitFor(value)).toBeNull(),
);
