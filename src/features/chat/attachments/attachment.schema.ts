import type { Static } from "@sinclair/typebox";
import { t } from "elysia";
import { Identity, Timestamp, wholeNumber } from "../../../kernel/http/schema.ts";
import { Attachment } from "../../../protocol/chat-records.ts";
import { MIME_PATTERN } from "../../../protocol/ids.ts";

export const RequestUpload = t.Object({
  // The service checks the length in code points.
  filename: t.String({ minLength: 1, description: "1-255 characters; kept and shown, never used as a path" }),
  mimeType: t.String({ pattern: MIME_PATTERN, error: "must be type/subtype" }),
  size: wholeNumber({ min: 1, description: "Bytes; at most STORAGE_MAX_ATTACHMENT_BYTES" }),
  uploaderId: t.Optional(t.Union([Identity, t.Literal("")])),
  metadata: t.Optional(
    t.Record(t.String(), t.Unknown(), { description: "Any JSON object; bounded in bytes of UTF-8" }),
  ),
});
export type RequestUpload = Static<typeof RequestUpload>;

export const RequestedUpload = t.Object({
  ...Attachment.properties,
  uploadUrl: t.String(),
  uploadMethod: t.Literal("PUT"),
  uploadHeaders: t.Record(t.String(), t.String()),
  expiresAt: Timestamp,
});
export type RequestedUpload = Static<typeof RequestedUpload>;

export const DownloadUrl = t.Object({ url: t.String(), expiresAt: Timestamp });
