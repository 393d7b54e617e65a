/** What clients read about values that violate the schema of a route or a frame. */

/** The fields of a JSON schema that describe the accepted values. */
type Schema = {
  /** The description that the author of the schema wrote; it takes precedence. */
  error?: unknown;
  type?: unknown;
  const?: unknown;
  enum?: unknown[];
  anyOf?: Schema[];
  format?: string;
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  minimum?: number;
  maximum?: number;
};

/** A mistake that the validator of a schema has found. */
export type SchemaProblem = { path?: string; type?: number; schema?: Schema };

/** `ValueErrorType.ObjectRequiredProperty` of the validator. */
const MISSING = 45;

/** The field of a mistake, such as `members.0.userId`; empty for the value as a whole. */
export const fieldOf = ({ path = "" }: SchemaProblem): string => path.replace(/^\//, "").replaceAll("/", ".");

export const describeProblem = ({ type, schema }: SchemaProblem): string =>
  type === MISSING ? "is required" : describeAccepted(schema);

/**
 * Describes the accepted values. The validator's messages show patterns, and some repeat the submitted value, which may
 * be a secret.
 */
function describeAccepted(schema: Schema | undefined): string {
  if (schema === undefined) return "is not valid";
  if (typeof schema.error === "string") return schema.error;
  if (schema.anyOf) return describeUnion(schema.anyOf);
  if (schema.enum) return `must be one of ${schema.enum.join(", ")}`;
  if (schema.const !== undefined) return `must be ${JSON.stringify(schema.const)}`;
  switch (schema.type) {
    case "string":
      return describeText(schema);
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

function describeUnion(variants: Schema[]): string {
  const values = variants.map((variant) => variant.const);
  if (values.every((value) => value !== undefined)) return `must be one of ${values.join(", ")}`;
  // An empty text means an absent value and is not mentioned.
  const descriptions = variants.filter((variant) => variant.const !== "").map(describeAccepted);
  return descriptions.map((text, index) => (index === 0 ? text : text.replace(/^must be /, ""))).join(", or ");
}

function describeText({ format, pattern, minLength, maxLength }: Schema): string {
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
