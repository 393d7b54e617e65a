import {
  type DirectFileOutput,
  EncodedFileOutput,
  ListEgressRequest,
  ListEgressResponse,
  ParticipantEgressRequest,
  RoomCompositeEgressRequest,
  StopEgressRequest,
  TrackCompositeEgressRequest,
  TrackEgressRequest,
  UpdateLayoutRequest,
  UpdateStreamRequest,
} from "@livekit/protocol";
import type { EgressRow } from "../../../features/egress/egress.table.ts";
import type { Egresses } from "../../../features/egress/egress.ts";
import type { PathWords } from "../../../features/egress/output-plan.ts";
import type { EgressSource } from "../../../features/egress/room-watch.ts";
import type { RoomRow } from "../../../features/rooms/room.table.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { foreignName } from "../../../protocol/ids.ts";
import { roomSid, trackIdOf, trackSid } from "../../../protocol/media/livekit-sids.ts";
import type { Track } from "../../../protocol/room-records.ts";
import type { SessionRegistry } from "../../signaling/rtc-session.ts";
import { egressInfo, type RequestCase, storedRequest } from "./egress-info.ts";
import { encodingOf, isOpus, type LivekitOutputs, layoutOf, outputsOf, redact } from "./egress-request.ts";
import type { NamedRooms } from "./named-rooms.ts";
import {
  defineMethod,
  invalidArgument,
  type Method,
  notServed,
  requireFirstPage,
  type ServerCall,
  TwirpError,
} from "./twirp.ts";

type EgressDeps = { namedRooms: NamedRooms; egresses: Egresses; registry: SessionRegistry };

/** The fields that the requests have in common, with their outputs. */
type Composed = LivekitOutputs & Pick<RoomCompositeEgressRequest, "roomName" | "options"> & { toJson(): unknown };

type Plan = {
  name: RequestCase;
  source: EgressSource;
  layout: string;
  hasVideo: boolean;
  hasAudio: boolean;
  words?: PathWords;
};

/** LiveKit's Egress service: live compositions made by ffmpeg. Web pages are not rendered here. */
export function createEgressService({ now }: Runtime, deps: EgressDeps): Record<string, Method> {
  const { namedRooms, egresses, registry } = deps;

  function requireRecorder({ grant }: ServerCall): void {
    if (grant.roomRecord !== true) throw new TwirpError("permission_denied", "the token has no roomRecord grant");
  }

  function find(call: ServerCall, egressId: string): EgressRow {
    const row = egresses.find(call.key, egressId);
    if (!row) throw new TwirpError("not_found", "egress does not exist");
    return row;
  }

  function requireTrack(room: RoomRow, sid: string): { identity: string; track: Track } {
    const id = trackIdOf(sid);
    for (const { identity, tracks } of registry.room(room.id)?.sessions.values() ?? []) {
      const track = tracks.get(id ?? "");
      if (track) return { identity, track };
    }
    throw new TwirpError("not_found", "track does not exist");
  }

  async function start(call: ServerCall, room: RoomRow, request: Composed, plan: Plan) {
    const { name, source, layout, hasVideo, hasAudio } = plan;
    const outputs = outputsOf(request, plan);
    const encoding = encodingOf(request.options, { hasVideo, hasAudio }, isOpus(outputs) ? "opus" : "aac");
    const at = new Date(now()).toISOString();
    const words = {
      room_name: room.name,
      room_id: roomSid(room.id),
      utc: at.replaceAll(/\D/g, ""),
      time: at.slice(0, 19).replaceAll(":", ""),
      ...plan.words,
    };
    redact(request);
    const stored = storedRequest(name, request);
    const input = { source, layout: layoutOf(layout), encoding, outputs, words, request: stored };
    return egressInfo(await egresses.start(room, input, call.author));
  }

  const wordsOf = ({ identity, track }: ReturnType<typeof requireTrack>): PathWords => ({
    publisher_identity: identity,
    track_id: trackSid(track.id),
    track_type: track.kind,
    track_source: track.source,
  });

  return {
    StartRoomCompositeEgress: defineMethod(RoomCompositeEgressRequest, async (call, request) => {
      requireRecorder(call);
      const { audioOnly, videoOnly, customBaseUrl, audioMixing, layout } = request;
      if (customBaseUrl !== "") throw notServed("customBaseUrl");
      if (audioMixing !== 0) throw notServed("audioMixing");
      if (audioOnly && videoOnly) throw invalidArgument("audioOnly and videoOnly exclude each other");
      return start(call, namedRooms.require(call, request.roomName), request, {
        name: "roomComposite",
        source: { type: "room" },
        layout,
        hasVideo: !audioOnly,
        hasAudio: !videoOnly,
      });
    }),

    StartParticipantEgress: defineMethod(ParticipantEgressRequest, async (call, request) => {
      requireRecorder(call);
      const identity = foreignName(request.identity);
      if (identity === null) throw invalidArgument("identity is missing");
      return start(call, namedRooms.require(call, request.roomName), request, {
        name: "participant",
        source: { type: "participant", identity, screenShare: request.screenShare },
        layout: "single-speaker",
        hasVideo: true,
        hasAudio: true,
        words: { publisher_identity: identity },
      });
    }),

    StartTrackCompositeEgress: defineMethod(TrackCompositeEgressRequest, async (call, request) => {
      requireRecorder(call);
      const room = namedRooms.require(call, request.roomName);
      const { audioTrackId, videoTrackId } = request;
      const video = videoTrackId === "" ? null : requireTrack(room, videoTrackId);
      const audio = audioTrackId === "" ? null : requireTrack(room, audioTrackId);
      if (video && video.track.kind !== "video") throw invalidArgument("videoTrackId is no video track");
      if (audio && audio.track.kind !== "audio") throw invalidArgument("audioTrackId is no audio track");
      const first = video ?? audio;
      if (!first) throw invalidArgument("audioTrackId or videoTrackId is missing");
      return start(call, room, request, {
        name: "trackComposite",
        source: { type: "tracks", trackIds: [video, audio].flatMap((one) => one?.track.id ?? []) },
        layout: "single-speaker",
        hasVideo: video !== null,
        hasAudio: audio !== null,
        words: wordsOf(first),
      });
    }),

    StartTrackEgress: defineMethod(TrackEgressRequest, async (call, request) => {
      requireRecorder(call);
      const { output, webhooks } = request;
      if (output.case === "websocketUrl") throw notServed("websocketUrl");
      if (output.case === undefined) throw invalidArgument("the output is missing");
      const room = namedRooms.require(call, request.roomName);
      const found = requireTrack(room, request.trackId);
      const { id, kind } = found.track;
      const composed: Composed = {
        roomName: request.roomName,
        options: { case: undefined },
        webhooks,
        fileOutputs: [asEncoded(output.value)],
        streamOutputs: [],
        segmentOutputs: [],
        imageOutputs: [],
        toJson: () => request.toJson(),
      };
      return start(call, room, composed, {
        name: "track",
        source: { type: "tracks", trackIds: [id] },
        layout: "single-speaker",
        hasVideo: kind === "video",
        hasAudio: kind === "audio",
        words: wordsOf(found),
      });
    }),

    UpdateLayout: defineMethod(UpdateLayoutRequest, async (call, { egressId, layout }) => {
      requireRecorder(call);
      const row = find(call, egressId);
      const request = JSON.parse(row.request) as { case: RequestCase; value: { layout?: string } };
      if (request.case !== "roomComposite")
        throw new TwirpError("failed_precondition", "only a composition of a room has a layout");
      request.value.layout = layout;
      return egressInfo(await egresses.setLayout(row, layoutOf(layout), JSON.stringify(request), call.author));
    }),

    UpdateStream: defineMethod(UpdateStreamRequest, async (call, { egressId, addOutputUrls, removeOutputUrls }) => {
      requireRecorder(call);
      const row = find(call, egressId);
      return egressInfo(await egresses.updateStreams(row, addOutputUrls, removeOutputUrls, call.author));
    }),

    ListEgress: defineMethod(ListEgressRequest, async (call, request) => {
      requireRecorder(call);
      const { roomName, egressId, active, pageToken } = request;
      requireFirstPage(pageToken);
      const known = egressId === "" ? egresses.list(call.key) : [egresses.find(call.key, egressId)];
      const name = foreignName(roomName);
      const items = known.filter(
        (row): row is EgressRow =>
          row !== null && (roomName === "" || row.roomName === name) && (!active || row.endedAt === null),
      );
      return new ListEgressResponse({ items: items.map(egressInfo) });
    }),

    StopEgress: defineMethod(StopEgressRequest, async (call, { egressId }) => {
      requireRecorder(call);
      return egressInfo(await egresses.stop(find(call, egressId), call.author));
    }),
  };
}

/** The storage is shared, so that the credentials in the request are redacted with those in the output. */
const asEncoded = ({ filepath, output }: DirectFileOutput) => new EncodedFileOutput({ filepath, output });
