import { Type } from "@sinclair/typebox";
import { t } from "elysia";
import { NullableTimestamp, nullable, oneOf, Timestamp } from "../../kernel/http/schema.ts";
import { PERSONAL_DATA_KINDS, type PersonalDataKind } from "../../kernel/personal-data.ts";
import { EXPORT_STATUSES } from "./privacy.table.ts";

const counts = Object.fromEntries(PERSONAL_DATA_KINDS.map((kind) => [kind, Type.Integer()])) as Record<
  PersonalDataKind,
  ReturnType<typeof Type.Integer>
>;

export const PersonErasure = t.Object({
  id: t.String(),
  status: oneOf(["RUNNING", "DONE"]),
  requestedAt: Timestamp,
  finishedAt: NullableTimestamp,
});

export const PersonExport = t.Object({
  id: t.String(),
  status: oneOf(EXPORT_STATUSES),
  requestedAt: Timestamp,
  finishedAt: NullableTimestamp,
  bytes: nullable(Type.Integer()),
  sha256: nullable(t.String()),
  url: t.Optional(t.String({ description: "Where the tar can be read for a while; there once it is READY" })),
});

export const PersonOverview = t.Object({
  userId: t.String(),
  counts: t.Object(counts),
  total: Type.Integer(),
  erasure: t.Union([PersonErasure, t.Null()], { description: "The last time that this user was erased" }),
  exports: t.Array(PersonExport, { description: "Those that are kept, newest first" }),
});
