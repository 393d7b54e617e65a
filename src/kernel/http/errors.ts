import { ApiError, type FieldProblem, invalid } from "../../protocol/errors.ts";
import { storageFullError } from "../db/health.ts";

type FieldFailure = { path?: string; type?: number; schema?: Schema };
type FrameworkValidation = { validator?: Validator; value?: unknown; type?: string };
type Validator = { Errors?(value: unknown): Iterable<FieldFailure> };

/** A list with a thousand invalid items counts as one mistake. */
const MAX_PROBLEMS = 64;

/** `ValueErrorType.ObjectRequiredProperty` of the validator. */
const MISSING = 45;

/** The only place where an exception becomes a response. An unexpected error is a 500 without details. */
export function toApiError(code: string | number, error: unknown): ApiError {
  if (error instanceof ApiError) return withDetails(error);
  const full = storageFullError(error);
  if (full) return full;
  switch (code) {
    case "NOT_FOUND":
      return new ApiError("SVC_ROUTE_NOT_FOUND");
    case "PARSE":
    case "INVALID_COOKIE_SIGNATURE":
      return invalid("body", "cannot be read");
    case "VALIDATION": {
      const failure = error as FrameworkValidation;
      // A response that violates its own schema is an error of the server, not of the caller.
      if (failure.type === "response") return new ApiError("SVC_INTERNAL_ERROR");
      return validationError(failure);
    }
    default:
      return new ApiError("SVC_INTERNAL_ERROR");
  }
}

/** A problem with the request as a whole is listed in `details` too, where clients look for messages to show. */
function withDetails(error: ApiError): ApiError {
  if (error.code !== "SVC_VALIDATION_FAILED" || error.extra.details !== undefined) return error;
  const details = [{ field: "request", message: error.message }];
  return new ApiError(error.code, error.message, { ...error.extra, details });
}

function validationError(failure: FrameworkValidation): ApiError {
  const seen = new Map<string, FieldProblem>();
  // The framework's own list converts every value to text and throws for a value without a string form.
  for (const problem of failure.validator?.Errors?.(failure.value) ?? []) {
    if (seen.size === MAX_PROBLEMS) break;
    const field = problem.path?.replace(/^\//, "").replaceAll("/", ".") || failure.type || "body";
    if (!seen.has(field))
      seen.set(field, { field, message: problem.type === MISSING ? "is required" : describeAccepted(problem.schema) });
  }
  const details = [...seen.values()];
  if (details.length === 0) details.push({ field: failure.type ?? "body", message: "is not what this route accepts" });
  const first = details[0];
  return new ApiError("SVC_VALIDATION_FAILED", first && `${first.field}: ${first.message}`, { details });
}

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
