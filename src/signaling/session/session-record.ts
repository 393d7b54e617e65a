import type { Environment } from "../../protocol/enums.ts";
import type { MediaNode } from "../../protocol/media-node.ts";
import type { Permissions, Profile } from "../../protocol/room-records.ts";
import type { Client, RtcSession } from "./rtc-session.ts";

/** What a session is made of again when this process has started anew and its media still flows on another machine. */
export type SessionRecord = {
  projectId: string;
  environment: Environment;
  connectionId: string;
  tokenId: string;
  joinedAt: number;
  resumeToken: string;
  permissions: Permissions;
  metadata: string | null;
  /** Not known to a process of an earlier version. */
  profile?: Profile;
  hidden?: boolean;
  client: Client;
  headless: boolean;
};

function recordOf({ room, link, ...session }: RtcSession): string {
  const { connectionId, tokenId, joinedAt, resumeToken, permissions, metadata, client } = session;
  const { name, attributes, kind, hidden } = session;
  const record: SessionRecord = {
    ...{ projectId: room.projectId, environment: room.environment },
    ...{ connectionId, tokenId, joinedAt, resumeToken, permissions, metadata, client },
    ...{ profile: { name, attributes, kind }, hidden },
    headless: link.state === "headless",
  };
  return JSON.stringify(record);
}

/** What the node is told: whoever waits gets no media, whatever they ask for. */
export function permissionsAtNode({ waiting, permissions }: RtcSession): Permissions {
  return waiting ? { ...permissions, subscribe: false } : permissions;
}

/** A participant as its node gets it. Only a node that can outlive this process is given the record. */
export function addToNode(session: RtcSession, node: MediaNode): Promise<void> {
  return node.addParticipant({
    roomId: session.room.id,
    participantId: session.id,
    identity: session.identity,
    permissions: permissionsAtNode(session),
    ...(node.remote && { record: recordOf(session) }),
  });
}
