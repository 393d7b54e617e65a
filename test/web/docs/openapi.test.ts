import { afterAll, expect, test } from "bun:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import { WEBHOOK_EVENT_TYPES } from "../../../src/protocol/webhook-events.ts";
import { type JsonSchema, withoutReferences } from "../../harness/operations.ts";
import { testServer } from "../../harness/server.ts";
import { problemsOf } from "../../spec/contract/schema-check.ts";
import { compileClient } from "./openapi-client.ts";

type Content = Record<string, { schema: object; example?: unknown }>;
type Operation = {
  tags?: string[];
  requestBody?: { content: Content };
  parameters?: { in: string; name: string; example?: unknown }[];
  responses: Record<string, { content?: Content }>;
};

const server = testServer();
afterAll(server.close);
const { body, text } = await server.call("GET", "/openapi.json");
const { components, tags } = body as unknown as {
  components: { schemas: Record<string, JsonSchema> };
  tags: { name: string; description?: string }[];
};
const operations = [body.paths, body.webhooks].flatMap((section) =>
  Object.entries(section as Record<string, Record<string, Operation>>).flatMap(([path, verbs]) =>
    Object.entries(verbs).map(([verb, operation]) => ({ name: `${verb} ${path}`, operation })),
  ),
);

test("an independent validator finds nothing wrong with the document", async () => {
  const { valid, errors } = await new Validator().validate(JSON.parse(text));
  expect([valid, errors]).toEqual([true, undefined]);
});

test("records have names, which answers and bodies refer to", () => {
  const expected = ["Room", "Participant", "RtcToken", "Conversation", "Message", "ChatToken", "LiveStream", "Webhook"];
  expect(Object.keys(components.schemas)).toEqual(expect.arrayContaining([...expected, "CreateRoom", "SendMessage"]));
  const unnamed = operations.flatMap(({ name, operation }) =>
    Object.entries(operation.responses).flatMap(([status, { content }]) => {
      const schema = content?.["application/json"]?.schema as { properties?: object; items?: { properties?: object } };
      const properties = schema?.properties ?? schema?.items?.properties ?? {};
      return Number(status) < 400 && Object.keys(properties).length > 3 ? [`${name} ${status}`] : [];
    }),
  );
  expect(unnamed).toEqual([]);
});

test("there is an example of every body, every answer and every parameter in a path, and each fits its schema", () => {
  const misfits: string[] = [];
  const check = (where: string, content: Content = {}) => {
    for (const [type, { schema, example }] of Object.entries(content)) {
      if (example === undefined) misfits.push(`${where}: none`);
      else if (type === "application/json") {
        misfits.push(...problemsOf(example, withoutReferences(schema, components.schemas) as JsonSchema, where));
      }
    }
  };
  for (const { name, operation } of operations) {
    check(`${name} body`, operation.requestBody?.content);
    for (const [status, { content }] of Object.entries(operation.responses)) check(`${name} ${status}`, content);
    for (const parameter of operation.parameters ?? []) {
      if (parameter.in === "path" && parameter.example === undefined) misfits.push(`${name} ${parameter.name}: none`);
    }
  }
  expect(misfits).toEqual([]);
});

test("chapters are described; rooms and chat come before accounts, in the list and in the paths", () => {
  expect(tags.filter(({ description }) => description === undefined)).toEqual([]);
  const order = tags.map(({ name }) => name);
  expect(order[0]).toBe("rooms");
  expect(order.indexOf("chat")).toBeLessThan(order.indexOf("auth"));
  const used = operations.flatMap(({ operation }) => operation.tags ?? [`untagged`]);
  expect([...new Set(used)].filter((tag) => !order.includes(tag))).toEqual([]);
  const paths = Object.keys(body.paths as object);
  expect(paths.indexOf("/v1/rooms")).toBe(0);
  expect(paths.indexOf("/v1/chat/conversations")).toBeLessThan(paths.indexOf("/v1/auth/login"));
});

test("every webhook event is described with its payload", () => {
  expect(Object.keys(body.webhooks as object)).toEqual([...WEBHOOK_EVENT_TYPES]);
});

test("an answer without a body shows none", () => {
  for (const { name, operation } of operations) {
    expect([name, operation.responses["204"]?.content]).toEqual([name, undefined]);
  }
});

test("a client by openapi-typescript compiles, and refuses what the API would", async () => {
  const program = (name: string) => `import type { components, paths } from "./api";
    type Create = paths["/v1/rooms"]["post"];
    const body: Create["requestBody"]["content"]["application/json"] = { name: ${name} };
    const room: components["schemas"]["Room"] | null = null as Create["responses"][201]["content"]["application/json"] | null;
    const message = (one: components["schemas"]["Message"]): string | null => one.text;
    export { body, room, message };`;
  expect(await compileClient(text, program('"standup"'))).toBe("");
  expect(await compileClient(text, program("5"))).toContain("TS2322");
}, 60_000);
