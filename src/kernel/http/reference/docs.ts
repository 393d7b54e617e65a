import type { DocumentDecoration } from "elysia";
import { ERRORS, type ErrorCode } from "../../../protocol/errors.ts";

/** A route's documentation: a summary and its own errors. Those of its guard and its body are added automatically. */
export function documented(
  summary: string,
  errors: ErrorCode[] = [],
  description?: string,
  bodyTypes: BodyTypes = {},
): { detail: DocumentDecoration } {
  const text = description === undefined ? {} : { description };
  const detail = { summary, ...text, "x-errors": errors, "x-body-types": bodyTypes };
  return { detail };
}

/** The successful responses of a route without a response schema: status, and the type of the body, or null. */
type BodyTypes = Record<number, string | null>;

export function bodyTypesOf(detail: unknown): BodyTypes {
  return (detail as { "x-body-types"?: BodyTypes } | undefined)?.["x-body-types"] ?? {};
}

/** The errors of a route's own documentation; undefined without documentation. */
export function errorsOf(detail: unknown): ErrorCode[] | undefined {
  return (detail as { "x-errors"?: ErrorCode[] } | undefined)?.["x-errors"];
}

type ErrorResponse = { description: string; content: Record<string, { schema: object; example: object }> };

/** Error responses by status: each is the envelope with the codes that can occur. */
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

/** The error envelope (spec §7), as a single component of the reference. */
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
