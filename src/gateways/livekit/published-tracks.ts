import type { JsonValue } from "@bufbuild/protobuf";
import {
  type AddTrackRequest,
  Encryption_Type,
  SimulcastCodecInfo,
  TrackInfo,
  TrackType,
  VideoLayer,
} from "@livekit/protocol";
import { mayPublish } from "../../protocol/may-publish.ts";
import { newTrackId, trackIdOf, trackSid } from "../../protocol/media/livekit-sids.ts";
import type { NamedSection } from "../../protocol/media-node.ts";
import type { RtcSession } from "../signaling/rtc-session.ts";
import type { PublishPreference, Section } from "./negotiation/session-description.ts";
import { groupOf, kindOf, sourceOf } from "./records.ts";

export const MAX_TRACKS = 64;
const MAX_NAME = 128;
/** The maximum length of lists that are forwarded to the whole room. */
const MAX_LISTED = 16;
/** LiveKit's clients call their layers `q`, `h` and `f`. */
const MAX_RID = 16;

type PublishedTrack = {
  readonly trackId: string;
  readonly info: TrackInfo;
  readonly section: Omit<NamedSection, "mid">;
  /** The client's own state; the server may have muted the track as well. */
  muted: boolean;
  /** Whether the client was notified that the track has a subscriber. */
  isReceived: boolean;
};

export type PublishedState = {
  tracks: [cid: string, track: Omit<PublishedTrack, "info"> & { info: JsonValue }][];
  aliases: [alias: string, cid: string][];
};

/** The tracks that one client has announced, by their client ids. Their media follows in an offer. */
export class PublishedTracks {
  readonly #byCid = new Map<string, PublishedTrack>();
  /** Tracks by their id in the session description, if it differs: Firefox generates one for each sender. */
  readonly #byAlias = new Map<string, PublishedTrack>();

  constructor(
    private readonly session: RtcSession,
    before: PublishedState = { tracks: [], aliases: [] },
  ) {
    for (const [cid, { info, ...track }] of before.tracks) {
      // A track and its backup have the same record.
      const known = this.find(track.trackId)?.info;
      this.#byCid.set(cid, { ...track, info: known ?? TrackInfo.fromJson(info) });
    }
    for (const [alias, cid] of before.aliases) {
      const track = this.#byCid.get(cid);
      if (track) this.#byAlias.set(alias, track);
    }
  }

  state(): PublishedState {
    const cids = new Map([...this.#byCid].map(([cid, track]) => [track, cid]));
    return {
      tracks: [...this.#byCid].map(([cid, track]) => [cid, { ...track, info: track.info.toJson() }]),
      aliases: [...this.#byAlias].flatMap(([alias, track]) => {
        const cid = cids.get(track);
        return cid === undefined ? [] : [[alias, cid]];
      }),
    };
  }

  find(trackId: string): PublishedTrack | undefined {
    return [...this.#byCid.values()].find((track) => track.trackId === trackId);
  }

  /** Returns an error message when the track is rejected. A repeated request returns the same track. */
  add(request: AddTrackRequest): PublishedTrack | string {
    const known = this.#byCid.get(request.cid);
    if (known) return known;
    const kind = kindOf(request.type);
    if (!kind || request.cid === "") return "only audio and video tracks are published here";
    if (request.cid.length > MAX_NAME) return `cid: at most ${MAX_NAME} characters`;
    if (request.sid !== "") return this.#addBackup(request);
    const source = sourceOf(request.source);
    if (!mayPublish(this.session.permissions, kind)) return `the token does not permit to publish ${kind}`;
    if (!mayPublish(this.session.permissions, kind, source)) return "the token does not permit to publish this source";
    if (this.#byCid.size >= MAX_TRACKS) return `at most ${MAX_TRACKS} tracks at once`;
    const isEncrypted = request.encryption === Encryption_Type.GCM;
    if (this.session.room.encrypted && !isEncrypted) return "the room takes end-to-end encrypted tracks only";
    const trackId = newTrackId();
    const name = request.name.slice(0, MAX_NAME);
    const published: PublishedTrack = {
      trackId,
      info: infoOf(request, trackId, groupOf({ source })),
      section: {
        clientTrackId: request.cid,
        kind,
        source,
        trackId,
        ...(name !== "" && { name }),
        ...(isEncrypted && { encryption: "gcm" }),
      },
      muted: request.muted,
      isReceived: false,
    };
    this.#byCid.set(request.cid, published);
    return published;
  }

  /** Adds the video of a track in another codec, which the client was asked for. */
  #addBackup({ cid, sid, simulcastCodecs: [requested] }: AddTrackRequest): PublishedTrack | string {
    const primary = this.find(trackIdOf(sid));
    if (primary?.section.kind !== "video") return "there is no such video";
    if (this.#byCid.size >= MAX_TRACKS) return `at most ${MAX_TRACKS} tracks at once`;
    const { trackId, info, muted } = primary;
    const { source, encryption } = primary.section;
    const mimeType = mimeTypeNamed(requested?.codec);
    info.codecs.push(new SimulcastCodecInfo({ mimeType, cid, layers: layersOf(requested?.layers ?? []) }));
    const backup: PublishedTrack = {
      trackId,
      info,
      muted,
      isReceived: true,
      section: { clientTrackId: cid, kind: "video", source, backupOf: trackId, ...(encryption && { encryption }) },
    };
    this.#byCid.set(cid, backup);
    return backup;
  }

  remove(trackId: string): void {
    for (const names of [this.#byCid, this.#byAlias]) {
      for (const [name, track] of names) if (track.trackId === trackId) names.delete(name);
    }
  }

  publishedSections(sections: readonly Section[], midToTrackId: Record<string, string>): NamedSection[] {
    const sending = sections.filter(({ sends, kind }) => sends && kind !== "application");
    const found = new Map(sending.map((section) => [section, this.#named(section, midToTrackId)]));
    const placed = new Set(found.values());
    return sending.flatMap((section) => {
      const { mid, kind, cid } = section;
      const track = found.get(section) ?? this.#firstUnplaced(placed, kind);
      if (track?.section.kind !== kind || !mayPublish(this.session.permissions, kind, track.section.source)) return [];
      if (!placed.has(track)) {
        placed.add(track);
        if (cid !== null) this.#byAlias.set(cid, track);
      }
      return [{ mid, ...track.section }];
    });
  }

  /** How the sections of these tracks are to be negotiated. */
  preferences(sections: readonly NamedSection[]): Map<string, PublishPreference> {
    return new Map(
      sections.map(({ mid, trackId, clientTrackId, backupOf }) => {
        const { info } = this.find(trackId ?? backupOf ?? "") ?? {};
        const isAudio = info?.type === TrackType.AUDIO;
        const codec = isAudio
          ? info.disableRed
            ? "opus"
            : "red"
          : (mimeTypeOf(info, clientTrackId)?.split("/")[1]?.toLowerCase() ?? null);
        return [mid, { codec, dtx: isAudio && !info.disableDtx, stereo: isAudio && info.stereo }];
      }),
    );
  }

  #named({ mid, cid }: Section, midToTrackId: Record<string, string>): PublishedTrack | undefined {
    return this.#byCid.get(midToTrackId[mid] ?? "") ?? this.#byCid.get(cid ?? "") ?? this.#byAlias.get(cid ?? "");
  }

  /** Sections without an id are assigned in the order in which their tracks were announced. */
  #firstUnplaced(placed: ReadonlySet<PublishedTrack | undefined>, kind: Section["kind"]): PublishedTrack | undefined {
    return [...this.#byCid.values()].find((track) => track.section.kind === kind && !placed.has(track));
  }
}

/** The codec of the track, or of its backup if `cid` names that. */
function mimeTypeOf(info: TrackInfo | undefined, cid: string): string | undefined {
  return info?.codecs.find((codec) => codec.cid === cid)?.mimeType ?? info?.mimeType;
}

const CODECS: ReadonlyMap<string, string> = new Map([
  ["vp8", "video/VP8"],
  ["h264", "video/H264"],
  ["vp9", "video/VP9"],
  ["av1", "video/AV1"],
]);

/** A client that requests an unknown codec gets VP8. */
const mimeTypeNamed = (codec = ""): string => CODECS.get(codec.toLowerCase()) ?? "video/VP8";

/** The whole room is notified of the layers, with every change of the participant. */
const layersOf = (layers: readonly VideoLayer[]): VideoLayer[] =>
  layers.slice(0, MAX_LISTED).map((layer) => new VideoLayer({ ...layer, rid: layer.rid.slice(0, MAX_RID) }));

function infoOf(request: AddTrackRequest, trackId: string, stream: string): TrackInfo {
  const { type, muted, width, height, disableDtx, source, stereo, disableRed, encryption } = request;
  const name = request.name.slice(0, MAX_NAME);
  const layers = layersOf(request.layers);
  const isVideo = type === TrackType.VIDEO;
  const [requested] = request.simulcastCodecs;
  const mimeType = isVideo ? mimeTypeNamed(requested?.codec) : "audio/opus";
  return new TrackInfo({
    type,
    name,
    muted,
    width,
    height,
    disableDtx,
    source,
    layers,
    stereo,
    disableRed,
    encryption,
    stream,
    mimeType,
    sid: trackSid(trackId),
    simulcast: layers.length > 1,
    codecs: isVideo
      ? [
          new SimulcastCodecInfo({
            mimeType,
            cid: request.cid,
            layers: requested?.layers.length ? layersOf(requested.layers) : layers,
          }),
        ]
      : [],
    audioFeatures: request.audioFeatures.slice(0, MAX_LISTED),
    packetTrailerFeatures: request.packetTrailerFeatures.slice(0, MAX_LISTED),
  });
}
