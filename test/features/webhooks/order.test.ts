import { afterAll, expect, test } from "bun:test";
import type { WebhookEvent } from "../../../src/features/webhooks/events.ts";
import { testServer } from "../../harness/server.ts";
import { hookedEndpoint } from "./hooked-project.ts";
import { ok } from "./receiver.ts";

const server = testServer();
afterAll(server.close);

const JOINS = 12;
const NOBODY = { name: null, attributes: {}, kind: "standard" } as const;

function joined(projectId: string, callId: string, identity: string): WebhookEvent {
  const at = server.clock.now();
  const data = {
    callId,
    roomId: "room",
    identity,
    connectionId: identity,
    ...NOBODY,
    metadata: null,
    at: "2026-01-01",
  };
  return { type: "call.participant_joined", projectId, environment: "DEVELOPMENT", at, data };
}

/** Publishes the events in one commit, so that all are due at the same time. */
function announceAll(facts: WebhookEvent[]): Promise<void> {
  return server.runtime.write((unit) => {
    for (const fact of facts) server.runtime.bus.publish(unit, "webhook", fact);
  });
}

test("[17] an event of a call is sent after the response to its predecessor; other calls do not wait", async () => {
  const { receiver, projectId, announce } = await hookedEndpoint(server);
  // An endpoint has one slot until it has answered.
  await announce();
  await server.services.webhookDispatcher.runDue();
  receiver.received.length = 0;

  const underWay = new Map<string, number>();
  let most = 0;
  let overlaps = 0;
  receiver.reply = async ({ event }) => {
    const callId = String(event.data.callId);
    const already = underWay.get(callId) ?? 0;
    if (already > 0) overlaps += 1;
    underWay.set(callId, already + 1);
    most = Math.max(
      most,
      [...underWay.values()].reduce((sum, count) => sum + count),
    );
    // Earlier events are answered later, so concurrent ones would be answered in reverse.
    await Bun.sleep(JOINS - Number(event.data.identity));
    underWay.set(callId, already);
    return ok();
  };
  const numbers = Array.from({ length: JOINS }, (_, number) => number);
  await announceAll(
    numbers.flatMap((number) => [joined(projectId, "call_a", `${number}`), joined(projectId, "call_b", `${number}`)]),
  );
  await server.services.webhookDispatcher.runDue();
  const heardOf = (callId: string) =>
    receiver.received
      .filter(({ event }) => event.data.callId === callId)
      .map(({ event }) => Number(event.data.identity));
  expect(heardOf("call_a")).toEqual(numbers);
  expect(heardOf("call_b")).toEqual(numbers);
  expect(overlaps).toBe(0);
  expect(most).toBe(2);
});

test("[17] a call whose event gets no response delays neither other calls nor the reading of the log", async () => {
  const { receiver, projectId, announce, deliveries, id } = await hookedEndpoint(server);
  await announce();
  await server.services.webhookDispatcher.runDue();
  receiver.received.length = 0;

  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  receiver.reply = async ({ event }) => {
    if (event.data.callId === "call_slow") await released;
    return ok();
  };
  const many = 100;
  await announceAll([
    joined(projectId, "call_slow", "0"),
    joined(projectId, "call_quick", "0"),
    joined(projectId, "call_quick", "1"),
    ...Array.from({ length: many }, (_, number) => joined(projectId, "call_slow", `${number + 1}`)),
  ]);
  const sent = server.services.webhookDispatcher.runDue();
  await receiver.arrived(3);
  expect(receiver.received.map(({ event }) => event.data.callId)).toEqual(["call_slow", "call_quick", "call_quick"]);
  expect((await deliveries(id)).length).toBeLessThan(many / 2);
  release();
  await sent;
  const slow = receiver.received.filter(({ event }) => event.data.callId === "call_slow");
  expect(slow.map(({ event }) => Number(event.data.identity))).toEqual(Array.from({ length: many + 1 }, (_, n) => n));
});
