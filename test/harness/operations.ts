import type { CredentialKind } from "../../src/kernel/http/guards.ts";
import type { TestServer } from "./server.ts";

/** The part of JSON Schema that the reference uses. */
export type JsonSchema = {
  type?: string | string[];
  const?: unknown;
  enum?: unknown[];
  anyOf?: JsonSchema[];
  allOf?: JsonSchema[];
  properties?: Record<string, JsonSchema>;
  patternProperties?: Record<string, JsonSchema>;
  additionalProperties?: boolean | JsonSchema;
  required?: string[];
  items?: JsonSchema;
  minItems?: number;
  maxItems?: number;
  uniqueItems?: boolean;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  format?: string;
  contentMediaType?: string;
  minimum?: number;
  maximum?: number;
};

type Content = Record<string, { schema?: JsonSchema }>;

/** One route as the reference describes it. */
export type Operation = {
  name: string;
  method: string;
  path: string;
  /** Names in the path, in its order. */
  pathParameters: string[];
  query: { name: string; required: boolean; schema: JsonSchema }[];
  takesIdempotencyKey: boolean;
  body: JsonSchema | undefined;
  bodyType: string;
  credentials: CredentialKind[];
  responses: Map<number, JsonSchema | undefined>;
};

type Described = {
  parameters: { name: string; in: string; required?: boolean; schema: JsonSchema }[];
  requestBody?: { content: Content };
  security: Record<string, unknown>[];
  responses: Record<string, { content?: Content }>;
};

/** Every operation of `/openapi.json`, so that tests over all operations include new routes. */
export async function operationsOf(server: TestServer): Promise<Operation[]> {
  const { body } = await server.call("GET", "/openapi.json");
  const { schemas } = body.components as { schemas: Record<string, JsonSchema> };
  const paths = withoutReferences(body.paths, schemas) as Record<string, Record<string, Described>>;
  return Object.entries(paths).flatMap(([path, verbs]) =>
    Object.entries(verbs).map(([verb, described]) => operationOf(verb.toUpperCase(), path, described)),
  );
}

/** Replaces references with the named schemas. */
export function withoutReferences(value: unknown, schemas: Record<string, JsonSchema>): unknown {
  if (Array.isArray(value)) return value.map((item) => withoutReferences(item, schemas));
  if (typeof value !== "object" || value === null) return value;
  if ("$ref" in value) return withoutReferences(schemas[String(value.$ref).split("/").at(-1) ?? ""], schemas);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withoutReferences(item, schemas)]));
}

function operationOf(method: string, path: string, described: Described): Operation {
  const { parameters, requestBody, security, responses } = described;
  const statuses = Object.entries(responses).map(([status, { content }]) => [Number(status), json(content)] as const);
  return {
    name: `${method} ${path}`,
    method,
    path,
    pathParameters: [...path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => name),
    query: parameters
      .filter((parameter) => parameter.in === "query")
      .map(({ name, required = false, schema }) => ({ name, required, schema })),
    takesIdempotencyKey: parameters.some(({ name }) => name === "Idempotency-Key"),
    body: Object.values(requestBody?.content ?? {})[0]?.schema,
    bodyType: Object.keys(requestBody?.content ?? {})[0] ?? "application/json",
    credentials: security.flatMap((scheme) => Object.keys(scheme) as CredentialKind[]),
    responses: new Map(statuses),
  };
}

const json = (content: Content | undefined) => content?.["application/json"]?.schema;

/** The path with every parameter replaced by its value. */
export function fillPath({ path }: Operation, idOf: (name: string) => string): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(idOf(name)));
}
