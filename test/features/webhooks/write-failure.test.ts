import { afterAll, expect, test } from "bun:test";
import { testServer } from "../../harness/server.ts";
import { hookedEndpoint } from "./hooked-project.ts";

const server = testServer();
afterAll(server.close);
const { runDue } = server.services.webhookDispatcher;

test("[6] while outcomes cannot be written, a delivery is not sent again and again", async () => {
  const { announce, receiver, delivery } = await hookedEndpoint(server);
  const db = server.runtime.db.$client;
  db.run("CREATE TRIGGER full BEFORE UPDATE ON webhook_deliveries BEGIN SELECT RAISE(ABORT, 'disk full'); END");
  await announce();
  await runDue();
  await runDue();
  expect(receiver.received.length).toBe(1);

  server.clock.advance(10_000);
  await runDue();
  expect(receiver.received.length).toBe(2);

  db.run("DROP TRIGGER full");
  server.clock.advance(10_000);
  await runDue();
  expect(receiver.received.length).toBe(3);
  expect((await delivery())?.status).toBe("DELIVERED");
  expect(new Set(receiver.received.map(({ body }) => body)).size).toBe(1);
  receiver.close();
});
