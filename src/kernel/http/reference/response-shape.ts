import { Kind, type TSchema } from "@sinclair/typebox";
import type { AnyElysia } from "elysia";

type Shape = (value: unknown) => unknown;
type Shapes = Map<number | string | undefined, Shape>;
type Route = {
  hooks: { response?: Record<string, TSchema>; mapResponse?: { fn: unknown }[] };
};

/**
 * Makes every route respond with the fields of its response schema and no others, using functions that are created for
 * its first response. The framework would walk the schema for every response, which costs a fifth of an authenticated
 * request, and check types that the compiler has already checked; tests compare the responses of all routes with their
 * schemas.
 */
export function shapeResponses(app: AnyElysia): void {
  for (const { hooks } of app.router.history as unknown as Route[]) {
    if (hooks.response === undefined) continue;
    if (Kind in hooks.response) throw new Error("the responses of a route must be listed by their status");
    const schemas = Object.entries(hooks.response);
    let shapes: Shapes | null = null;
    const fn = ({ responseValue, set }: { responseValue: unknown; set: { status?: number | string } }) => {
      shapes ??= shapesOf(schemas);
      const shaped = responseValue instanceof Response ? undefined : shapes.get(set.status)?.(responseValue);
      return shaped;
    };
    for (const [status, schema] of schemas) {
      // The reference still finds the schema, but the framework does not inspect it.
      hooks.response[status] = { ...schema, [Kind]: "Any" } as TSchema;
    }
    hooks.mapResponse = [{ fn }, ...(hooks.mapResponse ?? [])];
  }
}

function shapesOf(schemas: readonly [status: string, schema: TSchema][]): Shapes {
  const shapes: Shapes = new Map();
  for (const [status, schema] of schemas) {
    const shape = shapeOf(schema);
    if (shape) shapes.set(Number(status), shape);
  }
  return shapes;
}

/** Undefined if nothing is removed: for a scalar, or for an object with arbitrary fields. */
export function shapeOf(schema: TSchema): Shape | undefined {
  if (schema.items) return shapeOfList(shapeOf(schema.items));
  if (schema.properties && !schema.additionalProperties) return shapeOfObject(schema.properties);
  return schema.anyOf && shapeOfUnion(schema.anyOf);
}

/** A nullable schema, or events that differ by their `type`; responses have no other unions. */
function shapeOfUnion(variants: TSchema[]): Shape | undefined {
  const shapes = variants.map(shapeOf).filter((shape) => shape !== undefined);
  if (shapes.length <= 1) return shapes[0];
  const byType = new Map(variants.map((variant) => [variant.properties?.type?.const, shapeOf(variant)]));
  if (byType.size < variants.length) throw new Error("the variants of a response must differ by their type");
  return (value) => byType.get((value as { type: unknown } | undefined)?.type)?.(value);
}

function shapeOfList(shape: Shape | undefined): Shape | undefined {
  return shape && ((value) => (Array.isArray(value) ? value.map(shape) : value));
}

function shapeOfObject(properties: Record<string, TSchema>): Shape {
  const shapes = Object.values(properties).map(shapeOf);
  const fields = Object.keys(properties).map((name, index) => {
    const field = `value[${JSON.stringify(name)}]`;
    return `${JSON.stringify(name)}: ${shapes[index] ? `shapes[${index}](${field})` : field}`;
  });
  // The engine creates an object literal with one known layout; an object that a loop fills has none.
  const literal: Shape = new Function("shapes", `return (value) => ({ ${fields.join(", ")} })`)(shapes);
  return (value) => (typeof value === "object" && value !== null ? literal(value) : value);
}
