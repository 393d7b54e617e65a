import { ApiError, type FieldProblem, invalid } from "../../protocol/errors.ts";
import { type AcceptingSchema, wordsFor } from "./words.ts";

type FieldFailure = { path?: string; type?: number; schema?: AcceptingSchema };
type FrameworkValidation = { validator?: Validator; value?: unknown; type?: string };
type Validator = { Errors?(value: unknown): Iterable<FieldFailure> };

/** A list of a thousand wrong items is one mistake. */
const MAX_PROBLEMS = 64;

/** `ValueErrorType.ObjectRequiredProperty` of the validator. */
const MISSING = 45;

/** The one place where an exception becomes an answer. Anything unforeseen is a 500 without a word of detail. */
export function toApiError(code: string | number, error: unknown): ApiError {
  if (error instanceof ApiError) return withDetails(error);
  switch (code) {
    case "NOT_FOUND":
      return new ApiError("SVC_ROUTE_NOT_FOUND");
    case "PARSE":
    case "INVALID_COOKIE_SIGNATURE":
      return invalid("body", "cannot be read");
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

/** Whatever is wrong with a request as a whole is listed too: a client looks for what to show in one place. */
function withDetails(error: ApiError): ApiError {
  if (error.code !== "SVC_VALIDATION_FAILED" || error.extra.details !== undefined) return error;
  const details = [{ field: "request", message: error.message }];
  return new ApiError(error.code, error.message, { ...error.extra, details });
}

function validationError(failure: FrameworkValidation): ApiError {
  const seen = new Map<string, FieldProblem>();
  // Not the framework's own list: it makes text of every value, and throws for one that has none.
  for (const problem of failure.validator?.Errors?.(failure.value) ?? []) {
    if (seen.size === MAX_PROBLEMS) break;
    const field = problem.path?.replace(/^\//, "").replaceAll("/", ".") || failure.type || "body";
    if (!seen.has(field))
      seen.set(field, { field, message: problem.type === MISSING ? "is required" : wordsFor(problem.schema) });
  }
  const details = [...seen.values()];
  if (details.length === 0) details.push({ field: failure.type ?? "body", message: "is not what this route accepts" });
  const first = details[0];
  return new ApiError("SVC_VALIDATION_FAILED", first && `${first.field}: ${first.message}`, { details });
}
