import { t } from "elysia";
import { Identity, wholeNumber } from "../../../kernel/http/schema.ts";
import { MAX_RUNG_MEMBERS, RING_SECONDS } from "../../../protocol/chat-records.ts";

export const RingMembers = t.Object({
  userIds: t.Optional(
    t.Array(Identity, {
      minItems: 1,
      maxItems: MAX_RUNG_MEMBERS,
      description: "Members to ring; all others of the conversation when left out",
    }),
  ),
  timeoutSeconds: t.Optional(wholeNumber(RING_SECONDS)),
  metadata: t.Optional(
    t.Record(t.String(), t.Unknown(), { description: "Any JSON object, shown to the members who are rung" }),
  ),
  userId: t.Optional(
    t.Union([Identity, t.Literal("")], {
      description: "With an API key: the user who rings; the server itself when left out. Ignored from a chat token.",
    }),
  ),
});
