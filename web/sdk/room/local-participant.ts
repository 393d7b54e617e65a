import { mayPublish } from "../../../src/protocol/may-publish.ts";
import type { Permissions, TrackKind, TrackSource } from "../../../src/protocol/room-records.ts";
import { StoaError } from "../errors.ts";
import { capture, captureScreen, type DeviceKind } from "./devices.ts";
import { LocalTrack, type PublishOptions } from "./local-track.ts";

/** Options for `enableCamera`; the default is 1280×720 at 30 frames per second. */
export type CameraOptions = PublishOptions & { deviceId?: string; width?: number; height?: number; frameRate?: number };
/**
 * Options for `enableMicrophone`; echo cancellation, noise suppression and gain control are on, unless `music` is true or
 * `constraints` override them.
 */
export type MicrophoneOptions = PublishOptions & { deviceId?: string; constraints?: MediaTrackConstraints };
/** Options for `shareScreen`; `audio: false` omits the screen's audio. */
export type ScreenOptions = PublishOptions & { audio?: boolean };

export type LocalDeps = {
  /** The server of the room, from which processors load their files. */
  serverUrl: string;
  publish: (track: LocalTrack) => Promise<void>;
  unpublish: (track: LocalTrack) => Promise<void>;
  syncMute: (track: LocalTrack) => Promise<void>;
  setMetadata: (metadata: string | null) => Promise<void>;
  update: (fields: { attributes: Readonly<Record<string, string>> }) => Promise<object>;
  onChanged: (event: "published" | "unpublished" | "muted" | "unmuted", track: LocalTrack) => void;
  /** Called when a device could not be opened; the call that opened it also rejects. */
  onDeviceFailed: (error: StoaError) => void;
  onError: (error: StoaError) => void;
};

/** The local participant: its tracks and permissions. */
export class LocalParticipant {
  /** The published tracks. */
  readonly tracks = new Set<LocalTrack>();
  /** The participant's identity, from the token. */
  identity = "";
  /** The participant's metadata, from the token or `setMetadata`. */
  metadata: string | null = null;
  /** The display name, from the token. */
  name: string | null = null;
  /** The participant's attributes, from the token, your backend or `setAttributes`. */
  attributes: Readonly<Record<string, string>> = {};
  /** The participant's permissions; null before the room is joined. */
  permissions: Permissions | null = null;
  readonly #deps: LocalDeps;

  /** @internal */
  constructor(deps: LocalDeps) {
    this.#deps = deps;
  }

  /** The published track of a source, for example `localParticipant.track("camera")`. */
  track(source: TrackSource): LocalTrack | undefined {
    return [...this.tracks].find((track) => track.source === source);
  }

  /** Opens and publishes the camera, or unmutes it if it is published already. */
  async enableCamera(options: CameraOptions = {}): Promise<LocalTrack> {
    const known = this.track("camera");
    if (known) return this.mute(known, false);
    requirePublish(this.permissions, "video");
    const { deviceId, width = 1280, height = 720, frameRate = 30, ...publish } = options;
    const track = await this.#capture({
      video: {
        width: { ideal: width },
        height: { ideal: height },
        frameRate: { ideal: frameRate },
        ...exactDevice(deviceId),
      },
    });
    return this.publish(track, { ...publish, source: "camera" });
  }

  /** Opens and publishes the microphone, or unmutes it if it is published already. */
  async enableMicrophone(options: MicrophoneOptions = {}): Promise<LocalTrack> {
    const known = this.track("microphone");
    if (known) return this.mute(known, false);
    requirePublish(this.permissions, "audio");
    const { deviceId, constraints, ...publish } = options;
    const audio = {
      ...(options.music ? MUSIC : VOICE),
      ...constraints,
      ...exactDevice(deviceId),
    };
    return this.publish(await this.#capture({ audio }), { ...publish, source: "microphone" });
  }

  /** Publishes the screen that the user picks, with its audio where the browser supports it. */
  async shareScreen({ audio = true, ...publish }: ScreenOptions = {}): Promise<LocalTrack> {
    requirePublish(this.permissions, "video");
    const tracks = await captureScreen({ video: { frameRate: 15 }, audio: audio && MUSIC });
    const [audioTrack] = tracks.filter(({ kind }) => kind === "audio");
    const [video] = tracks.filter(({ kind }) => kind === "video");
    if (!video) throw new StoaError("NO_SCREEN", "device-not-found", "No screen was chosen.");
    video.contentHint ||= "detail";
    if (audioTrack) await this.publish(audioTrack, { source: "screenShareAudio" });
    return this.publish(video, { ...publish, source: "screenShare" });
  }

  /** Unpublishes and stops the camera; its light goes out. */
  async disableCamera(): Promise<void> {
    await this.#unpublishSource("camera");
  }

  /** Unpublishes and stops the microphone; to be silent for a while, `mute` is faster. */
  async disableMicrophone(): Promise<void> {
    await this.#unpublishSource("microphone");
  }

  /** Stops sharing the screen and its audio. */
  async stopScreen(): Promise<void> {
    await this.#unpublishSource("screenShare");
    await this.#unpublishSource("screenShareAudio");
  }

  /** Publishes any media track, such as a canvas, a file or a processed camera. */
  async publish(mediaStreamTrack: MediaStreamTrack, options: PublishOptions = {}): Promise<LocalTrack> {
    requirePublish(this.permissions, mediaStreamTrack.kind as LocalTrack["kind"]);
    const track = new LocalTrack(mediaStreamTrack, options, this.#deps);
    this.tracks.add(track);
    try {
      if (options.processor) await track.setProcessor(options.processor);
      await this.#deps.publish(track);
    } catch (error) {
      this.tracks.delete(track);
      track.close();
      throw error;
    }
    this.#followDevice(track);
    this.#deps.onChanged("published", track);
    return track;
  }

  /** Stops a track and removes it from all subscribers. */
  async unpublish(track: LocalTrack): Promise<void> {
    if (!this.tracks.delete(track)) return;
    track.close();
    await this.#deps.unpublish(track);
    this.#deps.onChanged("unpublished", track);
  }

  /** Mutes or unmutes a track. The device stays open while it is muted, so unmuting needs no permission prompt. */
  async mute(track: LocalTrack, muted = true): Promise<LocalTrack> {
    if (track.muted === muted) return track;
    track.setMuted(muted);
    this.#deps.onChanged(muted ? "muted" : "unmuted", track);
    await this.#deps.syncMute(track);
    return track;
  }

  /** Switches to another camera or microphone without republishing the track. */
  async switchDevice(kind: Extract<DeviceKind, "audioinput" | "videoinput">, deviceId: string): Promise<void> {
    const track = this.track(kind === "videoinput" ? "camera" : "microphone");
    if (!track) throw new StoaError("NOT_PUBLISHED", "invalid", "Nothing of that kind is being published.");
    const { switchDevice } = await import("./device-changes.ts");
    await switchDevice(track, deviceId, capture);
    this.#followDevice(track);
  }

  /** Sets the participant's metadata for all participants; needs the permission `updateMetadata`. */
  async setMetadata(metadata: string | null): Promise<void> {
    await this.#deps.setMetadata(metadata);
    this.metadata = metadata;
  }

  /**
   * Changes the attributes that are given, for all participants; an empty value removes one. It needs the permission
   * `updateMetadata`, except for `stoa.hand`, the raised hand, which the server replaces with its time.
   */
  async setAttributes(attributes: Readonly<Record<string, string>>): Promise<void> {
    await this.#deps.update({ attributes });
  }

  /** @internal */
  close(): void {
    for (const track of this.tracks) track.close();
    this.tracks.clear();
  }

  async #capture(constraints: MediaStreamConstraints): Promise<MediaStreamTrack> {
    try {
      return await capture(constraints);
    } catch (error) {
      this.#deps.onDeviceFailed(error as StoaError);
      throw error;
    }
  }

  async #unpublishSource(source: TrackSource): Promise<void> {
    const track = this.track(source);
    if (track) await this.unpublish(track);
  }

  /** Replaces a removed device with the default one, and unpublishes a screen that is no longer shared. */
  #followDevice(track: LocalTrack): void {
    track.sourceTrack.addEventListener("ended", () => void this.#deviceEnded(track), { once: true });
  }

  async #deviceEnded(track: LocalTrack): Promise<void> {
    if (!this.tracks.has(track)) return;
    try {
      if (track.source !== "camera" && track.source !== "microphone") return await this.unpublish(track);
      const { replaceDevice } = await import("./device-changes.ts");
      await replaceDevice(track, capture);
      this.#followDevice(track);
    } catch (error) {
      this.#deps.onError(error as StoaError);
      await this.unpublish(track).catch(() => {});
    }
  }
}

const VOICE = { echoCancellation: true, noiseSuppression: true, autoGainControl: true };
/** Voice processing would distort music, and the audio of a screen. */
const MUSIC = { channelCount: 2, echoCancellation: false, noiseSuppression: false, autoGainControl: false };

function exactDevice(deviceId: string | undefined): MediaTrackConstraints {
  return deviceId === undefined ? {} : { deviceId: { exact: deviceId } };
}

/** Fails before a camera is opened rather than after. */
function requirePublish(permissions: Permissions | null, kind: TrackKind): void {
  if (permissions && mayPublish(permissions, kind)) return;
  throw new StoaError("PERMISSION_DENIED", "not-allowed", `This token does not permit publishing ${kind}.`);
}
