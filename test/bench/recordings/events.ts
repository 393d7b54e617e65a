/** Events that may happen to a participant in the middle of a recording. */
import type { VideoCodec } from "../../../web/sdk/room/peer/codecs.ts";
import type { Scripted } from "../../e2e/sdk/scripted.ts";
import { publishShow, type ShowOptions, type Size } from "../../features/recordings/flash-and-beep.ts";
import { enter } from "./person.ts";
import type { BrowserName, RecordedRooms } from "./recorded-room.ts";
import { CAME } from "./told.ts";

const SMALL: Size = { width: 160, height: 90 };
const MUTED_MS = 5_000;
const AWAY_MS = 3_000;
const LOWER_MS = 5_000;
/** The codec with which the camera continues. */
export const CHANGED_CODEC: VideoCodec = "VP9";
/** Two sizes: browsers send a second one only of video that is large enough. */
const TWO_SIZES: RTCRtpEncodingParameters[] = [
  { rid: "q", scaleResolutionDownBy: 2, maxBitrate: 150_000 },
  { rid: "f", maxBitrate: 500_000 },
];

type Happening = {
  size: Size;
  how: ShowOptions;
  /** What the timeline contains about it, besides what it contains about all participants. */
  told(browser: BrowserName): readonly string[];
  happen(rooms: RecordedRooms, page: Scripted, roomId: string, identity: string, browser: BrowserName): Promise<void>;
};

export type EventName = "muted" | "away" | "smaller layer" | "other codec";

export const EVENTS: Record<EventName, Happening> = {
  muted: {
    size: SMALL,
    how: { codec: "VP8" },
    told: () => ["track.muted", "track.muted", "track.unmuted", "track.unmuted"],
    async happen(_rooms, page) {
      await page.evaluate(setMuted, true);
      await Bun.sleep(MUTED_MS);
      await page.evaluate(setMuted, false);
    },
  },
  away: {
    size: SMALL,
    how: { codec: "VP8" },
    told: () => ["participant.left", "track.unpublished", "track.unpublished", ...CAME],
    async happen(rooms, page, roomId, identity) {
      await page.evaluate(() => window.room.close(), undefined);
      await Bun.sleep(AWAY_MS);
      await enter(rooms, page, roomId, identity, { codec: "VP8" });
    },
  },
  "smaller layer": {
    size: { width: 640, height: 360 },
    how: { codec: "VP8", encodings: TWO_SIZES },
    told: () => [],
    async happen(_rooms, page) {
      await page.evaluate(setLargest, false);
      await Bun.sleep(LOWER_MS);
      await page.evaluate(setLargest, true);
    },
  },
  "other codec": {
    size: SMALL,
    how: { codec: "VP8" },
    told: (browser) =>
      browser === "Firefox" ? ["track.unpublished", "track.unpublished", "track.published", "track.published"] : [],
    async happen(_rooms, page, _roomId, _identity, browser) {
      // Firefox cannot change the codec of a running track, so it publishes another track.
      if (browser === "Firefox") {
        await page.evaluate(unpublishAll, undefined);
        await page.evaluate(publishShow, { codec: CHANGED_CODEC });
      } else await page.evaluate(changeCodec, CHANGED_CODEC);
    },
  },
};

async function setMuted(muted: boolean): Promise<void> {
  const { localParticipant } = window.room;
  for (const track of localParticipant.tracks) await localParticipant.mute(track, muted);
}

async function unpublishAll(): Promise<void> {
  const { localParticipant } = window.room;
  for (const track of [...localParticipant.tracks]) await localParticipant.unpublish(track);
}

async function setLargest(active: boolean): Promise<void> {
  const sender = window.room.localParticipant.track("camera")?.sender;
  const parameters = sender?.getParameters();
  const largest = parameters?.encodings.find(({ rid }) => rid === "f");
  if (!sender || !parameters || !largest) throw new Error("the camera has no layers");
  largest.active = active;
  await sender.setParameters(parameters);
}

async function changeCodec(name: VideoCodec): Promise<void> {
  const sender = window.room.localParticipant.track("camera")?.sender;
  const parameters = sender?.getParameters();
  const codec = parameters?.codecs.find(({ mimeType }) => mimeType === `video/${name}`);
  if (!sender || !parameters || !codec) throw new Error(`${name} was not agreed on`);
  for (const encoding of parameters.encodings) Object.assign(encoding, { codec });
  await sender.setParameters(parameters);
}
