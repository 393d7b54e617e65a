/**
 * The browser SDK. A live stream consists of a room and a conversation: connect to both with the credentials that your
 * backend mints.
 */
import { loadEncryption } from "./encryption/load-encryption.ts";
import { Room } from "./room/room.ts";
import type { RoomOptions } from "./room/room-events.ts";

export type {
  Attachment,
  Conversation as ConversationRecord,
  ConversationMember,
  Message,
  MessagePage,
  NotificationLevel,
  Presence,
  PushPayload,
  ReadReceipt,
  ReadState,
  ReportReason,
  Ring as RingRecord,
  Typing,
  Unread,
} from "../../src/protocol/chat-records.ts";
export type { Caption, CaptionOptions } from "../../src/protocol/data/captions.ts";
export type { StreamHandler } from "../../src/protocol/data/data-streams.ts";
export { RequestError, type RequestHandler, type RequestOptions } from "../../src/protocol/data/requests.ts";
export type { DataMessage, DataOptions, SendFileOptions } from "../../src/protocol/data/room-data.ts";
export type { StreamReader } from "../../src/protocol/data/stream-reader.ts";
export type { StreamOptions, StreamWriter } from "../../src/protocol/data/stream-writer.ts";
export { type EncryptionOptions, type KeyMaterial, KeyProvider } from "../../src/protocol/encryption/key-provider.ts";
export type { Decryption } from "../../src/protocol/encryption/room-keys.ts";
export type { Layer, Permissions, Quality, Speaker, TrackKind, TrackSource } from "../../src/protocol/room-records.ts";
export { Chat, type ChatEvents, type ChatOptions, connectChat } from "./chat/chat.ts";
export type { Conversation } from "./chat/conversation.ts";
export type { ConversationEvents } from "./chat/conversation-events.ts";
export type { SendInput } from "./chat/outbox.ts";
export type { Ring, RingEvents, RingOptions } from "./chat/ring.ts";
export type { LocalMessage } from "./chat/timeline.ts";
export type { UploadOptions } from "./chat/upload.ts";
export type { ConnectionState, TokenProvider, WaitingListener } from "./connection-state.ts";
export { type ErrorReason, StoaError } from "./errors.ts";
export { type DeviceKind, listDevices, onDevicesChanged } from "./room/devices.ts";
export type { CameraOptions, LocalParticipant, MicrophoneOptions, ScreenOptions } from "./room/local-participant.ts";
export type { LocalTrack, PublishOptions } from "./room/local-track.ts";
export type { VideoCodec } from "./room/peer/codecs.ts";
export type { RoomStats, TrackStats } from "./room/peer/stats.ts";
export type { Delivered, RemoteParticipant, RemoteTrack } from "./room/remote-participant.ts";
export type {
  Knock,
  ParticipantPage,
  ParticipantRecord,
  RoomEvents,
  RoomOptions,
  RoomState,
} from "./room/room-events.ts";
export type { ProcessorContext, TrackProcessor } from "./room/track-processor.ts";
export { Room };

/** Joins the token's room; `endpoint` comes with the token. */
export async function connect(endpoint: string, token: string, options: RoomOptions = {}): Promise<Room> {
  const sdk = `stoa-js/${VERSION} ${navigator.userAgent}`.slice(0, 128);
  const room = new Room(endpoint, token, sdk, options, await loadEncryption(options.encryption));
  try {
    await room.start();
    return room;
  } catch (error) {
    await room.close();
    throw error;
  }
}

/** The build replaces this with the version. */
declare const STOA_VERSION: string | undefined;
/** The SDK's version, which is the version of the server that it was built with. */
export const VERSION: string = typeof STOA_VERSION === "undefined" ? "dev" : STOA_VERSION;
