import { t } from "elysia";
import { Identity, oneOf, Timestamp, textOf, wholeNumber } from "../../../kernel/http/schema.ts";
import { REPORT_ACTIONS, REPORT_REASONS, REPORT_STATUSES } from "../../../protocol/chat-records.ts";

const Words = t.Array(textOf(1, 64), { maxItems: 1000 });

export const WordList = t.Object({ refuse: Words, mask: Words, report: Words });

export const ReportMessage = t.Object({
  reason: oneOf(REPORT_REASONS),
  note: t.Optional(textOf(0, 1000)),
  userId: t.Optional(t.Union([Identity, t.Literal("")], { description: "With an API key: the user who reports" })),
});

export const ReportStatus = oneOf(REPORT_STATUSES);

export const ResolveReport = t.Object({
  action: oneOf(REPORT_ACTIONS),
  muteSeconds: t.Optional(
    wholeNumber({ min: 60, max: 31_536_000, description: "For mute_sender; a day when left out" }),
  ),
});

export const Block = t.Object({ userId: t.String({ description: "The blocked user" }), createdAt: Timestamp });
