import type { Scripted } from "../../../e2e/sdk/scripted.ts";
import { patiently } from "./patience.ts";
import { WAIT_MS } from "./stage.ts";

// biome-ignore lint/suspicious/noExplicitAny: a package that is not among our dependencies, driven as its users drive it
export type Anything = any;

declare global {
  interface Window {
    /** The rooms that this page has joined, by the identity under which it did. */
    rooms: Record<string, Anything>;
    /** Every event of a room with its arguments, as one line: `participantConnected ben`. */
    lines: Record<string, string[]>;
    /** The warnings and errors that the clients of this page have logged. */
    complaints: string[];
    enter(identity: string, url: string, token: string, options?: EnterOptions): Promise<void>;
    /** A small video with ten frames a second. */
    painted(width: number, height: number): MediaStreamTrack;
    /** The same, of random pixels, for which every encoder needs as many bits as it may use. */
    noise(width: number, height: number): MediaStreamTrack;
    /** What the browser's fake microphone plays. */
    tone(): Promise<MediaStreamTrack>;
    /** A figure of what arrives, as in the statistics of `inbound-rtp`. */
    counted(identity: string, of: string, source: string, field: string): Promise<number>;
    /** Resolves once more frames of a participant's video, and more packets of its audio, have arrived. */
    flows(identity: string, of: string): Promise<void>;
    publication(identity: string, of: string, source: string): Anything;
    /** Is called with each room before it connects. */
    prepareRoom(identity: string, room: Anything): void;
  }
}

type EnterOptions = { room?: object; connect?: object; publish?: boolean };

/** Prepares a page for participants of its own, several of whom may be in one room. */
export const prepare = (page: Scripted) =>
  page.evaluate(() => {
    const { LivekitClient } = window;
    const { Room, RoomEvent } = LivekitClient;
    const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
    const described = (value: Anything): string => {
      if (value instanceof Uint8Array) return value.length > 40 ? `${value.length} bytes` : String(value);
      if (Array.isArray(value)) return value.map(described).join();
      if (value === null || typeof value !== "object") return String(value);
      return value.identity ?? value.source ?? JSON.stringify(value);
    };
    window.prepareRoom = () => {};
    window.rooms = {};
    window.lines = {};
    window.complaints = [];
    const { warn, error } = LivekitClient.LogLevel;
    LivekitClient.setLogExtension((level: number, text: string, context?: Anything) => {
      if (level === warn || level === error) window.complaints.push([text, context?.error].filter(Boolean).join(": "));
    });
    type Paint = (surface: CanvasRenderingContext2D, frame: number) => void;
    const video = (width: number, height: number, paint: Paint) => {
      const canvas = Object.assign(document.createElement("canvas"), { width, height });
      const surface = canvas.getContext("2d") as CanvasRenderingContext2D;
      let frame = 0;
      setInterval(() => paint(surface, frame++), 100);
      return canvas.captureStream(10).getVideoTracks()[0] as MediaStreamTrack;
    };
    window.painted = (width, height) =>
      video(width, height, (surface, frame) => {
        surface.fillStyle = `hsl(${frame * 7} 80% 50%)`;
        surface.fillRect(0, 0, width, height);
      });
    window.noise = (width, height) => {
      const image = new ImageData(width, height);
      return video(width, height, (surface) => {
        crypto.getRandomValues(image.data);
        for (let alpha = 3; alpha < image.data.length; alpha += 4) image.data[alpha] = 255;
        surface.putImageData(image, 0, 0);
      });
    };
    window.tone = async () => {
      const unprocessed = { echoCancellation: false, noiseSuppression: false, autoGainControl: false };
      const stream = await navigator.mediaDevices.getUserMedia({ audio: unprocessed });
      return stream.getAudioTracks()[0] as MediaStreamTrack;
    };
    window.enter = async (identity, url, token, { room: options, connect, publish } = {}) => {
      const room = new Room(options);
      const lines: string[] = [];
      window.rooms[identity] = room;
      window.lines[identity] = lines;
      for (const event of Object.values(RoomEvent) as string[])
        room.on(event, (...args: unknown[]) => lines.push([event, ...args.map(described)].join(" ")));
      window.prepareRoom(identity, room);
      const { localParticipant: me } = room;
      try {
        // The time limits of the client are meant for networks, not for a machine that is busy with other tests.
        await room.connect(url, token, { peerConnectionTimeout: 60_000, websocketTimeout: 60_000, ...connect });
        if (!publish) return;
        await me.publishTrack(window.painted(160, 90), { source: "camera", simulcast: false });
        await me.publishTrack(await window.tone(), { source: "microphone" });
      } catch (error) {
        await room.disconnect();
        throw error;
      }
    };
    window.publication = (identity, of, source) =>
      window.rooms[identity].remoteParticipants.get(of)?.getTrackPublication(source);
    const receiverOf = (identity: string, of: string, source: string): RTCRtpReceiver | undefined =>
      window.publication(identity, of, source)?.track?.receiver;
    window.counted = async (identity, of, source, field) => {
      const stats = (await receiverOf(identity, of, source)?.getStats()) as Map<string, Anything> | undefined;
      return [...(stats?.values() ?? [])].find(({ type }) => type === "inbound-rtp")?.[field] ?? 0;
    };
    const grows = async (identity: string, of: string, source: string, field: string) => {
      let first: RTCRtpReceiver | undefined;
      let from = 0;
      for (const deadline = Date.now() + 60_000; Date.now() < deadline; await wait(100)) {
        const receiver = receiverOf(identity, of, source);
        const count = await window.counted(identity, of, source, field);
        if (receiver !== first) [first, from] = [receiver, count];
        else if (receiver && count >= from + 5) return;
      }
      throw new Error(`${identity} does not get the ${source} of ${of}: ${JSON.stringify(window.lines[identity])}`);
    };
    window.flows = async (identity, of) => {
      await Promise.all([
        grows(identity, of, "camera", "framesDecoded"),
        grows(identity, of, "microphone", "packetsReceived"),
      ]);
    };
  }, undefined);

export const enter = (page: Scripted, identity: string, url: string, token: string, options: EnterOptions = {}) =>
  patiently(() =>
    page.evaluate(({ identity, url, token, options }) => window.enter(identity, url, token, options), {
      identity,
      url,
      token,
      options,
    }),
  );

/** A participant's room has emitted an event that starts like this. */
export async function emitted(page: Scripted, identity: string, line: string, timeout = WAIT_MS): Promise<void> {
  try {
    await page.waitForFunction(
      ({ identity, line }) => window.lines[identity]?.some((one) => one === line || one.startsWith(`${line} `)),
      { identity, line },
      { timeout },
    );
  } catch (error) {
    const lines = await page.evaluate((identity) => window.lines[identity], identity);
    throw new Error(`${identity} has not got "${line}", but ${JSON.stringify(lines)}`, { cause: error });
  }
}

/** Both ways between participants of this page, video and audio arrive now; `known` is their identities if they differ. */
export const exchange = (page: Scripted, one: string, other: string, known: Record<string, string> = {}) =>
  page.evaluate(
    async ({ one, other, known }) => {
      await Promise.all([window.flows(one, known[other] ?? other), window.flows(other, known[one] ?? one)]);
    },
    { one, other, known },
  );
