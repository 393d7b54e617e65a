import { afterAll, describe, expect, test } from "bun:test";
import { Value } from "@sinclair/typebox/value";
import { exampleOfEvent } from "../../../src/kernel/http/reference/examples.ts";
import { WebhookPayloads } from "../../../src/protocol/webhook-payloads.ts";
import { type JsonSchema, withoutReferences } from "../../harness/operations.ts";
import { testServer } from "../../harness/server.ts";
import { problemsOf } from "../../spec/contract/schema-check.ts";

type Json = Record<string, unknown>;
const server = testServer();
afterAll(server.close);
const { body } = await server.call("GET", "/openapi.json");
const { schemas } = body.components as { schemas: Record<string, JsonSchema> };

/** Every object within a value. */
function objectsIn(value: unknown): Json[] {
  if (typeof value !== "object" || value === null) return [];
  const inner = Object.values(value).flatMap(objectsIn);
  return Array.isArray(value) ? inner : [value as Json, ...inner];
}

const ringsCaller = ({ callerId, members }: Json) =>
  callerId !== undefined && Array.isArray(members) && members.some(({ userId }) => userId === callerId);

/** Combinations of fields that cannot be true of one record. */
function contradictions(example: unknown): string[] {
  return objectsIn(example).flatMap((record) => {
    const { startedAt, endedAt, durationMs } = record;
    const at = (name: string) => (typeof record[name] === "string" ? Date.parse(record[name]) : null);
    const lasted = Date.parse(String(endedAt)) - Date.parse(String(startedAt));
    const wrongDuration =
      typeof startedAt === "string" &&
      typeof endedAt === "string" &&
      typeof durationMs === "number" &&
      lasted !== durationMs;
    const isBefore = (later: string, earlier: string) => {
      const [a, b] = [at(later), at(earlier)];
      return a !== null && b !== null && a < b;
    };
    return [
      ...(wrongDuration ? [`${durationMs} ms from ${startedAt} to ${endedAt}`] : []),
      ...(isBefore("endedAt", "startedAt") ? ["it ended before it began"] : []),
      ...(isBefore("updatedAt", "createdAt") ? ["it was changed before it was made"] : []),
      ...(record.edited === false && at("editedAt") !== null ? ["it was edited and was not"] : []),
      ...(record.status === "READY" && record.error != null ? ["it failed and is ready"] : []),
      ...(ringsCaller(record) ? ["the caller rings itself"] : []),
      ...(record.deleted === false && at("deletedAt") !== null ? ["it was deleted and was not"] : []),
    ];
  });
}

describe("[10] the example of a webhook event", () => {
  test.each(Object.entries(WebhookPayloads))("%s fits its schema and does not contradict itself", (type, schema) => {
    const example = exampleOfEvent(type, schema, () => ({}));
    expect([...Value.Errors(schema, example)].map(({ path, message }) => `${path} ${message}`)).toEqual([]);
    expect(contradictions(example)).toEqual([]);
    for (const record of objectsIn(example)) {
      const placeholders = Object.keys(record).filter(
        (name) => name !== "type" && [record[name]].flat().includes("text"),
      );
      expect(placeholders).toEqual([]);
      for (const [name, prefix] of Object.entries({ callId: "call_", messageId: "msg_", streamId: "stream_" })) {
        if (typeof record[name] === "string") expect(record[name]).toStartWith(prefix);
      }
    }
  });

  test("is dated after the event, and is in its envelope", () => {
    const webhooks = body.webhooks as Record<string, { post: { requestBody: { content: Json } } }>;
    for (const [type, { post }] of Object.entries(webhooks)) {
      const { example } = post.requestBody.content["application/json"] as { example: Json };
      expect([example.type, String(example.id).slice(0, 4)]).toEqual([type, "evt_"]);
      const times = objectsIn(example.data).flatMap((record) =>
        Object.entries(record).flatMap(([name, time]) =>
          /^(ended|left|deleted|started)?[aA]t$/.test(name) ? [time] : [],
        ),
      );
      for (const time of times.filter((one) => typeof one === "string")) {
        expect([type, String(example.createdAt) >= String(time)]).toEqual([type, true]);
      }
    }
  });
});

test("[10] every example of the reference fits its schema and does not contradict itself", () => {
  const found: string[] = [];
  let examples = 0;
  const walk = (value: unknown, at: string): void => {
    if (typeof value !== "object" || value === null) return;
    const { schema, example } = value as { schema?: JsonSchema; example?: unknown };
    if (schema !== undefined && example !== undefined) {
      examples++;
      const problems = problemsOf(example, withoutReferences(schema, schemas) as JsonSchema);
      found.push(...[...problems, ...contradictions(example)].map((problem) => `${at}: ${problem}`));
    }
    for (const [key, item] of Object.entries(value)) walk(item, `${at} ${key}`);
  };
  walk(body.paths, "");
  walk(body.webhooks, "");
  expect(examples).toBeGreaterThan(200);
  expect(found).toEqual([]);
});
