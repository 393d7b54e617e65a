/** join: from the opening of the socket to the first decoded frame of somebody else, in Chromium */
import { chromium } from "playwright-core";
import { openStage } from "../e2e/media/rtc-harness.ts";
import { JOIN_STAGES, type JoinMarks } from "../e2e/media/timed-join.ts";
import { joinRoom, waitForFrames } from "../e2e/sdk/page-api.ts";
import { openStage as openSite } from "../e2e/sdk/stage.ts";
import { createApi } from "../harness/api.ts";
import { CHROMIUM } from "../harness/browsers.ts";
import { median, percentile, report } from "./harness/report.ts";

const joins = Number(process.argv[2] ?? 30);
/** Compiles code and fills caches on both sides; what counts is a server that has been up for a while. */
const WARM_UP = 3;
const PUBLISH = ["camera", "microphone"] as const;

const site = await openSite({ SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 10_000, RATE_LIMIT_RTC_TOKENS: 10_000 });
const { id: roomId } = await site.stoa.rooms.create({ name: "join" });
const publisher = await site.page();
await joinRoom(publisher, await site.rtc(roomId, "ann"), [...PUBLISH], 720, 30);

/** Joins that follow each other closely would share a keyframe: they are kept apart, and off the publisher's frame rate. */
async function repeat<T>(join: () => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  for (let run = 0; run < joins + WARM_UP; run++) {
    results.push(await join());
    await Bun.sleep(600 + (run % 7) * 50);
  }
  return results.slice(WARM_UP);
}

/** The protocol as it is, without the SDK. */
async function byProtocol(): Promise<JoinMarks[]> {
  const browser = await chromium.launch(CHROMIUM);
  const stage = await openStage(createApi(site.server.url, site.server.apiKey));
  const viewer = await stage.page(browser);
  const marks = await repeat(async () => {
    const { token } = await site.stoa.rtcTokens.mint(roomId, { participantIdentity: "viewer" });
    return viewer.evaluate(([url, credential]) => window.timedJoin(url, credential, "ann"), [
      stage.endpoint,
      token,
    ] as const);
  });
  await browser.close();
  await stage.close();
  return marks;
}

/** Joins like an application, until an element shows the video. */
async function bySdk(): Promise<number[]> {
  const viewer = await site.page();
  await joinRoom(viewer, await site.rtc(roomId, "viewer"));
  await waitForFrames(viewer, "ann-camera");
  await viewer.evaluate(() => window.room.close());
  const times = await repeat(async () =>
    viewer.evaluate(
      async ({ endpoint, token }) => {
        const startedAt = performance.now();
        const room = await window.sdk.connect(endpoint, token);
        const tookMs = await new Promise<number>((resolve) => {
          room.on("trackSubscribed", (track) => {
            if (track.kind !== "video") return;
            const element = track.attach() as HTMLVideoElement;
            document.body.append(element);
            element.requestVideoFrameCallback(() => resolve(performance.now() - startedAt));
          });
        });
        await room.close();
        document.body.replaceChildren();
        return tookMs;
      },
      await site.rtc(roomId, "viewer"),
    ),
  );
  return times;
}

const marks = await byProtocol();
const shown = await bySdk();
await site.close();

const decoded = marks.map((mark) => mark.decoded);
const since = (mark: JoinMarks, at: number) =>
  mark[JOIN_STAGES[at] ?? "opened"] - (at === 0 ? 0 : mark[JOIN_STAGES[at - 1] ?? "opened"]);
report(
  "join",
  [
    { what: `to the first decoded frame, p50 of ${joins}`, value: median(decoded), unit: "ms", goal: { atMost: 300 } },
    { what: "to the first decoded frame, p95", value: percentile(decoded, 0.95), unit: "ms", goal: { atMost: 600 } },
    ...JOIN_STAGES.map((stage, at) => ({
      what: `  of which until ${stage}`,
      value: median(marks.map((mark) => since(mark, at))),
      unit: "ms",
    })),
    { what: "with the SDK, until an element shows it, p50", value: median(shown), unit: "ms", goal: { atMost: 300 } },
    {
      what: "with the SDK, until an element shows it, p95",
      value: percentile(shown, 0.95),
      unit: "ms",
      goal: { atMost: 600 },
    },
  ],
  { decodedMs: decoded.map(Math.round), shownMs: shown.map(Math.round) },
);
