// suite: all
/** The telehealth example as a reader of the guides gets it: the server's package, Vite, Express, and its own build. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { cpSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { buildWeb } from "../../../bin/build-web.ts";
import { type RunningStoa, startStoa } from "../../../src/cli/start/start-stoa.ts";
import { Stoa } from "../../../web/sdk/server.ts";
import { openChromium } from "../../harness/browsers.ts";
import { freePort } from "../../ops/proxies.ts";
import { screenshotOf } from "./site.ts";

const ROOT = join(import.meta.dir, "../../..");
const WEB = join(ROOT, "dist/web");
const folder = mkdtempSync(join(tmpdir(), "stoa-telehealth-"));
const url = `http://localhost:${await freePort()}`;
const faults: string[] = [];
let server: RunningStoa;
let browser: Browser;
let practice: Bun.Subprocess<"ignore", "pipe", "pipe">;
let clinicianUrl = "";

async function run(...command: string[]): Promise<void> {
  // The environment of the tests would make a development build.
  const env = { ...process.env, NODE_ENV: undefined };
  const child = Bun.spawn(command, { cwd: folder, env, stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  if ((await child.exited) !== 0) throw new Error(`${command.join(" ")}:\n${out}${err}`);
}

beforeAll(async () => {
  if (!existsSync(join(WEB, "stoa.tgz"))) await buildWeb(ROOT, WEB);
  server = await startStoa();
  cpSync(join(ROOT, "web/examples/telehealth"), folder, { recursive: true });
  await run("npm", "install", "--no-audit", "--no-fund", `${server.url}/stoa.tgz`);
  await run("npm", "run", "build");
  practice = Bun.spawn(["node", "dist/server/main.js"], {
    cwd: folder,
    env: { ...process.env, STOA_URL: server.url, STOA_API_KEY: server.apiKey, PORT: new URL(url).port },
    stdout: "pipe",
    stderr: "pipe",
  });
  let printed = "";
  for await (const text of practice.stdout.pipeThrough(new TextDecoderStream())) {
    printed += text;
    clinicianUrl = /^Clinician: (\S+)$/m.exec(printed)?.[1] ?? "";
    if (clinicianUrl !== "") break;
  }
  if (clinicianUrl === "") throw new Error(`the example did not start: ${await new Response(practice.stderr).text()}`);
  browser = await openChromium();
  // The installation needs minutes on a machine with other work.
}, 600_000);
afterAll(async () => {
  await browser?.close();
  practice?.kill();
  await practice?.exited;
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function open(address: string): Promise<Page> {
  const context = await browser.newContext({
    permissions: ["camera", "microphone"],
    viewport: { width: 900, height: 800 },
  });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (line) => {
    if (["error", "warning"].includes(line.type())) faults.push(line.text());
  });
  await page.goto(address);
  return page;
}

const videosPlay = (page: Page) =>
  page.waitForFunction(
    () => [...document.querySelectorAll("video")].filter(({ currentTime }) => currentTime > 0).length === 2,
  );

test("a visit: waiting room, recorded call with chat and a file, verdict, replay, export and erasure", async () => {
  const [patient, clinician] = await Promise.all([open(url), open(clinicianUrl)]);
  await patient.getByPlaceholder("Your name").fill("Pat Doe");
  await patient.getByRole("button", { name: "Enter the waiting room" }).click();
  await patient.waitForFunction(() => (document.querySelector("video")?.videoWidth ?? 0) > 0);
  const visit = clinician.getByRole("article", { name: "Pat Doe" });
  await visit.getByRole("button", { name: "Let in" }).click();
  await Promise.all([videosPlay(patient), videosPlay(clinician)]);
  // Both are called by their names, not by their ids.
  await clinician.locator("figcaption", { hasText: "Pat Doe" }).waitFor();
  await patient.locator("figcaption", { hasText: "Dr. Grey" }).waitFor();

  await clinician.getByRole("button", { name: "Record", exact: true }).click();
  await patient.getByText("Recording", { exact: true }).waitFor();
  for (const page of [patient, clinician]) await page.getByRole("button", { name: "Chat" }).click();
  await patient.getByLabel("Message", { exact: true }).fill("My knee hurts.");
  await patient.getByLabel("Message", { exact: true }).press("Enter");
  await clinician.locator("li", { hasText: "My knee hurts." }).getByText("Pat Doe").waitFor();
  const file = { name: "knee.txt", mimeType: "text/plain", buffer: Buffer.from("swollen") };
  await patient.getByLabel("Attach a file").setInputFiles(file);
  await clinician.getByText("knee.txt (7 B)").waitFor();
  await screenshotOf(clinician, "example-telehealth");
  await clinician.getByRole("button", { name: "Stop recording" }).click();
  await clinician.getByRole("button", { name: "Record", exact: true }).waitFor();

  await clinician.getByRole("button", { name: "End the visit" }).click();
  await patient.getByText("Thank you for your visit.").waitFor();
  await visit.getByText(/^Pat Doe: .+\.$/).waitFor();
  const [replay] = await Promise.all([
    clinician.context().waitForEvent("page"),
    visit.getByRole("button", { name: "Replay" }).click(),
  ]);
  await replay.getByRole("heading", { name: "Visit of Pat Doe" }).waitFor();
  await replay.locator(".person footer", { hasText: "Pat Doe" }).waitFor();
  await replay.close();

  const [download] = await Promise.all([
    clinician.waitForEvent("download"),
    visit.getByRole("button", { name: "Export the patient's data" }).click(),
  ]);
  const files = new Bun.Archive(await Bun.file(await download.path()).bytes());
  expect([...(await files.files()).keys()]).toContain("messages.jsonl");
  await visit.getByRole("button", { name: "Erase the patient's data" }).click();
  await clinician.getByText("The data of Pat Doe was erased.").waitFor();
  const stoa = new Stoa(server);
  const conversations = await Array.fromAsync(stoa.conversations.list());
  const texts = await Promise.all(
    conversations.map(async ({ id }) => (await Array.fromAsync(stoa.messages.history(id))).map(({ text }) => text)),
  );
  expect(texts.flat().join()).not.toMatch(/knee|Pat/);
  expect(faults).toEqual([]);
}, 240_000);

test("a caller without a session can neither list the visits nor admit itself to one", async () => {
  const ask = (path: string, method = "GET") => fetch(`${url}/api/${path}`, { method });
  const headers = { "content-type": "application/json" };
  const added = await fetch(`${url}/api/visits`, { method: "POST", headers, body: '{"name":"Eve"}' });
  const { id } = (await added.json()) as { id: string };
  expect((await ask("clinic/visits")).status).toBe(401);
  expect((await ask(`clinic/visits/${id}/open`, "POST")).status).toBe(401);
  expect((await ask(`visits/${id}/join`, "POST")).status).toBe(409);
  expect((await fetch(`${url}/webhooks`, { method: "POST", headers, body: "{}" })).status).toBe(400);
});
