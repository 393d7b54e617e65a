import {
  CreateIngressRequest,
  DeleteIngressRequest,
  IngressAudioEncodingPreset,
  IngressAudioOptions,
  IngressInfo,
  IngressInput,
  IngressState,
  IngressState_Status,
  IngressVideoEncodingPreset,
  IngressVideoOptions,
  InputAudioState,
  InputVideoState,
  ListIngressRequest,
  ListIngressResponse,
  TrackSource,
  UpdateIngressRequest,
} from "@livekit/protocol";
import { checkedDisplayName, checkedMetadata } from "../../../features/rooms/participant.ts";
import { invalid } from "../../../protocol/errors.ts";
import { foreignName } from "../../../protocol/ids.ts";
import { roomSid } from "../../../protocol/media/livekit-sids.ts";
import type { Track } from "../../../protocol/room-records.ts";
import type { IngressRow, IngressSettings, IngressStatus } from "../ingress/ingress.store.ts";
import { type Ingresses, WHIP_PATH } from "../ingress/ingresses.ts";
import { type UrlSources, withoutSecrets } from "../ingress/url-sources.ts";
import { nanoseconds, sourceOf, trackInfo } from "../records.ts";
import { NAME_RULE } from "../tokens.ts";
import {
  defineMethod,
  invalidArgument,
  type Method,
  notServed,
  requireFirstPage,
  type ServerCall,
  TwirpError,
} from "./twirp.ts";

type IngressDeps = { ingresses: Ingresses; urlSources: UrlSources };

const MAX_NAME = 256;
const MAX_TRACK_NAME = 128;

const STATUSES: Record<IngressStatus, IngressState_Status> = {
  INACTIVE: IngressState_Status.ENDPOINT_INACTIVE,
  BUFFERING: IngressState_Status.ENDPOINT_BUFFERING,
  PUBLISHING: IngressState_Status.ENDPOINT_PUBLISHING,
  ERROR: IngressState_Status.ENDPOINT_ERROR,
  COMPLETE: IngressState_Status.ENDPOINT_COMPLETE,
};

type VideoFormat = Pick<IngressSettings["video"], "width" | "height" | "framesPerSecond" | "kbps">;
const P540: VideoFormat = { width: 960, height: 540, framesPerSecond: 25, kbps: 1_200 };
const P720: VideoFormat = { width: 1_280, height: 720, framesPerSecond: 30, kbps: 2_000 };
const P1080: VideoFormat = { width: 1_920, height: 1_080, framesPerSecond: 30, kbps: 4_000 };
const PRESETS: Record<IngressVideoEncodingPreset, VideoFormat> = {
  [IngressVideoEncodingPreset.H264_540P_25FPS_2_LAYERS]: P540,
  [IngressVideoEncodingPreset.H264_540P_25FPS_2_LAYERS_HIGH_MOTION]: P540,
  [IngressVideoEncodingPreset.H264_720P_30FPS_1_LAYER]: P720,
  [IngressVideoEncodingPreset.H264_720P_30FPS_1_LAYER_HIGH_MOTION]: P720,
  [IngressVideoEncodingPreset.H264_720P_30FPS_3_LAYERS]: P720,
  [IngressVideoEncodingPreset.H264_720P_30FPS_3_LAYERS_HIGH_MOTION]: P720,
  [IngressVideoEncodingPreset.H264_1080P_30FPS_1_LAYER]: P1080,
  [IngressVideoEncodingPreset.H264_1080P_30FPS_1_LAYER_HIGH_MOTION]: P1080,
  [IngressVideoEncodingPreset.H264_1080P_30FPS_3_LAYERS]: P1080,
  [IngressVideoEncodingPreset.H264_1080P_30FPS_3_LAYERS_HIGH_MOTION]: P1080,
};

const within = (field: string, value: string, most: number): string => {
  if (value.length > most) throw invalid(field, `must have at most ${most} characters`);
  return value;
};

const named = (field: string, value: string): string => {
  const name = foreignName(value);
  if (name === null) throw invalidArgument(`${field} ${NAME_RULE}`);
  return name;
};

/** The media of a WHIP encoder is forwarded unchanged; that of a URL is transcoded. */
function audioOf(given: IngressAudioOptions | undefined, isUrl: boolean): IngressSettings["audio"] {
  const { name = "", source = TrackSource.UNKNOWN, encodingOptions } = given ?? {};
  if (![TrackSource.UNKNOWN, TrackSource.MICROPHONE, TrackSource.SCREEN_SHARE_AUDIO].includes(source))
    throw invalidArgument("audio.source is no source of audio");
  if (encodingOptions?.case !== undefined && !isUrl) throw notServed("transcoding of WHIP");
  if (encodingOptions?.case === "options") throw notServed("audio.options");
  if (encodingOptions?.value === IngressAudioEncodingPreset.OPUS_MONO_64KBS) throw notServed("OPUS_MONO_64KBS");
  const chosen = source === TrackSource.UNKNOWN ? "microphone" : sourceOf(source);
  return { name: within("audio.name", name, MAX_TRACK_NAME), source: chosen };
}

function videoOf(given: IngressVideoOptions | undefined, isUrl: boolean): IngressSettings["video"] {
  const { name = "", source = TrackSource.UNKNOWN, encodingOptions } = given ?? {};
  if (![TrackSource.UNKNOWN, TrackSource.CAMERA, TrackSource.SCREEN_SHARE].includes(source))
    throw invalidArgument("video.source is no source of video");
  if (encodingOptions?.case !== undefined && !isUrl) throw notServed("transcoding of WHIP");
  if (encodingOptions?.case === "options") throw notServed("video.options");
  const format = PRESETS[encodingOptions?.value ?? IngressVideoEncodingPreset.H264_720P_30FPS_3_LAYERS];
  if (!format) throw invalidArgument("video.preset is unknown");
  const chosen = source === TrackSource.UNKNOWN ? "camera" : sourceOf(source);
  return { name: within("video.name", name, MAX_TRACK_NAME), source: chosen, ...format };
}

const givenOf = (options: IngressAudioOptions | IngressVideoOptions | undefined): unknown => options?.toJson() ?? null;

function stateOf(ingresses: Ingresses, row: IngressRow): IngressState {
  const tracks: Track[] = [...(ingresses.session(row.id)?.tracks.values() ?? [])];
  const video = tracks.find(({ kind }) => kind === "video");
  const audio = tracks.find(({ kind }) => kind === "audio");
  return new IngressState({
    status: STATUSES[row.status],
    error: row.error,
    resourceId: ingresses.resourceId(row.id),
    roomId: row.roomId === null ? "" : roomSid(row.roomId),
    startedAt: nanoseconds(row.startedAt),
    endedAt: nanoseconds(row.endedAt),
    updatedAt: nanoseconds(row.updatedAt),
    ...(video && { video: new InputVideoState({ mimeType: trackInfo(video).mimeType }) }),
    ...(audio && { audio: new InputAudioState({ mimeType: "audio/opus", sampleRate: 48_000 }) }),
    tracks: tracks.map((track) => trackInfo(track)),
  });
}

/** Without the WHIP address, as in events, the stream key is left out, because anyone who reads it can send. */
export function ingressInfo(ingresses: Ingresses, row: IngressRow, whipUrl: string | null): IngressInfo {
  const { settings, input } = row;
  const { name, roomName, participantIdentity, participantName, participantMetadata, enabled, given } = settings;
  const isWhip = input === "whip";
  return new IngressInfo({
    ingressId: row.id,
    name,
    roomName,
    participantIdentity,
    participantName,
    participantMetadata,
    enabled,
    inputType: isWhip ? IngressInput.WHIP_INPUT : IngressInput.URL_INPUT,
    reusable: isWhip,
    bypassTranscoding: isWhip,
    enableTranscoding: !isWhip,
    state: stateOf(ingresses, row),
    streamKey: isWhip && whipUrl !== null ? ingresses.streamKey(row) : "",
    url: isWhip ? (whipUrl ?? "") : row.url,
    ...(given.audio !== null && { audio: IngressAudioOptions.fromJson(given.audio as never) }),
    ...(given.video !== null && { video: IngressVideoOptions.fromJson(given.video as never) }),
  });
}

/** LiveKit's Ingress service: WHIP and URLs. */
export function createIngressService({ ingresses, urlSources }: IngressDeps): Record<string, Method> {
  function requireAdmin({ grant }: ServerCall): void {
    if (grant.ingressAdmin !== true) throw new TwirpError("permission_denied", "the token has no ingressAdmin grant");
  }

  function find(call: ServerCall, id: string): IngressRow {
    const row = ingresses.find(call.key, id);
    if (!row) throw new TwirpError("not_found", "ingress does not exist");
    return row;
  }

  const answer = (call: ServerCall, row: IngressRow) => ingressInfo(ingresses, row, `${call.publicUrl}${WHIP_PATH}`);

  return {
    CreateIngress: defineMethod(CreateIngressRequest, async (call, request) => {
      requireAdmin(call);
      const { inputType, url, audio, video, enabled = true, enableTranscoding, bypassTranscoding } = request;
      if (inputType === IngressInput.RTMP_INPUT)
        throw new TwirpError(
          "unimplemented",
          "RTMP ingress is not served here: let the encoder publish with WHIP (OBS 30 and later, ffmpeg 8, GStreamer), or name the stream's URL",
        );
      const isUrl = inputType === IngressInput.URL_INPUT;
      if (!isUrl && (enableTranscoding === true || url !== ""))
        throw url === "" ? notServed("transcoding of WHIP") : invalidArgument("url is for the input type URL");
      if (isUrl && (bypassTranscoding || enableTranscoding === false)) throw notServed("URLs without transcoding");
      if (isUrl && !enabled) throw invalidArgument("an ingress from a URL begins at once, and cannot be made disabled");
      const settings: IngressSettings = {
        name: within("name", request.name, MAX_NAME),
        roomName: named("roomName", request.roomName),
        participantIdentity: named("participantIdentity", request.participantIdentity),
        participantName: checkedDisplayName(request.participantName) ?? "",
        participantMetadata: checkedMetadata(request.participantMetadata) ?? "",
        enabled,
        audio: audioOf(audio, isUrl),
        video: videoOf(video, isUrl),
        given: { audio: givenOf(audio), video: givenOf(video) },
      };
      if (isUrl) await urlSources.check(url, call.key);
      const shown = isUrl ? withoutSecrets(url) : "";
      const row = await ingresses.create(call.key, isUrl ? "url" : "whip", shown, settings, call.author);
      if (isUrl) urlSources.start(row, url);
      return answer(call, row);
    }),

    UpdateIngress: defineMethod(UpdateIngressRequest, async (call, request) => {
      requireAdmin(call);
      const row = find(call, request.ingressId);
      if (row.input === "url") throw invalidArgument("ingress is not reusable and cannot be modified");
      if (request.enableTranscoding === true || request.bypassTranscoding === false)
        throw notServed("transcoding of WHIP");
      const { settings } = row;
      const { name, roomName, participantIdentity, participantName, participantMetadata, audio, video } = request;
      const changed: IngressSettings = {
        name: within("name", name, MAX_NAME) || settings.name,
        roomName: roomName === "" ? settings.roomName : named("roomName", roomName),
        participantIdentity:
          participantIdentity === "" ? settings.participantIdentity : named("participantIdentity", participantIdentity),
        participantName: checkedDisplayName(participantName) ?? settings.participantName,
        participantMetadata: checkedMetadata(participantMetadata) ?? settings.participantMetadata,
        enabled: request.enabled ?? settings.enabled,
        audio: audio ? audioOf(audio, false) : settings.audio,
        video: video ? videoOf(video, false) : settings.video,
        given: {
          audio: audio ? givenOf(audio) : settings.given.audio,
          video: video ? givenOf(video) : settings.given.video,
        },
      };
      return answer(call, await ingresses.update(row, changed, call.author));
    }),

    ListIngress: defineMethod(ListIngressRequest, async (call, { roomName, ingressId, pageToken }) => {
      requireAdmin(call);
      requireFirstPage(pageToken);
      const name = foreignName(roomName);
      const items = ingresses
        .list(call.key)
        .filter(({ id }) => ingressId === "" || id === ingressId)
        .filter(({ settings }) => roomName === "" || settings.roomName === name);
      return new ListIngressResponse({ items: items.map((row) => answer(call, row)) });
    }),

    DeleteIngress: defineMethod(DeleteIngressRequest, async (call, { ingressId }) => {
      requireAdmin(call);
      const row = find(call, ingressId);
      urlSources.stop(row.id);
      await ingresses.remove(row, call.author);
      return answer(call, { ...row, status: "INACTIVE" });
    }),
  };
}
