import { useRoute } from "preact-iso";
import { request, requestPage } from "../../api.ts";
import { useList, usePolling } from "../../live.ts";
import { BrowserName } from "../../parts/frame/browser.tsx";
import { List } from "../../parts/list.tsx";
import { bytesText, countText } from "../../parts/numbers.ts";
import { RoomName } from "../../parts/room-name.tsx";
import { Badge, Figure, humanize, Loaded, PageHead } from "../../parts/states.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { Ago } from "../../parts/time.tsx";
import { may, useProject } from "../../project.ts";
import { Reports, WordLists } from "./moderation.tsx";

/** Chat activity. Message texts are private and appear only in reports. */
export function Chat() {
  const { tab } = useRoute().params;
  const { at, environment, projectId, path } = useProject();
  const overview = usePolling(
    () => request(at.chat.overview.get({ query: { environment } })),
    [projectId, environment],
  );
  return (
    <>
      <PageHead title="Chat" />
      <Loaded live={overview}>
        {(totals) => (
          <ul class="tiles">
            <Figure label="Messages today" value={countText(totals.messagesToday)}>
              {countText(totals.messages)} in all
            </Figure>
            <Figure label="Conversations" value={countText(totals.activeConversations)}>
              {countText(totals.conversations)} including archived
            </Figure>
            <Figure label="Connected now" value={countText(totals.connections)}>
              {countText(totals.members)} members
            </Figure>
            <Figure label="Attachments" value={countText(totals.attachments)}>
              {bytesText(totals.attachmentBytes)}, {countText(totals.reactions)} reactions
            </Figure>
          </ul>
        )}
      </Loaded>
      <Tabs
        label="Chat"
        tabs={[
          { href: path("chat"), title: "Conversations", here: tab === undefined },
          { href: path("chat/connections"), title: "Connections", here: tab === "connections" },
          ...(may("chat:moderate")
            ? [
                { href: path("chat/reports"), title: "Reports", here: tab === "reports" },
                { href: path("chat/words"), title: "Word list", here: tab === "words" },
              ]
            : []),
        ]}
      />
      <Tab tab={tab} />
    </>
  );
}

function Tab({ tab }: { tab: string | undefined }) {
  switch (tab) {
    case "connections":
      return <Connections />;
    case "reports":
      return <Reports />;
    case "words":
      return <WordLists />;
    default:
      return <Conversations />;
  }
}

function Conversations() {
  const { at, environment, projectId, path } = useProject();
  const conversations = useList(
    (page) => requestPage(at.chat.conversations.get({ query: { ...page, environment } })),
    [projectId, environment],
  );
  return (
    <List
      label="conversations"
      live={conversations}
      id={({ id }) => id}
      search={({ name, id }) => `${name} ${id}`}
      empty="No conversations yet. Your backend creates them, and each live stream brings one."
      columns={[
        {
          title: "Name",
          cell: ({ id, name }) => (
            <a href={path(`chat/conversations/${id}`)}>
              <RoomName name={name} />
            </a>
          ),
        },
        { title: "Type", cell: ({ type }) => humanize(type), wide: true },
        { title: "Status", cell: ({ status }) => <Badge>{status}</Badge>, wide: true },
        { title: "Members", cell: ({ memberCount }) => countText(memberCount), number: true },
        { title: "Messages", cell: ({ messageCount }) => countText(messageCount), number: true },
        { title: "Last activity", cell: ({ lastActivityAt }) => <Ago at={lastActivityAt} />, wide: true },
      ]}
    />
  );
}

function Connections() {
  const { at, environment, projectId } = useProject();
  const connections = useList(
    (page) => requestPage(at.chat.connections.get({ query: { ...page, environment } })),
    [projectId, environment],
  );
  return (
    <List
      label="chat connections"
      live={connections}
      id={({ connectionId }) => connectionId}
      search={({ userId, ipAddress, userAgent }) => `${userId} ${ipAddress ?? ""} ${userAgent ?? ""}`}
      empty="No user has connected to the chat yet."
      columns={[
        { title: "User", cell: ({ userId }) => userId },
        {
          title: "State",
          cell: ({ disconnectedAt }) => <Badge>{disconnectedAt === null ? "CONNECTED" : "DISCONNECTED"}</Badge>,
        },
        { title: "Since", cell: ({ connectedAt }) => <Ago at={connectedAt} /> },
        { title: "Closed with", cell: ({ closeCode }) => closeCode ?? "–", number: true, wide: true },
        { title: "Sent", cell: ({ messagesSent }) => countText(messagesSent), number: true },
        { title: "Conversations", cell: (one) => countText(one.conversations.length), number: true, wide: true },
        { title: "Address", cell: ({ ipAddress }) => <code>{ipAddress ?? "–"}</code>, wide: true },
        { title: "Browser", cell: ({ userAgent }) => <BrowserName userAgent={userAgent} />, wide: true },
      ]}
    />
  );
}
