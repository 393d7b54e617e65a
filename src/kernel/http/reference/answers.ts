import { Kind, type TSchema } from "@sinclair/typebox";
import type { AnyElysia } from "elysia";

type Shape = (value: unknown) => unknown;
type Shapes = Map<number | string | undefined, Shape>;
type Route = {
  hooks: { response?: Record<string, TSchema>; mapResponse?: { fn: unknown }[] };
};
type Answered = { responseValue: unknown; set: { status?: number | string } };

/**
 * Has every route answer with the fields of its response schemas and no others, by functions made once, with its first
 * answer. The framework would walk each schema anew for every answer, which cost a fifth of an authenticated request, and
 * then check types that the compiler has checked already; tests compare answers with schemas on every route.
 */
export function shapeAnswers(app: AnyElysia): void {
  for (const { hooks } of app.router.history as unknown as Route[]) {
    if (hooks.response === undefined) continue;
    if (Kind in hooks.response) throw new Error("a route's answers are listed by their status");
    const schemas = Object.entries(hooks.response);
    let shapes: Shapes | null = null;
    const fn = ({ responseValue, set }: Answered) => {
      shapes ??= shapesOf(schemas);
      const shaped = responseValue instanceof Response ? undefined : shapes.get(set.status)?.(responseValue);
      return shaped;
    };
    for (const [status, schema] of schemas) {
      // Still there for the reference, but nothing that the framework would look into.
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

/** Undefined where everything is let through: a scalar, or an object of any fields. */
export function shapeOf(schema: TSchema): Shape | undefined {
  if (schema.items) return shapeOfList(shapeOf(schema.items));
  if (schema.properties && !schema.additionalProperties) return shapeOfObject(schema.properties);
  return schema.anyOf && shapeOfUnion(schema.anyOf);
}

/** Something or null, or events that their `type` tells apart: there are no other unions among the answers. */
function shapeOfUnion(variants: TSchema[]): Shape | undefined {
  const shapes = variants.map(shapeOf).filter((shape) => shape !== undefined);
  if (shapes.length <= 1) return shapes[0];
  const byType = new Map(variants.map((variant) => [variant.properties?.type?.const, shapeOf(variant)]));
  if (byType.size < variants.length) throw new Error("the variants of an answer cannot be told apart by their type");
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
  // One literal: the engine lays such objects out once, where a loop over the names would look each of them up.
  const literal: Shape = new Function("shapes", `return (value) => ({ ${fields.join(", ")} })`)(shapes);
  return (value) => (typeof value === "object" && value !== null ? literal(value) : value);
}
