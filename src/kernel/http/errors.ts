import { ApiError, type FieldProblem, invalid } from "../../protocol/errors.ts";
import { storageFullError } from "../db/health.ts";
import { describeProblem, fieldOf, type SchemaProblem } from "../schema-problems.ts";

type FrameworkValidation = { validator?: Validator; value?: unknown; type?: string };
type Validator = { Errors?(value: unknown): Iterable<SchemaProblem> };

/** A list with a thousand invalid items counts as one mistake. */
const MAX_PROBLEMS = 64;

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
    const field = fieldOf(problem) || failure.type || "body";
    if (!seen.has(field)) seen.set(field, { field, message: describeProblem(problem) });
  }
  const details = [...seen.values()];
  if (details.length === 0) details.push({ field: failure.type ?? "body", message: "is not what this route accepts" });
  const first = details[0];
  return new ApiError("SVC_VALIDATION_FAILED", first && `${first.field}: ${first.message}`, { details });
}
