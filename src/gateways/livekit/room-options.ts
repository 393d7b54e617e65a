import { RoomConfiguration } from "@livekit/protocol";
import { decodeJson } from "./message-reader.ts";

/** The defaults of LiveKit's server. */
const EMPTY_TIMEOUT_SECONDS = 300;
const DEPARTURE_TIMEOUT_SECONDS = 20;
const MAX_EMPTY_SECONDS = 86_400;
const MAX_DEPARTURE_SECONDS = 3_600;
const MAX_PARTICIPANTS = 10_000;
const METADATA_MAX_BYTES = 65_536;

export type RoomOptions = Partial<
  Pick<RoomConfiguration, "emptyTimeout" | "departureTimeout" | "maxParticipants" | "metadata">
>;

/** The options of a room that LiveKit's API or a token creates. In LiveKit's messages, 0 stands for the default. */
export function roomOptionsOf({
  emptyTimeout = 0,
  departureTimeout = 0,
  maxParticipants = 0,
  metadata = "",
}: RoomOptions) {
  return {
    emptyTimeoutSeconds: Math.min(emptyTimeout || EMPTY_TIMEOUT_SECONDS, MAX_EMPTY_SECONDS),
    departureTimeoutSeconds: Math.min(departureTimeout || DEPARTURE_TIMEOUT_SECONDS, MAX_DEPARTURE_SECONDS),
    maxParticipants: maxParticipants > 0 ? Math.min(maxParticipants, MAX_PARTICIPANTS) : null,
    metadata: metadata === "" ? null : metadata,
  };
}

/** Null when the metadata may be stored. */
export const metadataProblem = (metadata: string): string | null =>
  Buffer.byteLength(metadata) > METADATA_MAX_BYTES ? `metadata has at most ${METADATA_MAX_BYTES} bytes` : null;

/** The `roomConfig` claim of a token, with which its room is created. */
export function configurationOf(claims: Record<string, unknown>): RoomOptions {
  if (typeof claims.roomConfig !== "object" || claims.roomConfig === null) return {};
  const configuration = decodeJson(RoomConfiguration, JSON.stringify(claims.roomConfig))?.message;
  return configuration && metadataProblem(configuration.metadata) === null ? configuration : {};
}
