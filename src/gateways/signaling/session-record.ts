/**
 * The encrypted record from which a session is restored after a restart of this process, while its media still flows on
 * another machine. The node that keeps it can neither read nor change it, nor use it for another room or participant.
 */
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import type { Keyring } from "../../kernel/crypto/secrets.ts";
import type { Environment } from "../../protocol/enums.ts";
import type { ParticipantSnapshot } from "../../protocol/media-node.ts";
import type { Permissions, Profile } from "../../protocol/room-records.ts";
import type { Roster } from "../../protocol/signaling.ts";
import { type Client, permissionsAtNode, type RtcSession } from "./rtc-session.ts";

export type SessionRecord = {
  projectId: string;
  environment: Environment;
  connectionId: string;
  tokenId: string;
  joinedAt: number;
  resumeToken: string;
  permissions: Permissions;
  metadata: string | null;
  profile: Profile;
  hidden: boolean;
  /** Absent from records of an older version. */
  roster?: Roster;
  client: Client;
  headless: boolean;
  /** Present only in records for a newer process, because it is not saved with every change. */
  gateway?: unknown;
};

type Keys = Pick<Keyring, "key" | "accepted">;
type Subject = { serverName: string; roomId: string; participantId: string; identity: string };

const ALGORITHM = "aes-256-gcm";
const IV_BYTES = 12;
const TAG_BYTES = 16;

const boundTo = ({ serverName, roomId, participantId, identity }: Subject): Buffer =>
  Buffer.from(JSON.stringify([serverName, roomId, participantId, identity]));

function encryptRecord(keyring: Keys, subject: Subject, record: SessionRecord): string {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv(ALGORITHM, keyring.key("session-record"), iv).setAAD(boundTo(subject));
  const sealed = Buffer.concat([cipher.update(JSON.stringify(record)), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString("base64url");
}

/** Null unless this installation wrote the record for exactly this participant on this node. */
export function decryptRecord(
  keyring: Keys,
  { serverName, roomId }: { serverName: string; roomId: string },
  { participantId, identity, record }: Pick<ParticipantSnapshot, "participantId" | "identity" | "record">,
): SessionRecord | null {
  const bytes = Buffer.from(record ?? "", "base64url");
  if (bytes.length <= IV_BYTES + TAG_BYTES) return null;
  const subject = { serverName, roomId, participantId, identity };
  for (const key of keyring.accepted("session-record")) {
    const opened = openRecord(key, subject, bytes);
    if (opened !== null) return opened;
  }
  return null;
}

function openRecord(key: Uint8Array, subject: Subject, bytes: Buffer): SessionRecord | null {
  try {
    const decipher = createDecipheriv(ALGORITHM, key, bytes.subarray(0, IV_BYTES), { authTagLength: TAG_BYTES })
      .setAAD(boundTo(subject))
      .setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
    const opened = Buffer.concat([decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES)), decipher.final()]);
    return JSON.parse(opened.toString()) as SessionRecord;
  } catch {
    return null;
  }
}

function recordOf({ room, link, ...session }: RtcSession, withGateway: boolean): SessionRecord {
  const { connectionId, tokenId, joinedAt, resumeToken, permissions, metadata, client } = session;
  const { name, attributes, kind, hidden, roster } = session;
  return {
    projectId: room.projectId,
    environment: room.environment,
    connectionId,
    tokenId,
    joinedAt,
    resumeToken,
    permissions,
    metadata,
    client,
    profile: { name, attributes, kind },
    hidden,
    roster,
    headless: link.state === "headless",
    ...(withGateway && session.gatewayState && { gateway: session.gatewayState() }),
  };
}

type RecordOptions = { serverName?: string; withGateway?: boolean };

/** The record of a session on the node of that name. */
export function sealedRecord(
  keyring: Keys,
  session: RtcSession,
  { serverName = session.site.serverName, withGateway = false }: RecordOptions = {},
): string {
  const { room, id: participantId, identity } = session;
  const subject = { serverName, roomId: room.id, participantId, identity };
  return encryptRecord(keyring, subject, recordOf(session, withGateway));
}

/** Only a remote node, which can outlive this process, gets the record. */
export function addToNode(keyring: Keys, session: RtcSession, options: RecordOptions = {}): Promise<void> {
  const { id: participantId, identity } = session;
  const { node } = session.site;
  const roomId = session.room.id;
  return node.addParticipant({
    roomId,
    participantId,
    identity,
    permissions: permissionsAtNode(session),
    ...(session.kind === "agent" && { agent: true }),
    ...(node.remote && { record: sealedRecord(keyring, session, options) }),
  });
}
