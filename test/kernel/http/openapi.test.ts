import { afterAll, expect, test } from "bun:test";
import { credentialsOf } from "../../../src/kernel/http/guards.ts";
import { errorsOf } from "../../../src/kernel/http/reference/docs.ts";
import { ERRORS } from "../../../src/protocol/errors.ts";
import { testServer } from "../../harness/server.ts";

type Operation = {
  summary?: string;
  operationId: string;
  security: object[];
  parameters: { name: string; in: string }[];
  requestBody?: { content: object };
  responses: Record<string, { description: string }>;
};

const server = testServer();
afterAll(server.close);

const { status, body, text } = await server.call("GET", "/openapi.json");
const paths = body.paths as Record<string, Record<string, Operation>>;
const operations = Object.entries(paths).flatMap(([path, verbs]) =>
  Object.entries(verbs).map(([verb, operation]) => ({ path, name: `${verb.toUpperCase()} ${path}`, operation })),
);
const shown = server.app.routes.filter(
  ({ method, hooks }) => method !== "WS" && !(hooks as { detail?: { hide?: boolean } }).detail?.hide,
);

test("[10] the reference is public and contains every route", () => {
  expect(status).toBe(200);
  expect(body.openapi).toBe("3.1.0");
  const described = operations.map(({ name }) => name).sort();
  const served = shown.map(({ method, path }) => `${method} ${path.replace(/:(\w+)/g, "{$1}")}`).sort();
  expect(described).toEqual(served);
});

test("[10] every route documents a summary and its own errors", () => {
  const silent = shown
    .filter(({ hooks }) => {
      const { detail } = hooks as { detail?: { summary?: string } };
      return !detail?.summary || errorsOf(detail) === undefined;
    })
    .map(({ method, path }) => `${method} ${path}`);
  expect(silent).toEqual([]);
});

test("[10] every operation documents its success, errors and credentials", () => {
  for (const { name, operation } of operations) {
    const statuses = Object.keys(operation.responses).map(Number);
    expect([name, statuses.some((code) => code < 300)]).toEqual([name, true]);
    expect([name, statuses.includes(500)]).toEqual([name, true]);
    expect([name, statuses.includes(401) || operation.security.length === 0]).toEqual([name, true]);
    for (const response of Object.values(operation.responses)) expect(response.description).not.toBe("");
  }
  const [keys] = operations.filter(({ name }) => name === "POST /v1/projects/{projectId}/api-keys");
  expect(keys?.operation.security).toEqual([{ session: [] }]);
  expect(Object.keys(keys?.operation.responses ?? {})).toEqual(
    expect.arrayContaining(["201", "400", "401", "403", "404", "409", "413", "415", "422", "429", "500"]),
  );
  expect(keys?.operation.parameters.map(({ name }) => name)).toContain("Idempotency-Key");
});

test("[10] operation ids are unique, path parameters are declared, references resolve, and bodies are JSON", () => {
  const ids = operations.map(({ operation }) => operation.operationId);
  expect(new Set(ids).size).toBe(ids.length);
  for (const { path, name, operation } of operations) {
    const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, parameter]) => parameter).sort();
    const declared = operation.parameters.filter((one) => one.in === "path").map((one) => one.name);
    expect([name, declared.sort()]).toEqual([name, inPath as string[]]);
    const content = Object.keys(operation.requestBody?.content ?? {});
    const sdpType = name.startsWith("PATCH") ? "application/trickle-ice-sdpfrag" : "application/sdp";
    const type = /^\/wh[ie]p\//.test(path) ? sdpType : "application/json";
    if (content.length > 0 && !path.startsWith("/v1/storage")) expect([name, content]).toEqual([name, [type]]);
  }
  const { schemas } = body.components as { schemas: { Error: { properties: { code: { enum: string[] } } } } };
  const references = new Set([...text.matchAll(/"\$ref":"([^"]+)"/g)].map(([, reference]) => reference));
  expect([...references].sort()).toEqual(
    Object.keys(schemas)
      .map((name) => `#/components/schemas/${name}`)
      .sort(),
  );
  expect(schemas.Error.properties.code.enum).toEqual(Object.keys(ERRORS));
});

test("[10] lengths are documented as lengths, and keywords of the validator do not appear", () => {
  const create = paths["/v1/projects"]?.post?.requestBody?.content as Record<string, { schema: unknown }>;
  expect(create["application/json"]?.schema).toMatchObject({
    properties: { name: { type: "string", minLength: 1, maxLength: 80 } },
  });
  expect(text).not.toContain("codePoints");
  expect(text).not.toContain("x-errors");
  expect(text).not.toContain("uD800");
});

test("[10] an operation's security lists the credentials that its guard accepts", () => {
  for (const { method, path, hooks } of shown) {
    const operation = paths[path.replace(/:(\w+)/g, "{$1}")]?.[method.toLowerCase()];
    expect(operation?.security.flatMap((scheme) => Object.keys(scheme))).toEqual(credentialsOf(hooks as object));
  }
});
