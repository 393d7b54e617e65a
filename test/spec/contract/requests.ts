import fc from "fast-check";
import type { JsonSchema, Operation } from "../../harness/operations.ts";
import type { Tenant } from "../../harness/tenant.ts";

/** A request to a route, valid or with one invalid part. */
export type Asked = {
  path: string[];
  query: [string, string][];
  body: unknown;
  raw?: string;
  headers: [string, string][];
};

/** Values that are invalid or unusual for any field. */
const JUNK = fc.oneof(
  fc.constantFrom<unknown>(null, true, -1, 0, 1e308, 2 ** 53, 0.5, "", " ", [], {}, [[]], "\u0000", "\ud800", "\u202e"),
  fc.constantFrom<unknown>(
    "__proto__",
    "constructor",
    "' OR 1=1 --",
    "../../etc/passwd",
    "%00",
    "a\r\nb: c",
    "\u001b[2J",
  ),
  fc.constantFrom<unknown>("x".repeat(5000), "💥".repeat(300), nested(200), { __proto__: null, toString: 1 }),
  fc.jsonValue({ maxDepth: 2 }),
);

/** A path parameter that does not exist, and that URL parsing does not remove. */
const NOWHERE = fc.constantFrom(
  ...[
    "nothing",
    "%",
    "%00",
    "..%2f..",
    "~",
    "null",
    "0",
    "-1",
    "' OR 1=1 --",
    "💥",
    "x".repeat(300),
    "conv_",
    "a\r\nb",
  ],
  "00000000-0000-7000-8000-000000000000",
);

/** A value that is valid by its schema in the reference. */
export function valid(schema: JsonSchema): fc.Arbitrary<unknown> {
  if (schema.anyOf) return fc.oneof(...schema.anyOf.map(valid));
  if (schema.enum) return fc.constantFrom(...schema.enum);
  if (Array.isArray(schema.type)) return fc.oneof(...schema.type.map((type) => valid({ ...schema, type })));
  if ("const" in schema) return fc.constant(schema.const);
  const { minimum = 0, maximum = 100_000, minLength = 0, maxLength = 200 } = schema;
  switch (schema.type) {
    case "integer":
      return fc.oneof(fc.constantFrom(minimum, maximum), fc.integer({ min: minimum, max: maximum }));
    case "number":
      return fc.oneof(fc.constantFrom(minimum, maximum), fc.double({ min: minimum, max: maximum, noNaN: true }));
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    case "array":
      return fc.array(valid(schema.items ?? {}), {
        minLength: schema.minItems ?? 0,
        maxLength: Math.min(schema.maxItems ?? 5, 5),
      });
    case "string":
      if (schema.format === "date-time") return fc.date({ noInvalidDate: true }).map((date) => isoOf(date));
      if (schema.contentMediaType === "application/sdp") return fc.constantFrom("v=0\r\n", "nonsense");
      if (schema.pattern !== undefined)
        return fc.stringMatching(new RegExp(schema.pattern.replace(/\(\?!.*?\$\)/, "")));
      return fc.string({ minLength, maxLength: Math.min(maxLength, minLength + 60), unit: "grapheme" });
    case "object":
      return validObject(schema);
    default:
      return fc.jsonValue({ maxDepth: 1 });
  }
}

function isoOf(date: Date): string {
  return new Date(Math.abs(date.getTime()) % 4e12).toISOString();
}

function validObject({ properties = {}, required = [] }: JsonSchema): fc.Arbitrary<unknown> {
  if (Object.keys(properties).length === 0) return fc.dictionary(fc.string({ maxLength: 10 }), fc.jsonValue());
  const fields = Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, valid(schema)]));
  return fc.record(fields, { requiredKeys: required });
}

/** Values that only the server creates. */
const CURSORS = ["cursor", "before", "after"];

/** Requests that are valid by the reference: their parameters exist, and their body matches its schema. */
export function validRequests(operation: Operation, tenant: Tenant): fc.Arbitrary<Asked> {
  const query = Object.fromEntries(
    operation.query
      .filter(({ name }) => !CURSORS.includes(name))
      .map(({ name, schema }) => [name, name in tenant.ids ? fc.constant(tenant.ids[name]) : valid(schema)]),
  );
  const requiredKeys = operation.query.filter(({ required }) => required).map(({ name }) => name);
  return fc.record({
    path: fc.constant(operation.pathParameters.map((name) => tenant.idFor(operation, name))),
    query: fc
      .record(query, { requiredKeys })
      .map((record) => Object.entries(record).map(([k, v]) => [k, String(v)] as [string, string])),
    body: operation.body ? valid(operation.body).map((body) => referring(body, tenant)) : fc.constant(undefined),
    headers: fc.constantFrom<[string, string][]>(
      [],
      operation.takesIdempotencyKey ? [["idempotency-key", "again"]] : [],
    ),
  });
}

/** Fields whose limits come from the configuration and are in no schema. */
const RULED: Record<string, unknown> = { ttlSeconds: 600, scopes: ["chat:read"] };

/** Half of the references to other records refer to existing ones. */
function referring(body: unknown, { ids }: Tenant): unknown {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return body;
  const known: Record<string, unknown> = {
    roomId: ids.spareRoomId,
    replyTo: ids.messageId,
    attachmentId: ids.attachmentId,
    connectionId: ids.connectionId,
  };
  const url = "http://127.0.0.1:9/";
  const meant = (name: string, value: unknown) => {
    if (/url$/i.test(name)) return url;
    if (name in RULED) return RULED[name];
    if (name === "conversations") return [ids.room];
    return name in known && JSON.stringify(value).length % 2 ? known[name] : value;
  };
  return Object.fromEntries(Object.entries(body).map(([name, value]) => [name, meant(name, value)]));
}

/** A valid request with one invalid part: a field, a path parameter, the query, a header, or the bytes of the body. */
export function spoiltRequests(operation: Operation, tenant: Tenant): fc.Arbitrary<Asked> {
  return fc
    .tuple(validRequests(operation, tenant), fc.nat(), fc.nat(), JUNK, NOWHERE)
    .map(([asked, kind, place, junk, nowhere]) => {
      const spoils = [
        ...(operation.body ? [spoilField, spoilField, spoilField, spoilBytes] : [spoilBytes]),
        ...(asked.path.length > 0 ? [spoilPath] : []),
        ...(operation.query.length > 0 ? [spoilQuery, spoilQuery] : []),
        spoilHeader,
      ];
      return spoils[kind % spoils.length]?.(asked, { operation, place, junk, nowhere }) ?? asked;
    });
}

type Spoil = (asked: Asked, by: { operation: Operation; place: number; junk: unknown; nowhere: string }) => Asked;

const spoilField: Spoil = (asked, { operation, place, junk }) => {
  const names = Object.keys(operation.body?.properties ?? {});
  const name = names[place % (names.length + 1)];
  if (name === undefined) return { ...asked, body: junk };
  const { [name]: _, ...rest } = asked.body as Record<string, unknown>;
  return { ...asked, body: place % 5 === 0 ? rest : { ...rest, [name]: junk } };
};

const spoilBytes: Spoil = (asked, { place }) => {
  const raw = ["{", "nonsense", '"text"', "[1]", "null", `${"[".repeat(50_000)}`, '{"a":1}\u0000', "{}x"][place % 8];
  return { ...asked, raw };
};

const spoilPath: Spoil = (asked, { place, nowhere }) => ({
  ...asked,
  path: asked.path.map((value, index) => (index === place % asked.path.length ? nowhere : value)),
});

const spoilQuery: Spoil = (asked, { operation, place, junk }) => {
  const name = operation.query[place % operation.query.length]?.name ?? "";
  const value = typeof junk === "string" ? junk : JSON.stringify(junk);
  return { ...asked, query: [...asked.query, [name, value.toWellFormed()]] };
};

const HEADERS: [string, string][] = [
  ["idempotency-key", ""],
  ["idempotency-key", "x".repeat(256)],
  ["idempotency-key", "ümlaut"],
  ["content-type", "text/plain"],
  ["content-type", "application/json; charset=latin1"],
  ["origin", "https://elsewhere.example"],
  ["origin", "null"],
  ["x-request-id", "x".repeat(65)],
  ["range", "bytes=9-1"],
  ["cookie", "stoa_refresh=nonsense"],
  ["x-forwarded-for", "::1, nonsense"],
];

const spoilHeader: Spoil = (asked, { place }) => ({
  ...asked,
  headers: [...asked.headers, HEADERS[place % HEADERS.length] ?? ["x", "y"]],
});

function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let i = 0; i < depth; i += 1) value = { value };
  return value;
}
