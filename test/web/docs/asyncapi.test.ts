import { afterAll, expect, test } from "bun:test";
import specification from "@asyncapi/specs/schemas/3.0.0-without-$id.json";
import { Ajv } from "ajv";
import { ChatClientFrames } from "../../../src/protocol/chat.ts";
import { ChatEvents } from "../../../src/protocol/chat-events.ts";
import { ClientFrames, Pushes } from "../../../src/protocol/signaling.ts";
import { type JsonSchema, withoutReferences } from "../../harness/operations.ts";
import { testServer } from "../../harness/server.ts";
import { problemsOf } from "../../spec/contract/schema-check.ts";

type Message = { name: string; payload: object; examples: { payload: unknown }[] };

const server = testServer();
afterAll(server.close);
const { body } = await server.call("GET", "/asyncapi.json");
const { components, channels, operations } = body as unknown as {
  components: { messages: Record<string, Message>; schemas: Record<string, JsonSchema> };
  channels: Record<string, { messages: Record<string, { $ref: string }> }>;
  operations: Record<string, { messages: { $ref: string }[]; reply?: { messages: { $ref: string }[] } }>;
};

test("the document is valid according to the schema of AsyncAPI", () => {
  const ajv = new Ajv({ strict: false, validateFormats: false });
  const validate = ajv.compile(specification);
  expect([validate(body), validate.errors]).toEqual([true, null]);
});

test("the document contains every frame of the protocol", () => {
  const requests = Object.keys(operations).filter((name) => !name.endsWith(".push"));
  const named = (prefix: string, frames: object) => Object.keys(frames).map((type) => `${prefix}.${type}`);
  expect(requests.sort()).toEqual([...named("rtc", ClientFrames), ...named("chat", ChatClientFrames)].sort());
  const messages = Object.keys(components.messages);
  expect(messages).toEqual(expect.arrayContaining([...named("rtc.push", Pushes), ...named("chat.push", ChatEvents)]));
});

test("all references resolve, and every example matches its schema", () => {
  const lookUp = (ref: string) => {
    const [, , channel = "", , id = ""] = ref.split("/");
    const target = channels[channel]?.messages[id]?.$ref.split("/").at(-1) ?? "";
    return components.messages[target];
  };
  for (const { messages, reply } of Object.values(operations)) {
    for (const { $ref } of [...messages, ...(reply?.messages ?? [])])
      expect([$ref, lookUp($ref)?.name]).not.toContain(undefined);
  }
  const misfits = Object.entries(components.messages).flatMap(([id, { payload, examples }]) => {
    const schema = withoutReferences(payload, components.schemas) as JsonSchema;
    return examples.flatMap((example) => problemsOf(example.payload, schema, id));
  });
  expect(misfits).toEqual([]);
});
