/** Translates our egresses into LiveKit's messages. Times are in nanoseconds there. */
import {
  EgressInfo,
  EgressSourceType,
  EgressStatus,
  FileInfo,
  ParticipantEgressRequest,
  RoomCompositeEgressRequest,
  SegmentsInfo,
  StreamInfo,
  StreamInfo_Status,
  StreamInfoList,
  TrackCompositeEgressRequest,
  TrackEgressRequest,
} from "@livekit/protocol";
import type { EgressOutput, EgressRow, EgressStatus as OurStatus } from "../../../features/egress/egress.table.ts";
import { roomSid } from "../../../protocol/media/livekit-sids.ts";
import { nanoseconds } from "../records.ts";

const STATUSES: Record<OurStatus, EgressStatus> = {
  STARTING: EgressStatus.EGRESS_STARTING,
  ACTIVE: EgressStatus.EGRESS_ACTIVE,
  ENDING: EgressStatus.EGRESS_ENDING,
  COMPLETE: EgressStatus.EGRESS_COMPLETE,
  FAILED: EgressStatus.EGRESS_FAILED,
  ABORTED: EgressStatus.EGRESS_ABORTED,
  LIMIT_REACHED: EgressStatus.EGRESS_LIMIT_REACHED,
};

/** The error codes of LiveKit's egresses are HTTP status codes. */
const ERROR_CODES: Partial<Record<OurStatus, number>> = { FAILED: 500, ABORTED: 412, LIMIT_REACHED: 413 };

const STREAM_STATUSES: Record<EgressOutput["status"], StreamInfo_Status> = {
  STARTING: StreamInfo_Status.ACTIVE,
  ACTIVE: StreamInfo_Status.ACTIVE,
  FINISHED: StreamInfo_Status.FINISHED,
  FAILED: StreamInfo_Status.FAILED,
};

const REQUESTS = {
  roomComposite: RoomCompositeEgressRequest,
  participant: ParticipantEgressRequest,
  trackComposite: TrackCompositeEgressRequest,
  track: TrackEgressRequest,
};
export type RequestCase = keyof typeof REQUESTS;
type StoredRequest = { case: RequestCase; value: object };

export const storedRequest = (name: RequestCase, value: { toJson(): unknown }): string =>
  JSON.stringify({ case: name, value: value.toJson() });

const times = ({ startedAt, endedAt, durationMs }: EgressOutput) => ({
  startedAt: nanoseconds(startedAt),
  endedAt: nanoseconds(endedAt),
  duration: nanoseconds(durationMs),
});

const fileInfo = (output: EgressOutput) =>
  new FileInfo({ ...times(output), filename: output.name, size: BigInt(output.bytes), location: output.location });

const streamInfo = (output: EgressOutput) =>
  new StreamInfo({
    ...times(output),
    url: output.name,
    status: STREAM_STATUSES[output.status],
    error: output.error ?? "",
  });

const segmentsInfo = (output: EgressOutput) =>
  new SegmentsInfo({
    ...times(output),
    playlistName: output.playlist,
    livePlaylistName: output.livePlaylist,
    size: BigInt(output.bytes),
    playlistLocation: output.location,
    segmentCount: BigInt(output.segments),
  });

/** Requests with one output in the deprecated field get their result in the deprecated field too. */
function oldResult(request: StoredRequest, files: FileInfo[], streams: StreamInfo[], segments: SegmentsInfo[]) {
  const value = request.value as Record<string, unknown>;
  if (files[0] && "file" in value) return { case: "file" as const, value: files[0] };
  if (segments[0] && "segments" in value) return { case: "segments" as const, value: segments[0] };
  if (streams[0] && "stream" in value) return { case: "stream" as const, value: new StreamInfoList({ info: streams }) };
  return { case: undefined };
}

export function egressInfo(row: EgressRow): EgressInfo {
  const request = JSON.parse(row.request) as StoredRequest;
  const ofKind = (kind: EgressOutput["kind"]) => row.outputs.filter((output) => output.kind === kind);
  const files = ofKind("file").map(fileInfo);
  const streams = ofKind("stream").map(streamInfo);
  const segments = ofKind("segments").map(segmentsInfo);
  const value = REQUESTS[request.case].fromJson(request.value as never, { ignoreUnknownFields: true });
  return new EgressInfo({
    egressId: row.id,
    roomId: roomSid(row.roomId),
    roomName: row.roomName,
    sourceType: EgressSourceType.SDK,
    status: STATUSES[row.status],
    startedAt: nanoseconds(row.startedAt),
    endedAt: nanoseconds(row.endedAt),
    updatedAt: nanoseconds(row.updatedAt),
    error: row.error ?? "",
    errorCode: ERROR_CODES[row.status] ?? 0,
    request: { case: request.case, value } as EgressInfo["request"],
    fileResults: files,
    streamResults: streams,
    segmentResults: segments,
    result: oldResult(request, files, streams, segments),
  });
}
