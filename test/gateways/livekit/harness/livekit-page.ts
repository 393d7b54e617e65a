import type { Scripted } from "../../../e2e/sdk/scripted.ts";
import { patiently } from "./patience.ts";
import { WAIT_MS } from "./stage.ts";

/** The parts of `livekit-client` that the tests use in a page. */
// biome-ignore lint/suspicious/noExplicitAny: a package that is not among our dependencies, driven as its users drive it
type Anything = any;

declare global {
  interface Window {
    LivekitClient: Anything;
    livekit: Anything;
    events: string[];
    texts: string[];
  }
}

type JoinOptions = {
  publish?: boolean;
  room?: object;
  connect?: object;
  /** Encrypts everything from end to end with this key. */
  key?: string;
};

/** Joins as a user's page would: every remote video is shown in an element. */
export async function joinLivekit(
  page: Scripted,
  url: string,
  token: string,
  options: JoinOptions = {},
): Promise<void> {
  const join = () =>
    page.evaluate(
      async ({ url, token, publish = true, room: roomOptions = {}, connect = {}, key }) => {
        const { Room, RoomEvent, ExternalE2EEKeyProvider } = window.LivekitClient;
        const keyProvider = key === undefined ? null : new ExternalE2EEKeyProvider();
        const { src } = document.querySelector("script") as HTMLScriptElement;
        const worker = () => new Worker(src.replace("umd.js", "e2ee.worker.js"));
        // A small one, in two sizes: to compress a large one costs a test most of its time.
        const videoCaptureDefaults = { resolution: { width: 640, height: 360, frameRate: 15 } };
        const room = new Room({
          videoCaptureDefaults,
          ...roomOptions,
          ...(keyProvider && { encryption: { keyProvider, worker: worker() } }),
        });
        window.livekit = room;
        window.events = [];
        window.texts = [];
        const note = (event: string) => window.events.push(event);
        const shown = (publication: Anything, participant: Anything) => `${participant.identity} ${publication.source}`;
        room
          .on(RoomEvent.ParticipantConnected, (p: Anything) => note(`joined ${p.identity}`))
          .on(RoomEvent.ParticipantDisconnected, (p: Anything) => note(`left ${p.identity}`))
          .on(RoomEvent.TrackMuted, (pub: Anything, p: Anything) => note(`muted ${shown(pub, p)}`))
          .on(RoomEvent.TrackUnmuted, (pub: Anything, p: Anything) => note(`unmuted ${shown(pub, p)}`))
          .on(RoomEvent.TrackUnpublished, (pub: Anything, p: Anything) => note(`unpublished ${shown(pub, p)}`))
          .on(RoomEvent.ParticipantAttributesChanged, (changed: object, p: Anything) =>
            note(`attributes ${p.identity} ${JSON.stringify(changed)}`),
          )
          .on(RoomEvent.ParticipantMetadataChanged, (_: unknown, p: Anything) => note(`metadata ${p.metadata}`))
          .on(RoomEvent.ParticipantNameChanged, (name: string) => note(`name ${name}`))
          .on(RoomEvent.Reconnecting, () => note("reconnecting"))
          .on(RoomEvent.SignalReconnecting, () => note("signal reconnecting"))
          .on(RoomEvent.Reconnected, () => note("reconnected"))
          .on(RoomEvent.Disconnected, (reason: number) => note(`disconnected ${reason}`))
          .on(RoomEvent.DataReceived, (payload: Uint8Array, p: Anything, _: unknown, topic: string) =>
            window.texts.push(`${p?.identity} ${topic} ${new TextDecoder().decode(payload)}`),
          )
          .on(RoomEvent.TrackSubscribed, (track: Anything, pub: Anything, p: Anything) => {
            const element = track.attach();
            element.id = `${p.identity}-${pub.source}`;
            element.muted = track.kind === "video";
            document.body.append(element);
          })
          // The track has left its element by now: the page knows it by the name it gave it.
          .on(RoomEvent.TrackUnsubscribed, (_: Anything, pub: Anything, p: Anything) =>
            document.getElementById(`${p.identity}-${pub.source}`)?.remove(),
          );
        if (keyProvider) {
          await keyProvider.setKey(key);
          await room.setE2EEEnabled(true);
        }
        try {
          // The time limits of the client are meant for networks, not for a machine that is busy with other tests.
          await room.connect(url, token, { peerConnectionTimeout: 60_000, websocketTimeout: 60_000, ...connect });
          if (!publish) return;
          await room.localParticipant.setCameraEnabled(true);
          await room.localParticipant.setMicrophoneEnabled(true);
        } catch (error) {
          await room.disconnect();
          for (const element of document.querySelectorAll("video, audio")) element.remove();
          throw error;
        }
      },
      { url, token, ...options },
    );
  await patiently(join);
}

/**
 * Publishes a video of the page's own and the microphone. LiveKit's clients reopen the camera when they reconnect, and
 * Chromium's fake camera, which all pages share, may never deliver a frame again after that.
 */
export const publishCanvas = (page: Scripted) =>
  page.evaluate(async () => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 640, height: 360 });
    const context = canvas.getContext("2d") as CanvasRenderingContext2D;
    let frame = 0;
    setInterval(() => {
      context.fillStyle = `hsl(${frame++ * 7} 80% 50%)`;
      context.fillRect(0, 0, canvas.width, canvas.height);
    }, 50);
    const [video] = canvas.captureStream(20).getVideoTracks();
    const { localParticipant: me } = window.livekit;
    await me.publishTrack(video, { source: "camera" });
    await me.setMicrophoneEnabled(true);
  }, undefined);

/** How many frames of a participant's video were shown in this page, whichever SDK shows it. */
export const shownFrames = (page: Scripted, identity: string, source = "camera") =>
  page.evaluate((id) => {
    const video = document.getElementById(id) as (HTMLVideoElement & { mozPaintedFrames?: number }) | null;
    // Firefox counts the frames of a stream under a name of its own.
    return Math.max(video?.getVideoPlaybackQuality().totalVideoFrames ?? 0, video?.mozPaintedFrames ?? 0);
  }, `${identity}-${source}`);

/** Waits until fifteen of its frames were shown, or as many as given. */
export const sees = (page: Scripted, identity: string, source = "camera", frames = 15) =>
  page.waitForFunction(
    ({ id, frames }) => {
      const video = document.getElementById(id) as (HTMLVideoElement & { mozPaintedFrames?: number }) | null;
      const shown = Math.max(video?.getVideoPlaybackQuality().totalVideoFrames ?? 0, video?.mozPaintedFrames ?? 0);
      return shown >= frames;
    },
    { id: `${identity}-${source}`, frames },
    { timeout: WAIT_MS },
  );

/** A participant's audio arrives in this page: samples were played, and not all of them are silence. */
export const hears = (page: Scripted, identity: string) =>
  page.waitForFunction(
    async (identity) => {
      const participant = window.livekit.remoteParticipants.get(identity);
      const [publication] = [...(participant?.audioTrackPublications.values() ?? [])];
      const stats = await publication?.track?.receiver?.getStats();
      const inbound = [...(stats?.values() ?? [])].find(({ type }: { type: string }) => type === "inbound-rtp");
      return (inbound?.totalAudioEnergy ?? 0) > 0 && inbound.totalSamplesReceived > 24_000;
    },
    identity,
    { timeout: WAIT_MS },
  );

export const isGone = (page: Scripted, id: string) =>
  page.waitForFunction((id) => document.getElementById(id) === null, id, { timeout: WAIT_MS });

export const happened = (page: Scripted, event: string) =>
  page.waitForFunction((event) => window.events.includes(event), event, { timeout: WAIT_MS });

export const got = (page: Scripted, text: string) =>
  page.waitForFunction((text) => window.texts.includes(text), text, { timeout: WAIT_MS });

/** How many sections the connection has on which this page receives. */
export const sectionsOf = (page: Scripted) =>
  page.evaluate(() => {
    const { pcManager } = window.livekit.engine;
    const transport = pcManager.subscriber ?? pcManager.publisher;
    return transport._pc.getTransceivers().length as number;
  }, undefined);
