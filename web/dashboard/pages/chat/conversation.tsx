import { useRoute } from "preact-iso";
import { request, requestPage } from "../../api.ts";
import { useList, usePolling } from "../../live.ts";
import { Id } from "../../parts/id.tsx";
import { List } from "../../parts/list.tsx";
import { countText } from "../../parts/numbers.ts";
import { Badge, Details, humanize, Loaded, PageHead } from "../../parts/states.tsx";
import { Ago } from "../../parts/time.tsx";
import { useProject } from "../../project.ts";

/** A conversation without its messages' texts. */
export function Conversation() {
  const { conversationId = "" } = useRoute().params;
  const { at, environment, path } = useProject();
  const routes = at.chat.conversations({ conversationId });
  const deps = [conversationId, environment];
  const conversation = usePolling(() => request(routes.get({ query: { environment } })), deps);
  const presence = usePolling(() => request(routes.presence.get({ query: { environment } })), deps);
  const members = useList((page) => requestPage(routes.members.get({ query: { ...page, environment } })), deps);
  const messages = useList((page) => requestPage(routes.messages.get({ query: { ...page, environment } })), deps);
  const statusOf = new Map(presence.data?.map(({ userId, status }) => [userId, status]));
  return (
    <Loaded live={conversation}>
      {(shown) => (
        <>
          <PageHead title={shown.name} badge={shown.status} />
          <Details
            items={[
              ["Id", <Id key="id">{shown.id}</Id>],
              ["Type", humanize(shown.type)],
              ["Messages", countText(shown.messageCount)],
              ["Members", countText(shown.memberCount)],
              ["Room", shown.roomId && <a href={path(`rooms/${shown.roomId}`)}>Open the room</a>],
              ["Kept for", shown.retentionDays === null ? "the server's default" : `${shown.retentionDays} days`],
              ["Slow mode", shown.slowModeSeconds === 0 ? "off" : `${shown.slowModeSeconds} s`],
              ["Last activity", <Ago key="last" at={shown.lastActivityAt} />],
            ]}
          />
          <h2>Members</h2>
          <List
            label="members"
            live={members}
            id={({ userId }) => userId}
            search={({ userId }) => userId}
            empty="This conversation has no members."
            columns={[
              { title: "User", cell: ({ userId }) => userId },
              { title: "Role", cell: ({ role }) => humanize(role) },
              { title: "Presence", cell: ({ userId }) => <Badge>{statusOf.get(userId) ?? "offline"}</Badge> },
              { title: "Joined", cell: ({ joinedAt }) => <Ago at={joinedAt} />, wide: true },
              { title: "Muted until", cell: ({ mutedUntil }) => mutedUntil && <Ago at={mutedUntil} />, wide: true },
            ]}
          />
          <h2>Messages</h2>
          <p class="quiet small">Who wrote when. The text is not shown here, and the server does not send it.</p>
          <List
            label="messages"
            live={messages}
            id={({ id }) => id}
            empty="No messages yet."
            columns={[
              { title: "No.", cell: ({ seq }) => seq, number: true },
              { title: "From", cell: ({ senderId }) => senderId ?? <span class="quiet">the server</span> },
              {
                title: "Type",
                cell: ({ type, hasAttachment }) => (hasAttachment ? `${type}, file` : type),
                wide: true,
              },
              { title: "Status", cell: ({ status }) => <Badge>{status}</Badge> },
              { title: "Reactions", cell: ({ reactionCount }) => countText(reactionCount), number: true, wide: true },
              { title: "Replies", cell: ({ replyCount }) => countText(replyCount), number: true, wide: true },
              { title: "Id", cell: ({ id }) => <Id>{id}</Id>, wide: true },
              { title: "Sent", cell: ({ createdAt }) => <Ago at={createdAt} /> },
            ]}
          />
        </>
      )}
    </Loaded>
  );
}
