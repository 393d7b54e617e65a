import type * as Sdk from "../../../web/sdk/index.ts";
import type { Scripted } from "./scripted.ts";
import type { Credentials } from "./stage.ts";

declare global {
  interface Window {
    sdk: typeof Sdk;
    room: Sdk.Room;
    chat: Sdk.Chat;
    conversation: Sdk.Conversation;
    seen: string[];
    heard: string[];
    states: string[];
    /** Calls the site's backend, if the test has one. */
    freshToken?: (kind: "rtc" | "chat") => Promise<string>;
  }
}

/** Joins with the SDK and plays every remote video in an element. At half the usual frame rate, a video takes half the CPU time. */
export async function joinRoom(
  page: Scripted,
  credentials: Credentials,
  publish: ("camera" | "microphone")[] = [],
  height = 720,
  frameRate = 15,
): Promise<void> {
  await page.evaluate(
    async ({ endpoint, token, publish, height, frameRate }) => {
      const path = "/sdk.js";
      window.sdk = await import(path);
      window.seen = [];
      window.states = [];
      const { freshToken } = window;
      const room = await window.sdk.connect(endpoint, token, {
        tokenProvider: freshToken && (() => freshToken("rtc")),
      });
      window.room = room;
      room.on("connectionStateChanged", (state) => window.states.push(state));
      room.on("participantJoined", ({ identity }) => window.seen.push(`joined ${identity}`));
      room.on("participantLeft", ({ identity }, reason) => window.seen.push(`left ${identity} ${reason}`));
      room.on("trackMuted", ({ source }, { identity }) => window.seen.push(`muted ${identity} ${source}`));
      room.on("trackUnmuted", ({ source }, { identity }) => window.seen.push(`unmuted ${identity} ${source}`));
      room.on("dataReceived", ({ from, topic, payload }) =>
        window.seen.push(`data ${from} ${topic} ${payload.length}`),
      );
      room.on("error", ({ code, message }) => window.seen.push(`error ${code} ${message}`));
      room.on("trackSubscribed", (track, { identity }) => {
        if (track.kind !== "video") return;
        const element = track.attach();
        element.id = `${identity}-${track.source}`;
        element.style.cssText = "display:block;width:640px;height:360px";
        document.body.append(element);
      });
      room.on("trackUnsubscribed", ({ source }, { identity }) =>
        document.getElementById(`${identity}-${source}`)?.remove(),
      );
      if (publish.includes("camera")) {
        await room.localParticipant.enableCamera({ height, width: (height * 16) / 9, frameRate });
      }
      if (publish.includes("microphone")) await room.localParticipant.enableMicrophone();
    },
    { ...credentials, publish, height, frameRate },
  );
}

/** Opens the chat with the SDK; `heard` collects the text of every `message` event. */
export async function joinChat(page: Scripted, credentials: Credentials, room: string): Promise<void> {
  await page.evaluate(
    async ({ endpoint, token, room }) => {
      const path = "/sdk.js";
      window.sdk = await import(path);
      window.heard = [];
      window.states = [];
      const { freshToken } = window;
      window.chat = await window.sdk.connectChat(endpoint, token, {
        tokenProvider: freshToken && (() => freshToken("chat")),
      });
      window.chat.on("connectionStateChanged", (state) => window.states.push(state));
      window.conversation = await window.chat.join(room);
      window.conversation.on("message", ({ text }) => window.heard.push(text ?? ""));
    },
    { ...credentials, room },
  );
}

/** The texts of the messages on the page, in order. */
export function messageTexts(page: Scripted): Promise<string[]> {
  return page.evaluate(() => window.conversation.messages.map(({ text, status }) => `${text} (${status})`), undefined);
}

/** The number of frames that the element has shown; 0 if there is no such element. */
export function framesShown(page: Scripted, id: string): Promise<number> {
  return page.evaluate((id) => {
    const element = document.getElementById(id) as HTMLVideoElement | null;
    return element?.getVideoPlaybackQuality().totalVideoFrames ?? 0;
  }, id);
}

/** Resolves when the element has shown `count` more frames; a replacement element counts from zero. */
export async function waitForFrames(page: Scripted, id: string, count = 15, timeoutMs = 20_000): Promise<void> {
  await page.waitForFunction(
    ({ id, count, mark }) => {
      const element = document.getElementById(id) as HTMLVideoElement | null;
      if (!element) return false;
      // Firefox has its own name for the number of frames.
      const { mozPaintedFrames = 0 } = element as { mozPaintedFrames?: number };
      const shown = Math.max(element.getVideoPlaybackQuality().totalVideoFrames, mozPaintedFrames);
      const from = Math.min(Number(element.getAttribute(mark) ?? shown), shown);
      element.setAttribute(mark, String(from));
      return shown - from >= count;
    },
    { id, count, mark: `data-${crypto.randomUUID()}` },
    { timeout: timeoutMs, polling: 100 },
  );
}

/** Watches the frames of elements; the returned function ends that and says how long one of them showed none, at most. */
export async function watchFrames(page: Scripted, ids: string[]): Promise<() => Promise<number>> {
  await page.evaluate((ids) => {
    const watch = { isOver: false, longest: 0, shown: new Map<string, number>() };
    Object.assign(window, { watch });
    for (const id of ids) {
      const video = document.getElementById(id) as HTMLVideoElement;
      watch.shown.set(id, performance.now());
      const shown = () => {
        if (watch.isOver) return;
        const now = performance.now();
        watch.longest = Math.max(watch.longest, now - (watch.shown.get(id) ?? now));
        watch.shown.set(id, now);
        video.requestVideoFrameCallback(shown);
      };
      video.requestVideoFrameCallback(shown);
    }
  }, ids);
  return () =>
    page.evaluate(() => {
      const { watch } = window as unknown as {
        watch: { isOver: boolean; longest: number; shown: Map<string, number> };
      };
      watch.isOver = true;
      return Math.round(Math.max(watch.longest, performance.now() - Math.min(...watch.shown.values())));
    }, undefined);
}

/** Resolves when remote audio arrives. */
export async function receivesAudio(page: Scripted, timeoutMs = 20_000): Promise<void> {
  await page.waitForFunction(
    async () => {
      const stats = await window.room.getStats();
      return stats?.tracks.some(({ direction, kind, bps }) => direction === "in" && kind === "audio" && (bps ?? 0) > 0);
    },
    undefined,
    { timeout: timeoutMs, polling: 300 },
  );
}

/** Resolves when the page has logged the line. */
export async function waitForLine(page: Scripted, line: string, timeoutMs = 60_000): Promise<void> {
  await page.waitForFunction((line) => window.seen.includes(line), line, { timeout: timeoutMs, polling: 100 });
}

/** Resolves when the height of the element's video is between the two. */
export async function waitForVideoHeight(
  page: Scripted,
  id: string,
  [least, most]: [number, number],
  timeoutMs = 60_000,
) {
  await page.waitForFunction(
    ({ id, least, most }) => {
      const height = (document.getElementById(id) as HTMLVideoElement | null)?.videoHeight ?? 0;
      return height >= least && height <= most;
    },
    { id, least, most },
    { timeout: timeoutMs, polling: 100 },
  );
}
