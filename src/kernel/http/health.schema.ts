import { Type } from "@sinclair/typebox";
import { t } from "elysia";

/** Whether this server can serve requests. The last four fields exist only on servers that share a commit log. */
export const ServerReadiness = t.Object({
  status: t.String({ description: "`ready`, `unavailable`, or `standby` when another server leads." }),
  reasons: t.Record(t.String(), t.String()),
  role: t.Optional(t.Union([t.Literal("leader"), t.Literal("standby")])),
  leader: t.Optional(t.Union([t.String(), t.Null()], { description: "The address of the server that leads." })),
  position: t.Optional(Type.Integer({ description: "The last record of the log that this server holds." })),
  lag: t.Optional(Type.Integer({ description: "Records of the log that this server does not hold yet." })),
});
