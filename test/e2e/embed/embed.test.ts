import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import type { Browser, Page } from "playwright-core";
import { type RunningStoa, startStoa } from "../../../src/cli/start/start-stoa.ts";
import { bars, join as enter, tone } from "../../../src/rtc-client/participant/participant.ts";
import { Stoa } from "../../../web/sdk/server.ts";
import { openChromium } from "../../harness/browsers.ts";
import { accessibilityFaults, type Site, screenshotOf, serveSite, strictPolicy } from "./site.ts";

let server: RunningStoa;
let stoa: Stoa;
let browser: Browser;
const sites: Site[] = [];

beforeAll(async () => {
  server = await startStoa();
  stoa = new Stoa(server);
  browser = await openChromium();
}, 180_000);
// A page that stays open encodes its camera beside the next tests.
afterEach(async () => {
  for (const context of browser.contexts()) await context.close();
});
afterAll(async () => {
  await browser.close();
  for (const site of sites) site.close();
  await server.stop();
});

type Viewport = { width: number; height: number; colorScheme?: "light" | "dark" };
const DESKTOP = { width: 1440, height: 900 };
const PHONE = { width: 390, height: 844 };

/** Opens a page with this tag on another origin with a strict policy; `faults` collects the browser's errors. */
async function open(
  tag: string,
  { colorScheme = "light", ...viewport }: Viewport = DESKTOP,
): Promise<Page & { faults: string[] }> {
  const html = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Shop</title><script type="module" src="${server.url}/embed.js"></script><main><h1>Our shop</h1>${tag}</main></html>`;
  const site = serveSite({ "/": html }, strictPolicy(server.url));
  sites.push(site);
  const context = await browser.newContext({ viewport, colorScheme, permissions: ["camera", "microphone"] });
  const page = Object.assign(await context.newPage(), { faults: [] as string[] });
  page.setDefaultTimeout(60_000);
  page.on("pageerror", (error) => page.faults.push(error.message));
  page.on("console", (line) => {
    if (line.type() === "error") page.faults.push(line.text());
  });
  await page.goto(site.url);
  return page;
}

async function roomTag(room: string, user: string): Promise<string> {
  const { rtc, chat } = await stoa.mintJoin({ room, user });
  return `<stoa-room endpoint="${rtc.endpoint}" token="${rtc.token}" chat-endpoint="${chat.endpoint}" chat-token="${chat.token}"></stoa-room>`;
}

/** Resolves when this number of videos play. */
const videosPlay = (page: Page, count: number) =>
  page.waitForFunction((wanted) => {
    const root = document.querySelector("stoa-room, stoa-live")?.shadowRoot;
    const videos = [...(root?.querySelectorAll("video") ?? [])];
    return videos.filter(({ videoWidth, currentTime }) => videoWidth > 0 && currentTime > 0).length === wanted;
  }, count);

/** Whether a click on the element's centre would hit it. */
const isOnTop = (page: Page, selector: string) =>
  page.evaluate((wanted) => {
    const root = document.querySelector("stoa-room, stoa-live")?.shadowRoot;
    const element = root?.querySelector(wanted);
    if (!element) return false;
    const { x, y, width, height } = element.getBoundingClientRect();
    const hit = root?.elementFromPoint(x + width / 2, y + height / 2);
    return hit === element;
  }, selector);

test("[21] <stoa-room> supports video, chat, raised hands and leaving on another origin with a strict policy", async () => {
  const anna = await open(await roomTag("shop", "anna"));
  const ben = await open(await roomTag("shop", "ben"), PHONE);
  await Promise.all([videosPlay(anna, 2), videosPlay(ben, 2)]);
  await screenshotOf(anna, "room-desktop-light");
  await screenshotOf(ben, "room-phone-light");

  await anna.getByRole("button", { name: "Chat" }).click();
  await anna.getByRole("textbox", { name: "Message" }).fill("Is the blue one left?");
  await anna.getByRole("textbox", { name: "Message" }).press("Enter");
  await ben.getByRole("button", { name: "Chat" }).click();
  await ben.getByText("Is the blue one left?").waitFor();
  await screenshotOf(ben, "room-phone-chat");
  expect(await accessibilityFaults(ben)).toEqual([]);

  await anna.getByRole("button", { name: "Raise hand" }).click();
  await ben.getByText("✋ 1").waitFor();
  const late = await open(await roomTag("shop", "late"));
  await late.getByText("✋ 1").waitFor();
  await ben.getByRole("button", { name: "Raise hand" }).click();
  await late.getByText("✋ 2").waitFor();
  await late.context().close();
  await ben.getByRole("button", { name: "Raise hand" }).click();
  await ben.getByText("✋ 2").waitFor({ state: "hidden" });
  await anna.getByRole("button", { name: "React", exact: true }).click();
  await anna.getByRole("button", { name: "React with 🎉" }).click();
  await ben.getByText("🎉 anna").waitFor();
  expect(await accessibilityFaults(anna)).toEqual([]);

  await anna.getByRole("button", { name: "Camera" }).click();
  await videosPlay(ben, 1);
  await anna.getByRole("button", { name: "Leave" }).click();
  await anna.getByText("You have left the call.").waitFor();
  await ben.waitForFunction(
    () => document.querySelector("stoa-room")?.shadowRoot?.querySelectorAll("figure").length === 1,
  );
  expect([...anna.faults, ...ben.faults]).toEqual([]);
}, 180_000);

test("[21] <stoa-room> is accessible in dark mode and speaker view at both widths", async () => {
  const guest = await stoa.mintJoin({ room: "dark", user: "guest" });
  const bot = await enter(guest.rtc.endpoint, guest.rtc.token);
  await bot.publishVideo(bars());
  await bot.publishAudio(tone({ hz: 440, volume: 0.2 }));
  for (const [name, viewport] of [
    ["desktop", DESKTOP],
    ["phone", PHONE],
  ] as const) {
    for (const colorScheme of ["light", "dark"] as const) {
      const page = await open(await roomTag("dark", `anna-${name}-${colorScheme}`), { ...viewport, colorScheme });
      await page.waitForFunction(
        () => (document.querySelector("stoa-room")?.shadowRoot?.querySelectorAll("figure").length ?? 0) >= 2,
      );
      await page.getByRole("button", { name: "Speaker view" }).click();
      await page.getByRole("button", { name: "Devices" }).click();
      await page.getByRole("combobox", { name: "Speaker" }).waitFor();
      expect(await accessibilityFaults(page)).toEqual([]);
      await screenshotOf(page, `devices-${name}-${colorScheme}`);
      await page.getByRole("button", { name: "Devices" }).click();
      await screenshotOf(page, `speaker-${name}-${colorScheme}`);
      expect(page.faults).toEqual([]);
      await page.context().close();
    }
  }
  await bot.close();
}, 180_000);

test("<stoa-room> shows the captions of an agent in a room with captions, readable on every screen", async () => {
  const { id } = await stoa.rooms.create({ name: "captioned" });
  await stoa.rooms.update(id, { captions: true });
  const enterAs = async (participantIdentity: string, kind: "agent" | "standard") => {
    const mint = { participantIdentity, kind, permissions: { publishData: true } };
    const { endpoint, token } = await stoa.rtcTokens.mint(id, mint);
    return enter(endpoint, token);
  };
  const scribe = await enterAs("scribe", "agent");
  for (const [name, viewport] of [
    ["desktop", DESKTOP],
    ["phone", PHONE],
  ] as const) {
    for (const colorScheme of ["light", "dark"] as const) {
      const user = `anna-${name}-${colorScheme}`;
      const page = await open(await roomTag("captioned", user), { ...viewport, colorScheme });
      await page.getByText(`${user} (you)`).waitFor();
      const microphone = () => scribe.participants.get(user)?.tracks.find(({ kind }) => kind === "audio");
      while (!microphone()) await Bun.sleep(20);
      const lines = page.locator(".stoa-caption-lines p");
      const said = page.getByRole("log", { name: "Captions" });

      const segment = await scribe.sendCaption("Is the", { final: false, trackId: microphone()?.id });
      await lines.getByText("Is the").waitFor();
      expect(await said.textContent()).toBe("");
      const sentence = `Is the blue one left? ${"And the green one, too? ".repeat(20)}`;
      await scribe.sendCaption(sentence, { id: segment, trackId: microphone()?.id });
      await said.getByText(`${user}: ${sentence}`).waitFor();
      expect(await lines.count()).toBe(1);
      expect(await lines.textContent()).toMatch(new RegExp(`^${user} … [\\w ,?]{90,140}$`));
      expect(await accessibilityFaults(page)).toEqual([]);
      await screenshotOf(page, `captions-${name}-${colorScheme}`);
      const isInside = await lines.evaluate((line) => {
        const [box, main] = [line.getBoundingClientRect(), line.closest(".stoa-main")?.getBoundingClientRect()];
        return main !== undefined && box.left >= main.left && box.right <= main.right && box.top >= main.top;
      });
      expect(isInside).toBe(true);

      const button = page.getByRole("button", { name: "Captions" });
      await button.click();
      await lines.waitFor({ state: "detached" });
      await button.click();
      await scribe.sendCaption("Both are left.", { trackId: microphone()?.id });
      await lines.getByText("Both are left.").waitFor();
      expect(page.faults).toEqual([]);
      await page.context().close();
    }
  }

  const page = await open(await roomTag("captioned", "anna"));
  await page.getByRole("button", { name: "Captions" }).waitFor();
  const eve = await enterAs("eve", "standard");
  while (!eve.participants.get("anna")?.tracks.length) await Bun.sleep(20);
  await eve.sendCaption("Not my words", { trackId: eve.participants.get("anna")?.tracks[0]?.id });
  await page.locator(".stoa-caption-lines b", { hasText: "anna (by eve)" }).waitFor();
  await stoa.rooms.update(id, { captions: false });
  await page.getByRole("button", { name: "Captions" }).waitFor({ state: "detached" });
  expect(await page.locator(".stoa-caption-lines").count()).toBe(0);
  await Promise.all([eve.close(), scribe.close()]);
}, 180_000);

test("[21] <stoa-chat> joins, shows the history and dispatches messages to the page", async () => {
  const { conversation, chat } = await stoa.mintJoin({ room: "help", user: "carl" });
  await stoa.messages.send(conversation.id, { text: "How can we help?", senderId: "carl" });
  const page = await open(
    `<stoa-chat heading="Support" endpoint="${chat.endpoint}" token="${chat.token}" room="${conversation.id}"></stoa-chat>`,
  );
  await page.getByText("How can we help?").waitFor();
  await page.evaluate(() =>
    document.addEventListener("message", (event) =>
      document.body.setAttribute("data-told", (event as CustomEvent).detail.text),
    ),
  );
  await page.getByRole("textbox", { name: "Message" }).fill("It is late.");
  await page.getByRole("button", { name: "Send" }).click();
  await page.waitForFunction(() => document.body.dataset.told === "It is late.");
  const [newest] = (await stoa.messages.history(conversation.id)).data;
  expect(newest).toMatchObject({ text: "It is late.", senderId: "carl" });
  expect(await accessibilityFaults(page)).toEqual([]);
  await screenshotOf(page, "chat-desktop-light");
  expect(page.faults).toEqual([]);
}, 180_000);

test("[21] <stoa-live> shows a live stream with its chat and says when it has ended", async () => {
  const stream = await stoa.liveStreams.create({ title: "Autumn", hostIdentity: "host" });
  await stoa.liveStreams.start(stream.id);
  const host = await stoa.liveStreams.addHost(stream.id, { identity: "host" });
  const bot = await enter(host.rtc.endpoint, host.rtc.token);
  await bot.publishVideo(bars());
  const { rtc, chat } = await stoa.liveStreams.mintViewerToken(stream.id, { identity: "viewer" });
  const page = await open(
    `<stoa-live stream="${stream.id}" room="${rtc.roomId}" endpoint="${rtc.endpoint}" token="${rtc.token}" chat-endpoint="${chat.endpoint}" chat-token="${chat.token}"></stoa-live>`,
  );
  await videosPlay(page, 1);
  await page.getByRole("textbox", { name: "Message" }).fill("Lovely!");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText("Lovely!").waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  await screenshotOf(page, "live-desktop-light");
  await stoa.liveStreams.end(stream.id);
  await page.getByText("This stream has ended.").waitFor();
  expect(page.faults).toEqual([]);
}, 180_000);

test("[21] <stoa-chat> and <stoa-live> are accessible at both widths, in light and dark", async () => {
  const { conversation, chat: talk } = await stoa.mintJoin({ room: "clean", user: "emma" });
  await stoa.messages.send(conversation.id, { text: "Welcome.", senderId: "emma" });
  const stream = await stoa.liveStreams.create({ title: "Clean", hostIdentity: "host" });
  await stoa.liveStreams.start(stream.id);
  const host = await stoa.liveStreams.addHost(stream.id, { identity: "host" });
  const bot = await enter(host.rtc.endpoint, host.rtc.token);
  await bot.publishVideo(bars());
  const chatTag = `<stoa-chat heading="Support" endpoint="${talk.endpoint}" token="${talk.token}" room="${conversation.id}"></stoa-chat>`;
  for (const [name, viewport] of [
    ["desktop", DESKTOP],
    ["phone", PHONE],
  ] as const) {
    for (const colorScheme of ["light", "dark"] as const) {
      const chatting = await open(chatTag, { ...viewport, colorScheme });
      await chatting.getByText("Welcome.").waitFor();
      expect(await accessibilityFaults(chatting)).toEqual([]);
      await screenshotOf(chatting, `chat-${name}-${colorScheme}`);
      const identity = `viewer-${name}-${colorScheme}`;
      const { rtc, chat } = await stoa.liveStreams.mintViewerToken(stream.id, { identity });
      const watching = await open(
        `<stoa-live stream="${stream.id}" room="${rtc.roomId}" endpoint="${rtc.endpoint}" token="${rtc.token}" chat-endpoint="${chat.endpoint}" chat-token="${chat.token}"></stoa-live>`,
        { ...viewport, colorScheme },
      );
      await videosPlay(watching, 1);
      expect(await isOnTop(watching, "video")).toBe(true);
      expect(await isOnTop(watching, "input")).toBe(true);
      expect(await accessibilityFaults(watching)).toEqual([]);
      await screenshotOf(watching, `live-${name}-${colorScheme}`);
      expect([...chatting.faults, ...watching.faults]).toEqual([]);
      for (const page of [chatting, watching]) await page.context().close();
    }
  }
  await bot.close();
}, 180_000);

test("a tag names its missing attributes and joins when they are set", async () => {
  const page = await open("<stoa-room></stoa-room>");
  await page.getByText("<stoa-room> needs the attributes endpoint and token").waitFor();
  const { rtc } = await stoa.mintJoin({ room: "later", user: "dora" });
  await page.evaluate(({ endpoint, token }) => {
    const element = document.querySelector("stoa-room");
    element?.setAttribute("endpoint", endpoint);
    element?.setAttribute("token", token);
  }, rtc);
  await videosPlay(page, 1);
  await page.evaluate(() => document.querySelector("stoa-room")?.remove());
  const isGone = async () => (await stoa.rooms.participants(rtc.roomId)).length === 0;
  while (!(await isGone())) await Bun.sleep(50);
}, 180_000);
