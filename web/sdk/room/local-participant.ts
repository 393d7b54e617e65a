import type { Permissions, TrackSource } from "../../../src/protocol/room-records.ts";
import { StoaError } from "../errors.ts";
import { capture, captureScreen, type DeviceKind } from "./devices.ts";
import { LocalTrack, type PublishOptions } from "./local-track.ts";
import { requirePublish } from "./permissions.ts";

/** Which camera, and what to ask of it; 1280×720 at 30 frames unless given. */
export type CameraOptions = PublishOptions & { deviceId?: string; width?: number; height?: number; frameRate?: number };
/** Which microphone; `constraints` override echo cancellation, noise suppression and gain control, which are on. */
export type MicrophoneOptions = PublishOptions & { deviceId?: string; constraints?: MediaTrackConstraints };
/** `audio: false` leaves the screen's sound out. */
export type ScreenOptions = PublishOptions & { audio?: boolean };

export type LocalDeps = {
  publish: (track: LocalTrack) => Promise<void>;
  unpublish: (track: LocalTrack) => Promise<void>;
  syncMute: (track: LocalTrack) => Promise<void>;
  setMetadata: (metadata: string | null) => Promise<void>;
  onChanged: (event: "published" | "unpublished" | "muted" | "unmuted", track: LocalTrack) => void;
  /** A device could not be opened; whoever asked for it is told, too. */
  onDeviceFailed: (error: StoaError) => void;
  onError: (error: StoaError) => void;
};

/** You: what you publish, and what you may. */
export class LocalParticipant {
  /** What is being published. */
  readonly tracks = new Set<LocalTrack>();
  /** As the token names you. */
  identity = "";
  /** What the others see of you beside your identity: what your backend has signed, or `setMetadata`. */
  metadata: string | null = null;
  /** For people to read, as your backend has signed it. */
  name: string | null = null;
  /** What the others see of you by name, as your backend has signed it. */
  attributes: Readonly<Record<string, string>> = {};
  /** What the token allows; null before the room is joined. */
  permissions: Permissions | null = null;
  readonly #deps: LocalDeps;

  /** @internal */
  constructor(deps: LocalDeps) {
    this.#deps = deps;
  }

  /** The track of a source: `localParticipant.track("camera")`. */
  track(source: TrackSource): LocalTrack | undefined {
    return [...this.tracks].find((track) => track.source === source);
  }

  /** Opens the camera and publishes it; one that is published already is unmuted. */
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
        ...exact(deviceId),
      },
    });
    return this.publish(track, { ...publish, source: "camera" });
  }

  /** Opens the microphone and publishes it; one that is published already is unmuted. */
  async enableMicrophone(options: MicrophoneOptions = {}): Promise<LocalTrack> {
    const known = this.track("microphone");
    if (known) return this.mute(known, false);
    requirePublish(this.permissions, "audio");
    const { deviceId, constraints, ...publish } = options;
    const audio = {
      echoCancellation: true,
      noiseSuppression: true,
      autoGainControl: true,
      ...constraints,
      ...exact(deviceId),
    };
    return this.publish(await this.#capture({ audio }), { ...publish, source: "microphone" });
  }

  /** The screen the user picks; its sound too where the browser offers it. */
  async shareScreen({ audio = true, ...publish }: ScreenOptions = {}): Promise<LocalTrack> {
    requirePublish(this.permissions, "video");
    const tracks = await captureScreen({ video: { frameRate: 15 }, audio: audio && MUSIC });
    const [sound] = tracks.filter(({ kind }) => kind === "audio");
    const [picture] = tracks.filter(({ kind }) => kind === "video");
    if (!picture) throw new StoaError("NO_SCREEN", "device-not-found", "No screen was chosen.");
    picture.contentHint ||= "detail";
    if (sound) await this.publish(sound, { source: "screenShareAudio" });
    return this.publish(picture, { ...publish, source: "screenShare" });
  }

  /** Stops the camera: its light goes out. */
  async disableCamera(): Promise<void> {
    await this.#unpublishSource("camera");
  }

  /** Stops the microphone. For a short silence `mute` is faster. */
  async disableMicrophone(): Promise<void> {
    await this.#unpublishSource("microphone");
  }

  /** Stops sharing the screen, and its sound. */
  async stopScreen(): Promise<void> {
    await this.#unpublishSource("screenShare");
    await this.#unpublishSource("screenShareAudio");
  }

  /** Any track of the page's own: a canvas, a file, a processed camera. */
  async publish(mediaStreamTrack: MediaStreamTrack, options: PublishOptions = {}): Promise<LocalTrack> {
    requirePublish(this.permissions, mediaStreamTrack.kind as LocalTrack["kind"]);
    const track = new LocalTrack(mediaStreamTrack, options);
    this.tracks.add(track);
    try {
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

  /** Stops the track and takes it away from everyone who watches. */
  async unpublish(track: LocalTrack): Promise<void> {
    if (!this.tracks.delete(track)) return;
    track.close();
    await this.#deps.unpublish(track);
    this.#deps.onChanged("unpublished", track);
  }

  /** Muted, the device stays open and nothing is sent of it; unmuting takes no permission prompt. */
  async mute(track: LocalTrack, muted = true): Promise<LocalTrack> {
    if (track.muted === muted) return track;
    track.muted = muted;
    track.mediaStreamTrack.enabled = !muted;
    this.#deps.onChanged(muted ? "muted" : "unmuted", track);
    await this.#deps.syncMute(track);
    return track;
  }

  /** Another camera or microphone, while publishing: viewers keep watching the same track. */
  async switchDevice(kind: Extract<DeviceKind, "audioinput" | "videoinput">, deviceId: string): Promise<void> {
    const track = this.track(kind === "videoinput" ? "camera" : "microphone");
    if (!track) throw new StoaError("NOT_PUBLISHED", "invalid", "Nothing of that kind is being published.");
    const constraints = { ...track.mediaStreamTrack.getConstraints(), deviceId: { exact: deviceId } };
    const wanted = kind === "videoinput" ? { video: constraints } : { audio: constraints };
    try {
      await track.replace(await capture(wanted));
    } catch (error) {
      // Phones open one camera at a time.
      if ((error as StoaError).reason !== "device-in-use") throw error;
      track.mediaStreamTrack.stop();
      await track.replace(await capture(wanted));
    }
    this.#followDevice(track);
  }

  /** Tells everyone something about you; needs the permission `updateMetadata`. */
  async setMetadata(metadata: string | null): Promise<void> {
    await this.#deps.setMetadata(metadata);
    this.metadata = metadata;
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

  /** A device that is pulled out is replaced by the default one; a screen that is no longer shared is unpublished. */
  #followDevice(track: LocalTrack): void {
    track.mediaStreamTrack.addEventListener("ended", () => void this.#deviceEnded(track), { once: true });
  }

  async #deviceEnded(track: LocalTrack): Promise<void> {
    if (!this.tracks.has(track)) return;
    try {
      if (track.source !== "camera" && track.source !== "microphone") return await this.unpublish(track);
      const { deviceId: _, ...wanted } = track.mediaStreamTrack.getConstraints();
      await track.replace(await capture({ [track.kind]: wanted }));
      this.#followDevice(track);
    } catch (error) {
      this.#deps.onError(error as StoaError);
      await this.unpublish(track).catch(() => {});
    }
  }
}

/** A screen's sound is no voice: what cleans a microphone spoils it. */
const MUSIC = { channelCount: 2, echoCancellation: false, noiseSuppression: false, autoGainControl: false };

function exact(deviceId: string | undefined): MediaTrackConstraints {
  return deviceId === undefined ? {} : { deviceId: { exact: deviceId } };
}
