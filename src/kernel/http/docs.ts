import type { DocumentDecoration } from "elysia";
import { ERRORS, type ErrorCode } from "../../protocol/errors.ts";

/** Errors that any route with a credential and a body may answer; listed once. */
const EVERYWHERE: ErrorCode[] = ["SVC_VALIDATION_FAILED", "SVC_AUTH_ERROR", "SVC_INTERNAL_ERROR"];

/** A route's documentation: a summary and the errors it answers, from the catalogue. */
export function documented(
  summary: string,
  errors: ErrorCode[] = [],
  description?: string,
): { detail: DocumentDecoration } {
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of new Set([...errors, ...EVERYWHERE])) {
    const [status] = ERRORS[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const responses = Object.fromEntries(
    [...byStatus].map(([status, codes]) => [
      status,
      {
        description: codes.map((code) => `\`${code}\`: ${ERRORS[code][2]}`).join("\n\n"),
        content: { "application/json": { schema: errorSchema(codes) } },
      },
    ]),
  );
  return { detail: { summary, ...(description === undefined ? {} : { description }), responses } };
}

function errorSchema(codes: ErrorCode[]) {
  return {
    type: "object" as const,
    required: ["code", "legacyCode", "message", "requestId", "path"],
    properties: {
      code: { type: "string" as const, enum: codes },
      legacyCode: { type: "string" as const, deprecated: true },
      message: { type: "string" as const },
      requestId: { type: "string" as const },
      path: { type: "string" as const },
      details: {
        type: "array" as const,
        items: {
          type: "object" as const,
          properties: { field: { type: "string" as const }, message: { type: "string" as const } },
        },
      },
      retryAfterSeconds: { type: "integer" as const },
    },
  };
}
