import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import type { Browser, Page } from "playwright-core";
import { type RunningStoa, startStoa } from "../../../src/cli/start/start-stoa.ts";
import { join as enter, tone } from "../../../src/rtc-client/participant/participant.ts";
import { POST } from "../../../web/examples/next-backend/route.ts";
import { echo } from "../../../web/examples/node-bot/bot.ts";
import { type Example, serveExample } from "../../../web/examples/serve.ts";
import { Stoa } from "../../../web/sdk/server.ts";
import { openChromium } from "../../harness/browsers.ts";
import { pitchOf } from "../../rtc-client/sound.ts";
import { screenshotOf } from "./site.ts";

let browser: Browser;
const running: Example[] = [];
const faults: string[] = [];
beforeAll(async () => {
  browser = await openChromium();
});
// A page that stays open encodes its camera beside the next tests.
afterEach(async () => {
  for (const context of browser.contexts()) await context.close();
});
afterAll(async () => {
  await browser.close();
  for (const example of running) await example.stop();
});

/** Serves the example and opens a page for each of these users; no page may report an error. */
async function play(name: string, ...users: string[]): Promise<{ example: Example; pages: Page[] }> {
  const example = await serveExample(name);
  running.push(example);
  const pages: Page[] = [];
  for (const person of users) {
    const context = await browser.newContext({
      permissions: ["camera", "microphone"],
      viewport: { width: 900, height: 640 },
    });
    const page = await context.newPage();
    page.setDefaultTimeout(60_000);
    page.on("pageerror", (error) => faults.push(`${name}: ${error.message}`));
    page.on("console", (line) => {
      if (line.type() === "error") faults.push(`${name}: ${line.text()}`);
    });
    await page.goto(`${example.url}/?user=${person}`);
    pages.push(page);
  }
  return { example, pages };
}

const videosPlay = (page: Page, count: number) =>
  page.waitForFunction((wanted) => {
    const roots = [document, ...[...document.querySelectorAll("*")].flatMap(({ shadowRoot }) => shadowRoot ?? [])];
    const videos = roots.flatMap((root) => [...root.querySelectorAll("video")]);
    return videos.filter(({ videoWidth, currentTime }) => videoWidth > 0 && currentTime > 0).length === wanted;
  }, count);

async function done(name: string, pages: Page[]): Promise<void> {
  if (pages[0]) await screenshotOf(pages[0], `example-${name}`);
  for (const page of pages) await page.context().close();
  expect(faults).toEqual([]);
}

test("video call with React: two users see each other and chat, and each joins once in StrictMode", async () => {
  const { example, pages } = await play("video-call-react", "anna", "ben");
  const [anna, ben] = pages as [Page, Page];
  await Promise.all([videosPlay(anna, 2), videosPlay(ben, 2)]);
  await anna.getByLabel("Message").fill("hello");
  await anna.getByLabel("Message").press("Enter");
  await ben.getByText("anna: hello").waitFor();
  expect((await example.stoa.connections.list()).map(({ participantIdentity }) => participantIdentity).sort()).toEqual([
    "anna",
    "ben",
  ]);
  await done("video-call-react", pages);
}, 180_000);

test("embed tag: the conference appears and is removed on leaving", async () => {
  const { pages } = await play("embed-tag", "anna", "ben");
  const [anna, ben] = pages as [Page, Page];
  await Promise.all([videosPlay(anna, 2), videosPlay(ben, 2)]);
  await screenshotOf(anna, "example-embed-tag");
  await anna.getByRole("button", { name: "Leave" }).click();
  await anna.waitForFunction(() => document.querySelector("stoa-room") === null);
  for (const page of pages) await page.context().close();
  expect(faults).toEqual([]);
}, 180_000);

test("live shop: a viewer sees the host and the chat", async () => {
  const { pages } = await play("live-shop", "shop&host", "viewer");
  const [host, viewer] = pages as [Page, Page];
  await host.getByText("You are live.").waitFor();
  await videosPlay(viewer, 1);
  await viewer.getByRole("textbox", { name: "Message" }).fill("How much is it?");
  await viewer.getByRole("button", { name: "Send" }).click();
  await viewer.getByText("How much is it?").waitFor();
  await done("live-shop", [viewer, host]);
}, 180_000);

test("classroom: the teacher sees raised hands and moves the class into groups", async () => {
  const { pages } = await play("classroom", "teacher", "anna", "ben");
  const [teacher, anna, ben] = pages as [Page, Page, Page];
  await teacher.getByText("In class with anna, ben").waitFor();
  await anna.getByRole("button", { name: "Raise hand" }).click();
  await teacher.getByText("Hands: anna").waitFor();
  await screenshotOf(teacher, "example-classroom");
  await teacher.getByRole("button", { name: "Into groups" }).click();
  await anna.getByText("In group-1 with nobody").waitFor();
  await ben.getByText("In group-2 with nobody").waitFor();
  for (const page of pages) await page.context().close();
  expect(faults).toEqual([]);
}, 180_000);

test("support chat: messages and files reach the other side", async () => {
  const { pages } = await play("support-chat", "anna", "agent");
  const [anna, agent] = pages as [Page, Page];
  await anna.getByLabel("Message").fill("It broke.");
  await anna.getByRole("button", { name: "Send" }).click();
  await agent.getByText("anna: It broke.").waitFor();
  await anna
    .getByLabel("File")
    .setInputFiles({ name: "log.txt", mimeType: "text/plain", buffer: Buffer.from("error 5") });
  await agent.getByText("anna: 📎 log.txt").waitFor();
  await done("support-chat", pages);
}, 180_000);

test("audio room: the host lets a listener speak on request", async () => {
  const { pages } = await play("audio-room", "host", "carl");
  const [host, carl] = pages as [Page, Page];
  await host.getByText("The queue is empty.").waitFor();
  await carl.getByRole("button", { name: "I want to speak" }).click();
  await host.getByText("Waiting: carl").waitFor();
  await host.getByRole("button", { name: "Next speaker" }).click();
  await carl.getByText("You are speaking.").waitFor();
  await done("audio-room", pages);
}, 180_000);

test("walkie-talkie: audio is sent only while the button is held", async () => {
  const { pages } = await play("walkie-talkie", "anna", "ben");
  const [anna, ben] = pages as [Page, Page];
  await ben.getByText("Silence.").waitFor();
  const button = anna.getByRole("button", { name: "Hold to talk" });
  await button.dispatchEvent("pointerdown");
  await ben.getByText("anna is speaking.").waitFor();
  await button.dispatchEvent("pointerup");
  await ben.getByText("Silence.").waitFor();
  await done("walkie-talkie", pages);
}, 180_000);

let server: RunningStoa | null = null;
afterAll(() => server?.stop());

test("Node bot: audio is echoed; and the Next.js route admits only signed-in users", async () => {
  server = await startStoa();
  const stoa = new Stoa(server);
  const bot = await echo(stoa, "talk");
  const { rtc } = await stoa.mintJoin({ room: "talk", user: "anna" });
  const anna = await enter(rtc.endpoint, rtc.token);
  await anna.publishAudio(tone({ hz: 600 }));
  const heard: number[] = [];
  anna.on("audio", ({ samples }) => heard.push(...samples));
  while (heard.length < 2 * 48_000) await Bun.sleep(20);
  expect(Math.abs(pitchOf(Int16Array.from(heard.slice(-24_000)), 48_000) - 600)).toBeLessThan(5);
  await anna.close();
  await bot.close();

  Object.assign(process.env, { STOA_URL: server.url, STOA_API_KEY: server.apiKey });
  const call = (headers: Record<string, string>) =>
    POST(new Request("http://localhost/api/join", { method: "POST", headers, body: '{"room":"talk"}' }));
  expect((await call({})).status).toBe(401);
  expect(await (await call({ "x-user": "dora" })).json()).toMatchObject({ rtc: { participantIdentity: "dora" } });
}, 180_000);
