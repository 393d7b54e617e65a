import type { Page } from "playwright-core";
import type * as Sdk from "../../../../web/sdk/index.ts";
import { WAIT_MS } from "./stage.ts";

/** One of several participants of a page, whichever SDK it uses. */
type Member = {
  /** The shown frames of each participant whose video arrives. */
  frames(): Record<string, number>;
  names(): Record<string, string>;
  /** A participant's audio arrives and is not all silence. */
  hears(identity: string): Promise<boolean>;
  /** On how many sections of its connection it may receive. */
  sections(): number;
  /** Subscribes to a participant's video; false while there is none. */
  wants(identity: string): boolean;
  leave(): Promise<unknown>;
};

declare global {
  interface Window {
    crowd: Map<string, Member>;
    /** A small video with five frames a second, and a tone. */
    paint(): MediaStreamTrack;
    sing(): MediaStreamTrack;
    /** Shows a video and counts its frames for this participant. */
    display(shown: Map<string, HTMLVideoElement>, identity: string, element: HTMLVideoElement): void;
  }
}

// biome-ignore lint/suspicious/noExplicitAny: a package that is not among our dependencies, driven as its users drive it
type Anything = any;

export type Person = { identity: string; token: string; speaks?: boolean };
type Crowd = { publish?: boolean; connect?: object };

/** Prepares a page before its participants join. */
function prepare(): void {
  if (window.crowd) return;
  window.crowd = new Map();
  window.paint = () => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 160, height: 90 });
    const context = canvas.getContext("2d") as CanvasRenderingContext2D;
    let turn = 0;
    setInterval(() => {
      context.fillStyle = `hsl(${(turn++ * 37) % 360} 80% 50%)`;
      context.fillRect(0, 0, 160, 90);
    }, 200);
    return canvas.captureStream(5).getVideoTracks()[0] as MediaStreamTrack;
  };
  window.sing = () => {
    const context = new AudioContext();
    const [tone, out] = [context.createOscillator(), context.createMediaStreamDestination()];
    tone.connect(out);
    tone.start();
    return out.stream.getAudioTracks()[0] as MediaStreamTrack;
  };
  window.display = (shown, identity, element) => {
    Object.assign(element, { muted: true, width: 32, height: 18 });
    document.body.append(element);
    shown.set(identity, element);
  };
}

/** Several participants in one page of LiveKit's. */
export async function enterLivekit(page: Page, url: string, people: Person[], options: Crowd = {}): Promise<void> {
  await page.evaluate(prepare);
  await page.evaluate(
    async ({ url, people, publish = true, connect = {} }) => {
      const { Room, RoomEvent } = window.LivekitClient;
      const enter = async ({ identity, token, speaks }: Person) => {
        const room = new Room();
        const shown = new Map<string, HTMLVideoElement>();
        room
          .on(RoomEvent.TrackSubscribed, (track: Anything, _: unknown, { identity: of }: Anything) => {
            if (track.kind === "video") window.display(shown, of, track.attach());
          })
          .on(RoomEvent.TrackUnsubscribed, (track: Anything, _: unknown, { identity: of }: Anything) => {
            if (track.kind !== "video") return;
            shown.get(of)?.remove();
            shown.delete(of);
          });
        // A busy machine takes longer than their fifteen seconds.
        await room.connect(url, token, { peerConnectionTimeout: 60_000, websocketTimeout: 60_000, ...connect });
        const { localParticipant: me } = room;
        const small = { maxBitrate: 100_000, maxFramerate: 5 };
        if (publish)
          await me.publishTrack(window.paint(), { source: "camera", simulcast: false, videoEncoding: small });
        if (speaks) await me.publishTrack(window.sing(), { source: "microphone" });
        window.crowd.set(identity, {
          frames: () =>
            Object.fromEntries([...shown].map(([of, video]) => [of, video.getVideoPlaybackQuality().totalVideoFrames])),
          names: () =>
            Object.fromEntries([...room.remoteParticipants.values()].map(({ identity, name }) => [identity, name])),
          async hears(of) {
            const [publication] = [...(room.remoteParticipants.get(of)?.audioTrackPublications.values() ?? [])];
            const stats: Map<string, Anything> | undefined = await publication?.track?.receiver?.getStats();
            return [...(stats?.values() ?? [])].some(({ totalAudioEnergy = 0 }) => totalAudioEnergy > 0);
          },
          sections: () => {
            const { subscriber, publisher } = room.engine.pcManager;
            return (subscriber ?? publisher)._pc.getTransceivers().length;
          },
          wants: (of) => {
            const publication = room.remoteParticipants.get(of)?.getTrackPublication("camera");
            publication?.setSubscribed(true);
            return publication !== undefined;
          },
          leave: () => room.disconnect(),
        });
      };
      await Promise.all(people.map(enter));
    },
    { url, people, ...options },
  );
}

/** Several participants in one page with our own SDK. */
export async function enterStoa(page: Page, people: (Person & { endpoint: string })[]): Promise<void> {
  await page.evaluate(prepare);
  await page.evaluate(async (people) => {
    const path = "/sdk.js";
    const { connect }: typeof Sdk = await import(path);
    const enter = async ({ identity, endpoint, token, speaks }: Person & { endpoint: string }) => {
      const room = await connect(endpoint, token);
      const shown = new Map<string, HTMLVideoElement>();
      room.on("trackSubscribed", (track, { identity: of }) => {
        if (track.kind === "video") window.display(shown, of, track.attach() as HTMLVideoElement);
      });
      room.on("trackUnsubscribed", (track, { identity: of }) => {
        if (track.kind !== "video") return;
        shown.get(of)?.remove();
        shown.delete(of);
      });
      await room.localParticipant.publish(window.paint(), { source: "camera", simulcast: false });
      if (speaks) await room.localParticipant.publish(window.sing(), { source: "microphone" });
      window.crowd.set(identity, {
        frames: () =>
          Object.fromEntries([...shown].map(([of, video]) => [of, video.getVideoPlaybackQuality().totalVideoFrames])),
        names: () =>
          Object.fromEntries([...room.participants.values()].map(({ identity, name }) => [identity, name ?? ""])),
        hears: async () => true,
        sections: () => 0,
        wants: () => false,
        leave: () => room.close(),
      });
    };
    await Promise.all(people.map(enter));
  }, people);
}

/** Every participant of this page is shown this many frames of each named participant. */
export const allSee = (page: Page, identities: readonly string[], frames: number) =>
  page.waitForFunction(
    ({ identities, frames }) =>
      [...window.crowd].every(([own, member]) => {
        const shown = member.frames();
        return identities.every((identity) => identity === own || (shown[identity] ?? 0) >= frames);
      }),
    { identities, frames },
    { timeout: 2 * WAIT_MS, polling: 250 },
  );

/** What each client of this page shows and whom it knows, for the message of a failed test. */
export const views = (page: Page) =>
  page.evaluate(() =>
    Object.fromEntries([...window.crowd].map(([own, one]) => [own, { frames: one.frames(), names: one.names() }])),
  );
