import type { DocumentDecoration } from "elysia";
import { ERRORS, type ErrorCode } from "../../../protocol/errors.ts";

/** A route's documentation: a summary and the errors of its own. Those of its guard and its body are known already. */
export function documented(
  summary: string,
  errors: ErrorCode[] = [],
  description?: string,
  answers: Answers = {},
): { detail: DocumentDecoration } {
  const words = description === undefined ? {} : { description };
  const detail = { summary, ...words, "x-errors": errors, "x-answers": answers };
  return { detail };
}

/** Success of a route without a response schema: status, and the type of its body if it has one. */
export type Answers = Record<number, string | null>;

export function answersOf(detail: unknown): Answers {
  return (detail as { "x-answers"?: Answers } | undefined)?.["x-answers"] ?? {};
}

/** The codes that a route's own documentation names; undefined for a route without any. */
export function errorsOf(detail: unknown): ErrorCode[] | undefined {
  return (detail as { "x-errors"?: ErrorCode[] } | undefined)?.["x-errors"];
}

type ErrorResponse = { description: string; content: Record<string, { schema: object; example: object }> };

/** Codes as responses, by status: each is the envelope, narrowed to what this answer can carry. */
export function errorResponses(codes: Iterable<ErrorCode>): Record<number, ErrorResponse> {
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of new Set(codes)) {
    const [status] = ERRORS[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const response = (codes: ErrorCode[]): ErrorResponse => ({
    description: codes.map((code) => `\`${code}\`: ${ERRORS[code][2]}`).join("\n\n"),
    content: {
      "application/json": {
        schema: {
          allOf: [
            { $ref: "#/components/schemas/Error" },
            { type: "object", properties: { code: { type: "string", enum: codes } } },
          ],
        },
        example: exampleOfError(codes[0]),
      },
    },
  });
  return Object.fromEntries([...byStatus].map(([status, codes]) => [status, response(codes)]));
}

function exampleOfError(code: ErrorCode = "SVC_INTERNAL_ERROR"): object {
  const [status, legacyCode, message] = ERRORS[code];
  return {
    code,
    legacyCode,
    message,
    requestId: "req_9f86d081884c7d659a2feaa0",
    path: "/v1/rooms",
    ...(code === "SVC_VALIDATION_FAILED" ? { details: [{ field: "name", message: "must be a text" }] } : {}),
    ...(status === 429 ? { retryAfterSeconds: 30 } : {}),
  };
}

/** The envelope of spec §7; the reference holds it once. */
export const ERROR_SCHEMA = {
  type: "object",
  required: ["code", "legacyCode", "message", "requestId", "path"],
  properties: {
    code: { type: "string", enum: Object.keys(ERRORS) },
    legacyCode: { type: "string", deprecated: true },
    message: { type: "string" },
    requestId: { type: "string", description: "Equals the header `x-request-id`" },
    path: { type: "string" },
    details: {
      type: "array",
      description: "What is wrong with which field (400)",
      items: { type: "object", properties: { field: { type: "string" }, message: { type: "string" } } },
    },
    retryAfterSeconds: { type: "integer", description: "Equals the header `retry-after` (429)" },
  },
};
