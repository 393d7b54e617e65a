import { ApiError, type FieldProblem } from "../../protocol/errors.ts";

type SchemaWithWords = { error?: unknown; anyOf?: { error?: unknown }[] };
type FieldFailure = { path?: string; message?: string; type?: number; schema?: SchemaWithWords };
type FrameworkValidation = { validator?: Validator; value?: unknown; type?: string };
type Validator = { Errors?(value: unknown): Iterable<FieldFailure> };

/** A list of a thousand wrong items is one mistake. */
const MAX_PROBLEMS = 64;

/** `ValueErrorType.ObjectRequiredProperty` of the validator. */
const MISSING = 45;

/** The one place where an exception becomes an answer. Anything unforeseen is a 500 without a word of detail. */
export function toApiError(code: string | number, error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  switch (code) {
    case "NOT_FOUND":
      return new ApiError("SVC_ROUTE_NOT_FOUND");
    case "PARSE":
    case "INVALID_COOKIE_SIGNATURE":
      return new ApiError("SVC_VALIDATION_FAILED", "The request cannot be read.");
    case "VALIDATION": {
      const failure = error as FrameworkValidation;
      // A response that breaks its own schema is our fault, not the caller's.
      if (failure.type === "response") return new ApiError("SVC_INTERNAL_ERROR");
      return validationError(failure);
    }
    default:
      return new ApiError("SVC_INTERNAL_ERROR");
  }
}

function validationError(failure: FrameworkValidation): ApiError {
  const seen = new Map<string, FieldProblem>();
  // Not the framework's own list: it makes text of every value, and throws for one that has none.
  for (const problem of failure.validator?.Errors?.(failure.value) ?? []) {
    if (seen.size === MAX_PROBLEMS) break;
    const field = problem.path?.replace(/^\//, "").replaceAll("/", ".") || "body";
    if (!seen.has(field)) seen.set(field, { field, message: wordsOf(problem) });
  }
  const details = [...seen.values()];
  const first = details[0];
  return new ApiError("SVC_VALIDATION_FAILED", first && `${first.field}: ${first.message}`, { details });
}

/** What a schema says of itself, rather than the validator's own words: those show patterns, and some the value. */
function wordsOf({ type, schema, message }: FieldFailure): string {
  if (type === MISSING) return "is required";
  const words = schema?.error ?? schema?.anyOf?.[0]?.error;
  return typeof words === "string" ? words : (message ?? "is not valid");
}
