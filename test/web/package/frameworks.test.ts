// suite: soak
/** Installs the package from a server into projects of other frameworks, as a user would. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { type ServerProcess, startServer } from "../../e2e/sdk/server-process.ts";
import { openChromium } from "../../harness/browsers.ts";

const ROUTE = join(import.meta.dir, "../../../web/examples/next-backend/route.ts");

let server: ServerProcess;
let browser: Browser;
const folders: string[] = [];
const children: Bun.Subprocess[] = [];
beforeAll(async () => {
  server = await startServer();
  browser = await openChromium();
}, 120_000);
afterAll(async () => {
  await browser.close();
  for (const child of children) {
    child.kill("SIGKILL");
    await child.exited;
  }
  await server.close();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** Creates a project with these files, our package and these other packages. */
async function project(files: Record<string, string>, packages: string[]): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "stoa-framework-"));
  folders.push(folder);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  await runToEnd(folder, ["npm", "install", "--no-audit", "--no-fund", `${server.url}/stoa.tgz`, ...packages]);
  return folder;
}

const environment = () => ({
  ...process.env,
  STOA_URL: server.url,
  STOA_API_KEY: server.apiKey,
  NEXT_TELEMETRY_DISABLED: "1",
});

async function runToEnd(folder: string, command: string[]): Promise<void> {
  const child = Bun.spawn(command, { cwd: folder, env: environment(), stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  if ((await child.exited) !== 0) throw new Error(`${command.join(" ")}:\n${out}${err}`);
}

/** Starts the framework's server and resolves with the address that it prints. A shell would outlive the kill. */
async function startSite(folder: string, command: string[]): Promise<string> {
  const child = Bun.spawn(command, { cwd: folder, env: environment(), stdout: "pipe", stderr: "ignore" });
  children.push(child);
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  // The output is read to its end, because writing to an unread pipe blocks the process.
  void (async () => {
    let output = "";
    const decoder = new TextDecoder();
    for await (const chunk of child.stdout) {
      output += decoder.decode(chunk, { stream: true });
      // biome-ignore lint/suspicious/noControlCharactersInRegex: colours of a terminal
      const found = /http:\/\/(?:localhost|127\.0\.0\.1):\d+/.exec(output.replaceAll(/\x1b\[\d+m/g, ""));
      if (found) resolve(found[0]);
    }
    reject(new Error(`the server ended: ${output}`));
  })();
  return promise;
}

async function expectVideoBothWays(site: string): Promise<void> {
  const enter = async (user: string) => {
    const context = await browser.newContext({ permissions: ["camera", "microphone"] });
    const page = Object.assign(await context.newPage(), { errors: [] as string[] });
    page.on("pageerror", (error) => page.errors.push(error.message));
    await page.goto(`${site}/?user=${user}`);
    return page;
  };
  const pages = [await enter("anna"), await enter("ben")];
  for (const page of pages) await videosPlay(page, 2);
  expect(pages.flatMap(({ errors }) => errors)).toEqual([]);
  for (const page of pages) await page.context().close();
}

const videosPlay = (page: Page, count: number) =>
  page.waitForFunction(
    (wanted) =>
      [...document.querySelectorAll("video")].filter(({ videoWidth, currentTime }) => videoWidth > 0 && currentTime > 0)
        .length === wanted,
    count,
    { timeout: 90_000, polling: 200 },
  );

const CALL = `
import { Conference } from "stoa/react";

export function Call({ rtc, chat }: import("stoa/server").Join) {
  return <Conference endpoint={rtc.endpoint} token={rtc.token} chat={chat} />;
}`;

test("[21] a Vite and React project compiles, builds and connects two participants", async () => {
  const folder = await project(
    {
      "package.json": '{ "name": "app", "private": true, "type": "module" }',
      "index.html":
        '<!doctype html><title>Call</title><div id="root"></div><script type="module" src="/main.tsx"></script>',
      "call.tsx": CALL,
      "main.tsx": `
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Call } from "./call";

const join = await (await fetch("/join" + location.search)).json();
createRoot(document.getElementById("root") as HTMLElement).render(<StrictMode><Call {...join} /></StrictMode>);
`,
      "tsconfig.json": JSON.stringify({
        compilerOptions: {
          strict: true,
          skipLibCheck: false,
          noEmit: true,
          jsx: "react-jsx",
          target: "es2023",
          lib: ["es2023", "dom", "dom.iterable", "dom.asynciterable", "esnext.disposable"],
          module: "esnext",
          moduleResolution: "bundler",
          types: [],
        },
        include: ["*.tsx"],
      }),
      "vite.config.js": "export default { build: { target: 'es2022' } };",
      "serve.mjs": `
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { Stoa } from "stoa/server";

const stoa = new Stoa({ url: process.env.STOA_URL, apiKey: process.env.STOA_API_KEY });
const server = createServer(async (request, response) => {
  const { pathname, searchParams } = new URL(request.url, "http://localhost");
  if (pathname === "/join") return response.end(JSON.stringify(await stoa.mintJoin({ room: "vite", user: searchParams.get("user") })));
  const file = pathname === "/" ? "/index.html" : pathname;
  response.setHeader("content-type", file.endsWith(".js") ? "text/javascript" : "text/html");
  response.end(await readFile("dist" + file).catch(() => ""));
});
server.listen(0, "localhost", () => console.log("http://localhost:" + server.address().port));
`,
    },
    [
      "vite@8.3.8",
      // Some versions of the same line do not run on all machines.
      "rolldown@1.2.18",
      "react@19.3.1",
      "react-dom@19.3.1",
      "@types/react@19.3.0",
      "@types/react-dom@19.3.0",
      "typescript@7.0.2",
    ],
  );
  await runToEnd(folder, ["npx", "--no-install", "tsc", "--project", "."]);
  await runToEnd(folder, ["npx", "--no-install", "vite", "build"]);
  await expectVideoBothWays(await startSite(folder, ["node", "serve.mjs"]));
}, 300_000);

test("[21] a Next.js project renders on its server, mints tokens in its route and connects two participants", async () => {
  const folder = await project(
    {
      "package.json": '{ "name": "app", "private": true }',
      "call.tsx": `"use client";\n${CALL}`,
      "app/layout.tsx": `
export default ({ children }: { children: React.ReactNode }) => <html lang="en"><body>{children}</body></html>;
`,
      "app/page.tsx": `
import { Stoa } from "stoa/server";
import { Call } from "../call";

export default async function Page({ searchParams }: { searchParams: Promise<{ user: string }> }) {
  const stoa = new Stoa({ url: process.env.STOA_URL!, apiKey: process.env.STOA_API_KEY! });
  const join = await stoa.mintJoin({ room: "next", user: (await searchParams).user });
  return <Call {...JSON.parse(JSON.stringify(join))} />;
}
`,
      "app/api/join/route.ts": readFileSync(ROUTE, "utf8"),
      "next.config.mjs": "export default { devIndicators: false };",
    },
    [
      "next@16.4.6",
      "react@19.3.1",
      "react-dom@19.3.1",
      "@types/react@19.3.0",
      "@types/node@22.10.0",
      "typescript@5.9.3",
    ],
  );
  await runToEnd(folder, ["npx", "--no-install", "next", "build"]);
  const site = await startSite(folder, ["node", "node_modules/next/dist/bin/next", "start", "--port", "0"]);
  const headers = { "content-type": "application/json", "x-user": "anna" };
  const minted = await fetch(`${site}/api/join`, { method: "POST", headers, body: '{"room":"next"}' });
  expect([minted.status, Object.keys(await minted.json())]).toEqual([200, ["rtc", "chat", "conversationId"]]);
  await expectVideoBothWays(site);
}, 400_000);
