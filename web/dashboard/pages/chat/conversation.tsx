import { useRoute } from "preact-iso";
import { ask, askPage } from "../../api.ts";
import { useList, useLive } from "../../live.ts";
import { List } from "../../parts/list.tsx";
import { countText } from "../../parts/numbers.ts";
import { Badge, Facts, PageHead, Shown, words } from "../../parts/states.tsx";
import { Ago } from "../../parts/time.tsx";
import { useProject } from "../../project.ts";

/** One conversation without its content. */
export function Conversation() {
  const { conversationId = "" } = useRoute().params;
  const { at, environment, path } = useProject();
  const routes = at.chat.conversations({ conversationId });
  const deps = [conversationId, environment];
  const conversation = useLive(() => ask(routes.get({ query: { environment } })), deps);
  const presence = useLive(() => ask(routes.presence.get({ query: { environment } })), deps);
  const members = useList((page) => askPage(routes.members.get({ query: { ...page, environment } })), deps);
  const messages = useList((page) => askPage(routes.messages.get({ query: { ...page, environment } })), deps);
  const statusOf = new Map(presence.data?.map(({ userId, status }) => [userId, status]));
  return (
    <Shown live={conversation}>
      {(shown) => (
        <>
          <PageHead title={shown.name} badge={shown.status} />
          <Facts
            items={[
              ["Id", <code key="id">{shown.id}</code>],
              ["Type", words(shown.type)],
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
            empty="Nobody is a member."
            columns={[
              { title: "User", cell: ({ userId }) => userId },
              { title: "Role", cell: ({ role }) => words(role) },
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
              { title: "Id", cell: ({ id }) => <code>{id}</code>, wide: true },
              { title: "Sent", cell: ({ createdAt }) => <Ago at={createdAt} /> },
            ]}
          />
        </>
      )}
    </Shown>
  );
}
