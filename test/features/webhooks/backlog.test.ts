import { afterAll, expect, test } from "bun:test";
import { testServer } from "../../harness/server.ts";
import { hookedEndpoint } from "./hooked-project.ts";
import { failing, ok } from "./receiver.ts";

const server = testServer();
afterAll(server.close);
const { clock } = server;
const { runDue } = server.services.webhookDispatcher;
const backlogOf = server.services.webhookBacklog;

test("[4.6] the backlog counts pending deliveries and unread events, with the time of the oldest", async () => {
  const { projectId, announce, receiver, call, id } = await hookedEndpoint(server);
  expect(backlogOf(projectId)).toEqual({ pending: 0, oldestAt: null, failingEndpoints: 0 });
  const first = clock.now();
  await announce();
  clock.advance(1000);
  await announce();
  expect(backlogOf(projectId)).toEqual({ pending: 2, oldestAt: first, failingEndpoints: 0 });

  receiver.reply = failing;
  await runDue();
  expect(backlogOf(projectId)).toMatchObject({ pending: 2, failingEndpoints: 1 });
  receiver.reply = ok;
  clock.advance(20_000);
  await runDue();
  expect(backlogOf(projectId)).toEqual({ pending: 0, oldestAt: null, failingEndpoints: 0 });

  await call("PATCH", `/${id}`, { status: "DISABLED" });
  await announce();
  expect(backlogOf(projectId)).toEqual({ pending: 0, oldestAt: null, failingEndpoints: 0 });
});
