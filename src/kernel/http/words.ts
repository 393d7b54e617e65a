/** As much of a schema as says what it accepts. */
export type AcceptingSchema = {
  /** The words of whoever wrote it; they come first. */
  error?: unknown;
  type?: unknown;
  const?: unknown;
  enum?: unknown[];
  anyOf?: AcceptingSchema[];
  format?: string;
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  minimum?: number;
  maximum?: number;
};

/**
 * What a schema accepts, in words of our own. The validator's show patterns, and some of them repeat the value that was
 * sent, which may be a secret.
 */
export function wordsFor(schema: AcceptingSchema | undefined): string {
  if (schema === undefined) return "is not valid";
  if (typeof schema.error === "string") return schema.error;
  if (schema.anyOf) return wordsForUnion(schema.anyOf);
  if (schema.enum) return `must be one of ${schema.enum.join(", ")}`;
  if (schema.const !== undefined) return `must be ${JSON.stringify(schema.const)}`;
  switch (schema.type) {
    case "string":
      return wordsForText(schema);
    case "integer":
      return `must be a whole number${between(schema.minimum, schema.maximum)}`;
    case "number":
      return `must be a number${between(schema.minimum, schema.maximum)}`;
    case "boolean":
      return "must be true or false";
    case "null":
      return "must be null";
    case "array":
      return `must be a list${counted(schema.minItems, schema.maxItems, "items")}`;
    case "object":
      return "must be an object";
    default:
      return "is not what this field accepts";
  }
}

function wordsForUnion(variants: AcceptingSchema[]): string {
  const values = variants.map((variant) => variant.const);
  if (values.every((value) => value !== undefined)) return `must be one of ${values.join(", ")}`;
  // An empty text stands for an absent one, and needs no words.
  const said = variants.filter((variant) => variant.const !== "").map(wordsFor);
  return said.map((words, index) => (index === 0 ? words : words.replace(/^must be /, ""))).join(", or ");
}

function wordsForText({ format, pattern, minLength, maxLength }: AcceptingSchema): string {
  if (format === "date-time") return "must be a time such as 2026-01-31T12:00:00.000Z";
  if (format === "uri") return "must be an address such as https://example.com/";
  if (format === "email") return "must be an e-mail address";
  if (pattern !== undefined) return "must be a text in the form that the reference describes";
  return `must be a text${counted(minLength, maxLength, "characters")}`;
}

function between(min: number | undefined, max: number | undefined): string {
  if (min !== undefined && max !== undefined) return ` from ${min} to ${max}`;
  if (min !== undefined) return ` of at least ${min}`;
  return max === undefined ? "" : ` of at most ${max}`;
}

function counted(min: number | undefined, max: number | undefined, what: string): string {
  if (max === undefined) return min === undefined ? "" : ` of at least ${min} ${what}`;
  return min === undefined || min === 0 ? ` of at most ${max} ${what}` : ` of ${min} to ${max} ${what}`;
}
