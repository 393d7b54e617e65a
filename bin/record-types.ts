/** Prints the protocol's records as plain types, so that users of the package do not need typebox. */
import { KindGuard, type TSchema } from "@sinclair/typebox";

/** Prints an `export type` for each of the named types of a module of `src/protocol`. */
export async function printRecords(modulePath: string, names: readonly string[]): Promise<string> {
  const exported = (await import(modulePath)) as Record<string, unknown>;
  const types = names.map((name) => {
    const schema = exported[name];
    const values = exported[listNameOf(name)];
    if (Array.isArray(values))
      return `export type ${name} = ${values.map((value) => JSON.stringify(value)).join(" | ")};\n`;
    if (!KindGuard.IsSchema(schema))
      throw new Error(`${modulePath}: ${name} has neither a schema nor a list of values`);
    return `export type ${name} = ${typeText(schema)};\n`;
  });
  return types.join("");
}

/** The list of a type's values: `CONNECTION_STATES` for `ConnectionState`. */
function listNameOf(name: string): string {
  return `${name.replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase()}S`;
}

function typeText(schema: TSchema): string {
  if (KindGuard.IsUnion(schema)) return schema.anyOf.map(typeText).join(" | ");
  if (KindGuard.IsLiteral(schema)) return JSON.stringify(schema.const);
  if (KindGuard.IsArray(schema)) return `(${typeText(schema.items)})[]`;
  if (KindGuard.IsRecord(schema))
    return `Record<string, ${typeText(Object.values(schema.patternProperties)[0] as TSchema)}>`;
  if (KindGuard.IsObject(schema)) {
    const fields = Object.entries(schema.properties).map(
      ([name, field]) => `${name}${KindGuard.IsOptional(field) ? "?" : ""}: ${typeText(field)};`,
    );
    return `{ ${fields.join(" ")} }`;
  }
  if (KindGuard.IsInteger(schema) || KindGuard.IsNumber(schema)) return "number";
  if (KindGuard.IsString(schema)) return "string";
  if (KindGuard.IsBoolean(schema)) return "boolean";
  if (KindGuard.IsNull(schema)) return "null";
  return "unknown";
}
