import { afterAll, expect, test } from "bun:test";
import { Stoa, StoaApiError } from "../../web/sdk/server.ts";
import { createTestAccounts } from "../harness/accounts.ts";
import { realServer } from "../harness/real-server.ts";

const BUDGET = 20;
const server = await realServer({ RATE_LIMIT_RTC_TOKENS: BUDGET, RATE_LIMIT_WINDOW_SECONDS: 3_600 });
afterAll(server.close);

const count = (table: string) =>
  server.runtime.db.$client.query<{ n: number }, []>(`SELECT count(*) AS n FROM ${table}`).get()?.n ?? 0;
const client = (apiKey: string) => new Stoa({ url: server.url, apiKey, retries: 0 });

test("[8] a backend that mints joins endlessly is refused over its rate limit, and other backends are not", async () => {
  const flooding = client(server.key);
  const other = client((await createTestAccounts(server.runtime, server.services).project()).key);
  const flood = Array.from({ length: 5 * BUDGET }, (_, n) =>
    flooding.mintJoin({ room: `room-${n % 10}`, user: `user-${n}` }).then(
      () => "joined",
      (error) => (error instanceof StoaApiError ? error : Promise.reject(error)),
    ),
  );
  // Amid the flood.
  const { rtc, chat } = await other.mintJoin({ room: "honest", user: "anna" });
  expect([rtc.participantIdentity, chat.userId]).toEqual(["anna", "anna"]);

  const ended = await Promise.all(flood);
  const refused = ended.filter((one) => one instanceof StoaApiError);
  expect(refused.map(({ code }) => code)).toEqual(refused.map(() => "SVC_RATE_LIMITED"));
  expect(ended.length - refused.length).toBeLessThanOrEqual(BUDGET);
  // Rows of the honest client, and of the flood as far as its budget allows; a refusal leaves nothing behind.
  expect(count("rtc_tokens")).toBeLessThanOrEqual(BUDGET + 1);
  expect(count("rooms")).toBeLessThanOrEqual(11);
  expect(count("conversations")).toBeLessThanOrEqual(11);
});
