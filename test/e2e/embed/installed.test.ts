// suite: all
/** The React components as a user gets them: the server's own package in a fresh Vite project, in both browsers. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { buildWeb } from "../../../bin/build-web.ts";
import { type RunningStoa, startStoa } from "../../../src/cli/start/start-stoa.ts";
import { type Join, Stoa } from "../../../web/sdk/server.ts";
import { openChromium } from "../../harness/browsers.ts";
import { type Firefox, openFirefox } from "../sdk/firefox.ts";
import type { Scripted } from "../sdk/scripted.ts";

const ROOT = join(import.meta.dir, "../../..");
const WEB = join(ROOT, "dist/web");
const BUILDS = ["development", "production"] as const;
const BROWSERS = ["Chromium", "Firefox"] as const;

const FILES = {
  "package.json": '{ "name": "app", "private": true, "type": "module" }',
  "vite.config.js": "export default { build: { target: 'es2022' } };",
  // Errors are collected before any other script runs.
  "index.html": `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>App</title><link rel="icon" href="data:,"><script>
window.faults = [];
addEventListener("error", (event) => faults.push(String(event.message)));
addEventListener("unhandledrejection", (event) => faults.push(String(event.reason)));
for (const kind of ["error", "warn"]) {
  const log = console[kind];
  console[kind] = (...args) => { faults.push(args.map(String).join(" ")); log(...args); };
}
</script></head><body><div id="root"></div><script type="module" src="/main.jsx"></script></body></html>`,
  "main.jsx": `
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Conference, StoaRoom, useChat, useConversation, useParticipants, useTracks, VideoTile } from "stoa/react";

const { rtc, chat, room } = JSON.parse(decodeURIComponent(location.hash.slice(1)));

function Parts() {
  const tracks = useTracks();
  const people = useParticipants();
  const { messages } = useConversation(useChat(chat.endpoint, chat.token), room);
  return <>
    <p id="people">{people.map(({ identity }) => identity).join()}</p>
    <p id="heard">{messages.map(({ text }) => text).join()}</p>
    {tracks.filter(({ kind }) => kind === "video").map(({ id, track }) => <VideoTile key={id} track={track} />)}
  </>;
}

const parts = <StoaRoom endpoint={rtc.endpoint} token={rtc.token}><Parts /></StoaRoom>;
const call = <div style={{ height: "600px" }}><Conference endpoint={rtc.endpoint} token={rtc.token} chat={chat} /></div>;
createRoot(document.getElementById("root")).render(<StrictMode>{location.search === "?parts" ? parts : call}</StrictMode>);
`,
};

let server: RunningStoa;
let stoa: Stoa;
let chrome: Browser;
let firefox: Firefox;
const folder = mkdtempSync(join(tmpdir(), "stoa-app-"));
const sites = {} as Record<(typeof BUILDS)[number], Bun.Server<undefined>>;

async function run(command: string[], environment: Record<string, string> = {}): Promise<void> {
  const options = { cwd: folder, env: { ...process.env, ...environment }, stdout: "pipe", stderr: "pipe" } as const;
  const child = Bun.spawn(command, options);
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  if ((await child.exited) !== 0) throw new Error(`${command.join(" ")}:\n${out}${err}`);
}

beforeAll(async () => {
  if (!existsSync(join(WEB, "stoa.tgz"))) await buildWeb(ROOT, WEB);
  server = await startStoa();
  stoa = new Stoa(server);
  for (const [name, text] of Object.entries(FILES)) writeFileSync(join(folder, name), text);
  const packages = ["vite@8.3.8", "rolldown@1.2.18", "react@19.3.1", "react-dom@19.3.1"];
  await run(["npm", "install", "--no-audit", "--no-fund", `${server.url}/stoa.tgz`, ...packages]);
  for (const build of BUILDS) {
    await run(["npx", "--no-install", "vite", "build", "--mode", build, "--outDir", build], { NODE_ENV: build });
    sites[build] = Bun.serve({
      port: 0,
      hostname: "localhost",
      fetch: (request) => {
        const { pathname } = new URL(request.url);
        return new Response(Bun.file(join(folder, build, pathname === "/" ? "index.html" : pathname)));
      },
    });
  }
  [chrome, firefox] = await Promise.all([openChromium(), openFirefox()]);
}, 240_000);
afterAll(async () => {
  await Promise.all([chrome?.close(), firefox?.close()]);
  for (const site of Object.values(sites)) await site.stop(true);
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** The pages of the current test: an open call costs the next one its share of the processor. */
const pages: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const page of pages.splice(0)) await page.close();
});

async function open(browser: (typeof BROWSERS)[number], url: string): Promise<Scripted> {
  if (browser === "Firefox") {
    const page = await firefox.page(url);
    pages.push(page);
    return page;
  }
  const page = await (await chrome.newContext({ permissions: ["camera", "microphone"] })).newPage();
  pages.push(page.context());
  await page.goto(url);
  return page;
}

/** The page reads its credentials from the hash. */
const addressOf = (build: (typeof BUILDS)[number], path: string, { rtc, chat, conversation }: Join) =>
  `${sites[build].url.origin}${path}#${encodeURIComponent(JSON.stringify({ rtc, chat, room: conversation.id }))}`;

declare global {
  interface Window {
    faults: string[];
  }
}

const sees = (page: Scripted, text: string) =>
  page.waitForFunction((wanted) => document.body.innerText.includes(wanted), text, { timeout: 60_000 });
const click = (page: Scripted, name: string) =>
  page.evaluate((wanted) => {
    const found = [...document.querySelectorAll("button")].find(
      (button) => (button.getAttribute("aria-label") ?? button.innerText) === wanted || button.title === wanted,
    );
    if (!found) throw new Error(`no button ${wanted}`);
    found.click();
  }, name);
const write = (page: Scripted, text: string) =>
  page.evaluate((value) => {
    const input = document.querySelector<HTMLInputElement>('input[aria-label="Message"]');
    const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")?.set;
    set?.call(input, value);
    input?.dispatchEvent(new Event("input", { bubbles: true }));
    input?.form?.requestSubmit();
  }, text);

/** Attaches a file as the file dialog, a paste or a drop does. */
const attach = (page: Scripted, how: "choose" | "paste" | "drop", name: string) =>
  page.evaluate(
    ([way, filename]) => {
      const data = new DataTransfer();
      data.items.add(new File(["The minutes of today's meeting."], filename, { type: "text/plain" }));
      if (way === "choose") {
        const input = document.querySelector<HTMLInputElement>('input[type="file"]');
        if (!input) throw new Error("no file input");
        input.files = data.files;
        input.dispatchEvent(new Event("change", { bubbles: true }));
      } else if (way === "paste") {
        const event = new ClipboardEvent("paste", { bubbles: true, cancelable: true });
        // Firefox ignores the data that a script passes to the constructor.
        Object.defineProperty(event, "clipboardData", { value: data });
        document.querySelector('input[aria-label="Message"]')?.dispatchEvent(event);
      } else {
        const event = new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: data });
        document.querySelector(".stoa-chat")?.dispatchEvent(event);
      }
    },
    [how, name] as const,
  );

describe.each(BROWSERS.flatMap((browser) => BUILDS.map((build) => [browser, build] as const)))(
  "[21] the installed package in %s, built for %s, in StrictMode",
  (browser, build) => {
    test("a recorded <Conference> sends a message and files, without an error in the console", async () => {
      const name = `installed-${browser}-${build}`;
      const join = await stoa.mintJoin({ room: name, user: "anna" });
      const page = await open(browser, addressOf(build, "/", join));
      await sees(page, "anna (you)");
      await stoa.recordings.start(join.room.id, {});
      await sees(page, "Recording");
      await click(page, "Chat");
      await page.waitForFunction(
        () => document.querySelector<HTMLInputElement>('input[aria-label="Message"]')?.disabled === false,
        undefined,
      );
      await write(page, "Good morning");
      await page.waitForFunction(() => document.querySelector('[data-status="sent"]') !== null, undefined);
      for (const how of ["choose", "paste", "drop"] as const) {
        await attach(page, how, `${how}.txt`);
        await sees(page, `${how}.txt (31 B)`);
      }
      const messages = await Array.fromAsync(stoa.messages.history(join.conversation.id));
      const files = messages.flatMap(({ attachment }) => (attachment ? [attachment.filename] : []));
      expect(files.sort()).toEqual(["choose.txt", "drop.txt", "paste.txt"]);
      expect(await page.evaluate(() => window.faults, undefined)).toEqual([]);
    }, 120_000);

    test("<StoaRoom>, <VideoTile> and the hooks show a participant and a message", async () => {
      const name = `parts-${browser}-${build}`;
      const host = await stoa.mintJoin({ room: name, user: "host" });
      const shown = await open(browser, addressOf(build, "/", host));
      await sees(shown, "host (you)");
      const guest = await stoa.mintJoin({ room: name, user: "guest" });
      const page = await open(browser, addressOf(build, "/?parts", guest));
      await page.waitForFunction(() => document.getElementById("people")?.innerText.includes("host"), undefined);
      await stoa.messages.send(host.conversation.id, { text: "Welcome", senderId: "host" });
      await page.waitForFunction(() => document.getElementById("heard")?.innerText.includes("Welcome"), undefined);
      await page.waitForFunction(() => document.querySelector("video") !== null, undefined);
      expect(await page.evaluate(() => window.faults, undefined)).toEqual([]);
    }, 120_000);
  },
);

test("[21] a file that is too large is refused with the limit", async () => {
  const join = await stoa.mintJoin({ room: "too-large", user: "anna" });
  const page = await open("Chromium", addressOf("production", "/", join));
  await sees(page, "anna (you)");
  await click(page, "Chat");
  await page.waitForFunction(
    () => document.querySelector<HTMLInputElement>('input[type="file"]')?.disabled === false,
    undefined,
  );
  await page.evaluate(() => {
    const data = new DataTransfer();
    data.items.add(new File([new ArrayBuffer(27 * 1024 * 1024)], "film.mp4", { type: "video/mp4" }));
    const input = document.querySelector<HTMLInputElement>('input[type="file"]');
    if (!input) return;
    input.files = data.files;
    input.dispatchEvent(new Event("change", { bubbles: true }));
  }, undefined);
  await sees(page, "film.mp4: The file is too large: an attachment may have at most 25 MiB.");
}, 120_000);
