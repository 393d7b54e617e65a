import { describe, expect, test } from "bun:test";
import { LocalTrack } from "../../../web/sdk/room/local-track.ts";
import type { TrackProcessor } from "../../../web/sdk/room/track-processor.ts";

const CONTEXT = { serverUrl: "https://rtc.example.com" };

/** A media track that remembers whether it is enabled and stopped. */
function mediaTrack(name: string): MediaStreamTrack {
  const track = {
    kind: "audio",
    label: name,
    enabled: true,
    readyState: "live",
    getSettings: () => ({}),
    stop: () => {
      track.readyState = "ended";
    },
  };
  return track as unknown as MediaStreamTrack;
}

function recorder(name: string, seen: string[], before: Promise<unknown> = Promise.resolve()): TrackProcessor {
  return {
    async init(track, { serverUrl }) {
      seen.push(`init ${name} ${track.label} ${serverUrl}`);
      await before;
      return mediaTrack(`${track.label} by ${name}`);
    },
    destroy: () => void seen.push(`destroy ${name}`),
  };
}

function published(seen: string[]): LocalTrack {
  const track = new LocalTrack(mediaTrack("device"), {}, CONTEXT);
  const sender = { replaceTrack: async ({ label }: MediaStreamTrack) => void seen.push(`send ${label}`) };
  track.sender = sender as unknown as RTCRtpSender;
  return track;
}

describe("a processor of a local track", () => {
  test("gets the device's track and the server, and its track is sent", async () => {
    const seen: string[] = [];
    const track = published(seen);
    await track.setProcessor(recorder("a", seen));
    expect(seen).toEqual(["init a device https://rtc.example.com", "send device by a"]);
    expect(track.sourceTrack.label).toBe("device");
  });

  test("ends only after the next one sends, and the device stays open", async () => {
    const seen: string[] = [];
    const track = published(seen);
    await track.setProcessor(recorder("a", seen));
    await track.setProcessor(recorder("b", seen));
    await track.setProcessor(null);
    expect(seen.slice(2).filter((line) => !line.startsWith("init"))).toEqual([
      ...["send device by b", "destroy a"],
      ...["send device", "destroy b"],
    ]);
    expect(track.sourceTrack.readyState).toBe("live");
  });

  test("changes nothing when it cannot start", async () => {
    const seen: string[] = [];
    const track = published(seen);
    await track.setProcessor(recorder("a", seen));
    const failing = {
      init: () => Promise.reject(new Error("too slow")),
      destroy: () => void seen.push("destroy failing"),
    };
    await expect(track.setProcessor(failing)).rejects.toThrow("too slow");
    expect(track.mediaStreamTrack.label).toBe("device by a");
    expect(seen).not.toContain("destroy a");
  });

  test("starts again for another device, muted as before", async () => {
    const seen: string[] = [];
    const track = published(seen);
    await track.setProcessor(recorder("a", seen));
    track.setMuted(true);
    const before = track.sourceTrack;
    await track.replace(mediaTrack("headset"));
    expect(seen.slice(2)).toEqual([...["destroy a", "init a headset https://rtc.example.com"], "send headset by a"]);
    expect(before.readyState).toBe("ended");
    expect([track.sourceTrack.enabled, track.mediaStreamTrack.enabled]).toEqual([false, false]);
  });

  test("is ended when the track was unpublished while it loaded", async () => {
    const seen: string[] = [];
    const track = published(seen);
    const loaded = Promise.withResolvers<void>();
    const starting = track.setProcessor(recorder("a", seen, loaded.promise));
    track.close();
    loaded.resolve();
    await starting;
    expect(seen).toContain("destroy a");
    expect([track.sourceTrack.readyState, track.mediaStreamTrack.readyState]).toEqual(["ended", "ended"]);
  });
});
