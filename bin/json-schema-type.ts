/** The TypeScript type of what a JSON schema accepts, as far as the API's schemas go. */
export type JsonSchema = {
  type?: string | string[];
  const?: unknown;
  enum?: unknown[];
  anyOf?: JsonSchema[];
  allOf?: JsonSchema[];
  items?: JsonSchema;
  properties?: Record<string, JsonSchema>;
  patternProperties?: Record<string, JsonSchema>;
  required?: string[];
  description?: string;
};

/** `names` are types that have a name already, by their text. */
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
      return schema.properties ? printObject(schema, names) : "Record<string, unknown>";
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

/** An enumeration beside `type: ["string", "null"]` lists null itself, or leaves it to the type. */
function nullOf({ type, enum: values = [] }: JsonSchema): string {
  return Array.isArray(type) && type.includes("null") && !values.includes(null) ? " | null" : "";
}

function unique(types: string[]): string {
  const wide = new Set(types);
  // An empty text that counts as absent is a text all the same.
  if (wide.has("string")) wide.delete('""');
  return [...wide].join(" | ");
}

function printObject({ properties = {}, required = [] }: JsonSchema, names: ReadonlyMap<string, string>): string {
  const fields = Object.entries(properties).map(([name, field]) => {
    const said = field.description ? `/** ${field.description.replaceAll("*/", "")} */ ` : "";
    return `${said}${/^\w+$/.test(name) ? name : JSON.stringify(name)}${required.includes(name) ? "" : "?"}: ${printType(field, names)};`;
  });
  return fields.length === 0 ? "Record<string, never>" : `{ ${fields.join(" ")} }`;
}
