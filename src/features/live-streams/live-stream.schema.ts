import { type Static, Type } from "@sinclair/typebox";
import { t } from "elysia";
import { Identity, NullableTimestamp, nullable, oneOf, Timestamp, textOf } from "../../kernel/http/schema.ts";
import { ChatToken, Metadata } from "../../protocol/chat-records.ts";
import { LIVE_STREAM_HOST_ROLES, LIVE_STREAM_STATUSES, LIVE_STREAM_VISIBILITIES } from "../../protocol/enums.ts";
import { RtcToken } from "../rooms/rtc-token.schema.ts";

export const Visibility = oneOf(LIVE_STREAM_VISIBILITIES);
export const Status = oneOf(LIVE_STREAM_STATUSES);
const HostRole = oneOf(LIVE_STREAM_HOST_ROLES);

const described = {
  description: t.Optional(nullable(textOf(0, 2000))),
  thumbnailUrl: t.Optional(nullable(textOf(0, 2048))),
  category: t.Optional(nullable(textOf(0, 64))),
  tags: t.Optional(t.Array(textOf(1, 64), { maxItems: 100 })),
  language: t.Optional(nullable(textOf(0, 16))),
  visibility: t.Optional(Visibility),
  metadata: t.Optional(nullable(Metadata)),
};

export const CreateStream = t.Object({
  title: textOf(1, 200),
  hostIdentity: Identity,
  ...described,
  scheduledAt: t.Optional(nullable(Timestamp)),
  record: t.Optional(t.Boolean({ description: "Record it from its start to its end, and offer it as HLS" })),
});
export type CreateStream = Static<typeof CreateStream>;

export const UpdateStream = t.Object({ title: t.Optional(textOf(1, 200)), ...described });
export type UpdateStream = Static<typeof UpdateStream>;

export const RegisterHost = t.Object({ identity: Identity, role: t.Optional(HostRole) });
export type RegisterHost = Static<typeof RegisterHost>;
export const Viewer = t.Object({ identity: Identity });

export const LiveStream = t.Object({
  id: t.String(),
  title: t.String(),
  description: nullable(t.String()),
  thumbnailUrl: nullable(t.String()),
  category: nullable(t.String()),
  tags: t.Array(t.String()),
  language: nullable(t.String()),
  visibility: Visibility,
  metadata: nullable(Metadata),
  status: Status,
  hostIdentity: t.String(),
  roomId: t.String(),
  conversationId: t.String(),
  viewerCount: nullable(
    Type.Integer({ description: "Viewers connected now; null when the media server cannot be asked" }),
  ),
  peakViewerCount: Type.Integer(),
  scheduledAt: NullableTimestamp,
  startedAt: NullableTimestamp,
  endedAt: NullableTimestamp,
  createdAt: Timestamp,
  updatedAt: Timestamp,
});

export const LiveStreamWithHosts = t.Composite([
  LiveStream,
  t.Object({ hosts: t.Array(t.Object({ identity: t.String(), role: HostRole, addedAt: Timestamp })) }),
]);

export const StreamCredentials = t.Object({
  streamId: t.String(),
  identity: t.String(),
  role: oneOf([...LIVE_STREAM_HOST_ROLES, "VIEWER"]),
  rtc: RtcToken,
  chat: ChatToken,
});
