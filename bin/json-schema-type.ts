/** Prints the TypeScript type of a JSON schema, for the subset that the API uses. */
export type JsonSchema = {
  type?: string | string[];
  const?: unknown;
  enum?: unknown[];
  anyOf?: JsonSchema[];
  allOf?: JsonSchema[];
  items?: JsonSchema;
  properties?: Record<string, JsonSchema>;
  patternProperties?: Record<string, JsonSchema>;
  additionalProperties?: unknown;
  required?: string[];
  description?: string;
};

/** `names` maps the text of a type to its name. */
export function printType(schema: JsonSchema, names: ReadonlyMap<string, string> = new Map()): string {
  const text = plain(schema, names);
  return names.get(text) ?? text;
}

function plain(schema: JsonSchema, names: ReadonlyMap<string, string>): string {
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ") + nullOf(schema);
  if (schema.anyOf) return unique(schema.anyOf.map((one) => printType(one, names)));
  if (schema.allOf) return schema.allOf.map((one) => printType(one, names)).join(" & ");
  if (Array.isArray(schema.type)) {
    return unique(schema.type.map((type) => printType({ ...schema, type }, names)));
  }
  switch (schema.type) {
    case "array":
      return `Array<${printType(schema.items ?? {}, names)}>`;
    case "object":
      return schema.properties ? printObject(schema, names) : `Record<string, ${valueType(schema, names)}>`;
    case "integer":
    case "number":
      return "number";
    case "string":
    case "boolean":
    case "null":
      return schema.type;
    default:
      return "unknown";
  }
}

/** The type of the values of an object that may have any property names. */
function valueType({ patternProperties = {} }: JsonSchema, names: ReadonlyMap<string, string>): string {
  return unique(Object.values(patternProperties).map((value) => printType(value, names))) || "unknown";
}

/** An enum with `type: ["string", "null"]` may or may not list null itself. */
function nullOf({ type, enum: values = [] }: JsonSchema): string {
  return Array.isArray(type) && type.includes("null") && !values.includes(null) ? " | null" : "";
}

function unique(types: string[]): string {
  const wide = new Set(types);
  // An empty string is covered by `string`.
  if (wide.has("string")) wide.delete('""');
  return [...wide].join(" | ");
}

function printObject(
  { properties = {}, required = [], additionalProperties }: JsonSchema,
  names: ReadonlyMap<string, string>,
): string {
  const fields = Object.entries(properties).map(([name, field]) => {
    const comment = field.description ? `/** ${field.description.replaceAll("*/", "")} */ ` : "";
    return `${comment}${/^\w+$/.test(name) ? name : JSON.stringify(name)}${required.includes(name) ? "" : "?"}: ${printType(field, names)};`;
  });
  if (additionalProperties === true) fields.push("[field: string]: unknown;");
  return fields.length === 0 ? "Record<string, never>" : `{ ${fields.join(" ")} }`;
}
