/** Types of the wire's records, printed from their schemas: for those who have no typebox. */
import { KindGuard, type TSchema } from "@sinclair/typebox";

/** `export type` lines for the named schemas of a module of `src/protocol`. */
export async function printRecords(modulePath: string, names: readonly string[]): Promise<string> {
  const schemas = (await import(modulePath)) as Record<string, unknown>;
  const types = names.map((name) => {
    const schema = schemas[name];
    if (!KindGuard.IsSchema(schema)) throw new Error(`${modulePath}: ${name} has no schema to print a type from`);
    return `export type ${name} = ${printed(schema)};\n`;
  });
  return types.join("");
}

function printed(schema: TSchema): string {
  if (KindGuard.IsUnion(schema)) return schema.anyOf.map(printed).join(" | ");
  if (KindGuard.IsLiteral(schema)) return JSON.stringify(schema.const);
  if (KindGuard.IsArray(schema)) return `(${printed(schema.items)})[]`;
  if (KindGuard.IsRecord(schema))
    return `Record<string, ${printed(Object.values(schema.patternProperties)[0] as TSchema)}>`;
  if (KindGuard.IsObject(schema)) {
    const fields = Object.entries(schema.properties).map(
      ([name, field]) => `${name}${KindGuard.IsOptional(field) ? "?" : ""}: ${printed(field)};`,
    );
    return `{ ${fields.join(" ")} }`;
  }
  if (KindGuard.IsInteger(schema) || KindGuard.IsNumber(schema)) return "number";
  if (KindGuard.IsString(schema)) return "string";
  if (KindGuard.IsBoolean(schema)) return "boolean";
  if (KindGuard.IsNull(schema)) return "null";
  return "unknown";
}
