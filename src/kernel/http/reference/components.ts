import { unwrapSchema } from "@elysiajs/openapi/openapi";
import type { TSchema } from "@sinclair/typebox";
import type { CooperativeTask } from "../../scheduling/cooperative-task.ts";
import { publicSchema } from "./public-schema.ts";

type Json = Record<string, unknown>;

/** Modules of schemas; the reference uses the names of their exports. */
export type SchemaNames = Record<string, unknown>;

type Components = { refer(value: unknown): unknown; components(): Record<string, unknown> };

/**
 * Gives names to schemas: `refer` replaces each of them in a document by a reference to the component. Schemas are
 * compared by content, because the framework copies them; of two names for the same content the shorter one is used.
 * `components` returns the referenced schemas.
 */
export function* createComponents(names: SchemaNames): CooperativeTask<Components> {
  const nameOf = new Map<string, string>();
  const shapes = new Map<string, unknown>();
  const used = new Map<string, unknown>();
  const named = Object.entries(names).filter((entry): entry is [string, TSchema] => isNameable(entry[1]));
  for (const [name, schema] of named.sort(([a], [b]) => a.length - b.length)) {
    const shown = publicSchema(unwrapSchema(schema as never));
    const key = keyOf(shown);
    if (nameOf.has(key)) continue;
    nameOf.set(key, name);
    shapes.set(name, shown);
    yield;
  }

  function refer(value: unknown, isComponent = false): unknown {
    if (Array.isArray(value)) return value.map((item) => refer(item));
    if (value === null || typeof value !== "object") return value;
    if (allowsNull(value)) {
      const reference = refer({ ...value, type: "object" });
      return "$ref" in (reference as object)
        ? { anyOf: [reference, { type: "null" }] }
        : { ...(reference as object), type: value.type };
    }
    const name = isComponent || !isRecord(value as Json) ? undefined : nameOf.get(keyOf(value));
    if (name === undefined) return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, refer(item)]));
    if (!used.has(name)) {
      used.set(name, null);
      used.set(name, refer(shapes.get(name), true));
    }
    return { $ref: `#/components/schemas/${name}` };
  }

  return {
    refer: (value) => refer(value),
    components: () => Object.fromEntries([...used].sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}

/** Records and bodies get a name; texts and numbers stay inline. */
function isNameable(value: unknown): boolean {
  return typeof value === "object" && value !== null && isRecord(value as Json);
}

const isRecord = (schema: Json): boolean =>
  "properties" in schema
    ? Object.keys(schema.properties as object).length > 0
    : Array.isArray(schema.anyOf) && schema.anyOf.some(isRecord);

/** A nullable record in the generator's form: the name belongs to the record. */
const allowsNull = (schema: object): schema is { type: string[] } =>
  "type" in schema && Array.isArray(schema.type) && schema.type.includes("object");

function keyOf(value: unknown): string {
  return JSON.stringify(value, (_, item) =>
    item !== null && typeof item === "object" && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)))
      : item,
  );
}
