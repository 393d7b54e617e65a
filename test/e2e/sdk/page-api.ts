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
    /** Asks the site's backend, where a test has given it one. */
    freshToken?: (kind: "rtc" | "chat") => Promise<string>;
  }
}

/** Joins with the SDK as a page of a user would; every remote picture is shown in an element. */
export async function joinRoom(
  page: Scripted,
  credentials: Credentials,
  publish: ("camera" | "microphone")[] = [],
  height = 720,
  frameRate = 30,
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

/** Opens the chat as a page of a user would; `heard` gets the text of every `message` event, in order. */
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

/** What the page shows, top to bottom. */
export function shownTexts(page: Scripted): Promise<string[]> {
  return page.evaluate(() => window.conversation.messages.map(({ text, status }) => `${text} (${status})`), undefined);
}

/** Frames that the element has shown so far; 0 when there is no such element. */
export function framesShown(page: Scripted, id: string): Promise<number> {
  return page.evaluate((id) => {
    const element = document.getElementById(id) as HTMLVideoElement | null;
    return element?.getVideoPlaybackQuality().totalVideoFrames ?? 0;
  }, id);
}

/** Resolves when the element has shown `count` more frames; one that takes its place begins from nothing. */
export async function moreFrames(page: Scripted, id: string, count = 15, timeoutMs = 20_000): Promise<void> {
  await page.waitForFunction(
    ({ id, count, mark }) => {
      const element = document.getElementById(id) as HTMLVideoElement | null;
      if (!element) return false;
      // Firefox counts the frames of a stream under a name of its own.
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

/** Resolves when sound of somebody else arrives. */
export async function hearing(page: Scripted, timeoutMs = 20_000): Promise<void> {
  await page.waitForFunction(
    async () => {
      const stats = await window.room.getStats();
      return stats?.tracks.some(({ direction, kind, bps }) => direction === "in" && kind === "audio" && (bps ?? 0) > 0);
    },
    undefined,
    { timeout: timeoutMs, polling: 300 },
  );
}

/** Resolves when the page has noted the line. */
export async function noted(page: Scripted, line: string, timeoutMs = 60_000): Promise<void> {
  await page.waitForFunction((line) => window.seen.includes(line), line, { timeout: timeoutMs, polling: 100 });
}

/** Resolves when the element shows a picture of a height between the two. */
export async function showing(page: Scripted, id: string, [least, most]: [number, number], timeoutMs = 60_000) {
  await page.waitForFunction(
    ({ id, least, most }) => {
      const height = (document.getElementById(id) as HTMLVideoElement | null)?.videoHeight ?? 0;
      return height >= least && height <= most;
    },
    { id, least, most },
    { timeout: timeoutMs, polling: 100 },
  );
}
