/** `stoa/react`: React components and hooks for rooms, tracks and chat. */
export {
  type ChatStatus,
  type ConversationStatus,
  type UseChatOptions,
  useChat,
  useConversation,
} from "./chat-hooks.ts";
export { Conference, type ConferenceProps } from "./conference/conference.tsx";
export { type RoomStatus, StoaRoom, type StoaRoomProps, useRoom } from "./context.tsx";
export { type LiveStreamCredentials, type LiveStreamStatus, useLiveStream } from "./live-stream.ts";
export {
  type AllParticipants,
  type TrackReference,
  useAllParticipants,
  useCaptions,
  useData,
  useDevices,
  useLobby,
  useParticipantCount,
  useParticipants,
  useRecording,
  useRequest,
  useRoomState,
  useSafetyNumber,
  useSpeakers,
  useStream,
  useTracks,
} from "./room-hooks.ts";
export { VideoTile, type VideoTileProps } from "./video-tile.tsx";
