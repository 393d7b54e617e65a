import { afterAll, expect, test } from "bun:test";
import { testServer } from "../../harness/server.ts";
import { hookedEndpoint } from "./hooked-project.ts";
import { failing, ok, type Receiver } from "./receiver.ts";

const server = testServer();
afterAll(server.close);
const { runDue } = server.services.webhookDispatcher;
const identities = ({ received }: Receiver) => received.map(({ event }) => event.data.identity);

test("[contract 16] a receiver that is down for two seconds during sixty messages is not disabled and gets all of them", async () => {
  const { announce, webhook, receiver } = await hookedEndpoint(server);
  receiver.reply = failing;
  for (let n = 0; n < 60; n++) await announce(`viewer-${n}`);
  await runDue();
  expect(await webhook()).toMatchObject({ status: "ACTIVE", disabledReason: null, consecutiveFailures: 60 });
  server.clock.advance(2_000);
  receiver.reply = ok;
  receiver.received.length = 0;
  server.clock.advance(11_000);
  await runDue();
  expect(new Set(identities(receiver)).size).toBe(60);
  expect(await webhook()).toMatchObject({ status: "ACTIVE", consecutiveFailures: 0 });
});

test("[contract 16] an hour of failures disables an endpoint, a second less does not, and a success restarts the hour", async () => {
  const { announce, webhook, receiver } = await hookedEndpoint(server);
  receiver.reply = failing;
  for (let n = 0; n < 60; n++) await announce(`early-${n}`);
  await runDue();
  server.clock.advance(3_599_000);
  await runDue();
  expect((await webhook()).status).toBe("ACTIVE");
  // After a success, the next failures have an hour of their own.
  receiver.reply = ok;
  await announce("through");
  await runDue();
  receiver.reply = failing;
  for (let n = 0; n < 60; n++) await announce(`late-${n}`);
  await runDue();
  server.clock.advance(3_599_000);
  await runDue();
  expect((await webhook()).status).toBe("ACTIVE");
  server.clock.advance(1_000);
  await announce("last");
  await runDue();
  expect(await webhook()).toMatchObject({ status: "DISABLED", disabledReason: "consecutive_failures" });
});

test("[contract 16] recover without a time starts at the first failure and includes events missed while disabled", async () => {
  const { announce, call, id, receiver } = await hookedEndpoint(server);
  await announce("arrived");
  await runDue();
  server.clock.advance(1_000);
  receiver.reply = () => new Response(null, { status: 410 });
  await announce("failed");
  await runDue();
  await announce("while-disabled");
  server.clock.advance(60_000);
  await call("PATCH", `/${id}`, { status: "ACTIVE" });
  receiver.reply = ok;
  receiver.received.length = 0;
  expect((await call("POST", `/${id}/recover`, {})).body).toEqual({ recovered: 2 });
  await runDue();
  expect(identities(receiver).sort()).toEqual(["failed", "while-disabled"]);
  // No event is missing any more.
  expect((await call("POST", `/${id}/recover`, {})).body).toEqual({ recovered: 0 });

  await call("PATCH", `/${id}`, { status: "DISABLED" });
  await announce("while-disabled-by-hand");
  await call("PATCH", `/${id}`, { status: "ACTIVE" });
  expect((await call("POST", `/${id}/recover`, {})).body).toEqual({ recovered: 1 });
});
