/** encryption: what end-to-end encryption costs a page of Chromium and of Firefox, for each frame and for a call */
import { join } from "node:path";
import { chromium } from "playwright-core";
import { installPackages } from "../../bin/debian-packages.ts";
import type * as Stores from "../../src/protocol/encryption/key-store.ts";
import { openFirefox } from "../e2e/sdk/firefox.ts";
import type { Scripted } from "../e2e/sdk/scripted.ts";
import { CHROMIUM } from "../harness/browsers.ts";
import { cpuMicrosOfTree } from "./harness/processes.ts";
import { type Measured, report } from "./harness/report.ts";

type Frames = { codec: "opus" | "VP8"; length: number; count: number };
const VOICE: Frames = { codec: "opus", length: 80, count: 2_000 };
const VIDEO: Frames = { codec: "VP8", length: 4_000, count: 2_000 };

await installPackages(["chromium", "firefox-esr"]);
const root = join(import.meta.dir, "../..");
const built = await Bun.build({ entrypoints: [join(root, "src/protocol/encryption/key-store.ts")], target: "browser" });
const script = await built.outputs[0]?.text();
const site = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  fetch: (request) =>
    new URL(request.url).pathname === "/key-store.js"
      ? new Response(script, { headers: { "content-type": "text/javascript" } })
      : new Response("<!doctype html>", { headers: { "content-type": "text/html" } }),
});

const browser = await chromium.launch(CHROMIUM);
const firefox = await openFirefox();
try {
  const page = await browser.newPage();
  await page.goto(site.url.href);
  const pages: [string, Scripted][] = [
    ["Chromium", page],
    ["Firefox", await firefox.page(site.url.href)],
  ];
  const lines: Measured[] = [];
  for (const [name, one] of pages) {
    await one.evaluate(prepare, undefined);
    await one.evaluate(run, VOICE);
    const [voice, video] = [await cost(one, VOICE), await cost(one, VIDEO)];
    lines.push(
      { what: `${name}: a frame of a voice (80 bytes), encrypted and decrypted`, value: voice, unit: "ms" },
      { what: `${name}: a frame of a video (4 kB), encrypted and decrypted`, value: video, unit: "ms" },
      {
        what: `${name}: own voice and video and those of three others, of a core`,
        value: share(voice, video),
        unit: "%",
      },
    );
  }
  report("encryption", lines);
} finally {
  await Promise.all([browser.close(), firefox.close()]);
  site.stop(true);
}

/** Processor time for each frame, without what the browsers use anyway. */
async function cost(page: Scripted, frames: Frames): Promise<number> {
  const used = async (work: () => Promise<unknown>) => {
    const [cpu, at] = [cpuMicrosOfTree(process.pid), performance.now()];
    await work();
    return { micros: cpuMicrosOfTree(process.pid) - cpu, ms: performance.now() - at };
  };
  const idle = await used(() => Bun.sleep(2_000));
  const busy = await used(() => page.evaluate(run, frames));
  return (busy.micros - (idle.micros * busy.ms) / idle.ms) / 1_000 / frames.count;
}

/** Encrypting or decrypting alone is about half of both; a voice has fifty frames a second, a video thirty. */
function share(voice: number, video: number): number {
  const streams = 4;
  return (streams * (50 * (voice / 2) + 30 * (video / 2))) / 10;
}

/** Run in the page. */
async function prepare(): Promise<void> {
  const path = "/key-store.js";
  const { KeyStore }: typeof Stores = await import(path);
  const store = new KeyStore();
  await store.apply({ type: "key", identity: null, material: "correct horse battery staple", index: 0 });
  await store.apply({ type: "encryptWith", identity: null, index: 0 });
  Object.assign(window, { store });
}

async function run({ codec, length, count }: Frames): Promise<void> {
  const { store } = window as unknown as { store: Stores.KeyStore };
  const bytes = crypto.getRandomValues(new Uint8Array(length));
  for (let at = 0; at < count; at++) {
    const encrypted = await store.encrypt({ codec, bytes, isKeyframe: false });
    if (!encrypted) throw new Error("not encrypted");
    await store.decrypt("ada", { codec, bytes: encrypted, isKeyframe: false });
  }
}
