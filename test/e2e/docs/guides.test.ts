import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { buildWeb } from "../../../bin/build-web.ts";
import { readGuides } from "../../../src/cli/manual/guides.ts";
import { openChromium } from "../../harness/browsers.ts";
import { blocksOf, ROOT } from "../../web/docs/blocks.ts";
import { type DevServer, startDev } from "../../web/docs/dev-server.ts";

let dev: DevServer;
let browser: Browser;
beforeAll(async () => {
  if (!existsSync(join(ROOT, "dist/web/docs/start.html"))) await buildWeb(ROOT, join(ROOT, "dist/web"));
  dev = await startDev();
  browser = await openChromium();
}, 180_000);
afterAll(async () => {
  await browser.close();
  await dev.stop();
});

/** Opens a page; `faults` collects requests to other hosts and errors of the browser. */
async function open(options: BrowserContextOptions = {}): Promise<{ page: Page; faults: string[] }> {
  const page = await (await browser.newContext(options)).newPage();
  const faults: string[] = [];
  await page.route("**/*", (route) => {
    const url = route.request().url();
    if (url.startsWith(dev.url) || /^(?:data|blob):/.test(url)) return route.continue();
    faults.push(url);
    return route.abort();
  });
  page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
  page.on("pageerror", (error) => faults.push(error.message));
  return { page, faults };
}

const SIZES = { desk: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } };

describe.each(Object.entries(SIZES))("[10] the guides on a %s", (_, viewport) => {
  test("every guide fits the screen, requests no other host, violates no policy and has no broken link", async () => {
    const { page, faults } = await open({ viewport });
    const linked = new Set<string>();
    for (const { name, title } of readGuides()) {
      await page.goto(`${dev.url}${name === "start" ? "/docs" : `/docs/${name}`}`);
      await page.getByRole("heading", { level: 1, name: title }).waitFor();
      const sideways = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      expect([name, sideways]).toEqual([name, 0]);
      const { dead, paths } = await page.evaluate(() => {
        const links = [...document.querySelectorAll<HTMLAnchorElement>("main a, .guides a")];
        const own = links.filter(({ origin }) => origin === location.origin);
        const dead = own.filter(
          ({ pathname, hash }) =>
            pathname === location.pathname && hash !== "" && !document.getElementById(hash.slice(1)),
        );
        return { dead: dead.map(({ href }) => href), paths: own.map(({ pathname }) => pathname) };
      });
      expect([name, dead]).toEqual([name, []]);
      for (const path of paths) if (path.startsWith("/docs")) linked.add(path);
    }
    // The test requests the links itself, because a browser aborts requests when another test adds a network interface.
    for (const path of linked) expect([path, (await fetch(`${dev.url}${path}`)).status]).toEqual([path, 200]);
    expect(faults).toEqual([]);
  });
});

test("[10] the search finds a chapter with the keyboard alone", async () => {
  const { page, faults } = await open();
  await page.goto(`${dev.url}/docs`);
  await page.keyboard.press("/");
  await page.keyboard.type("verify signature");
  await page.getByRole("link", { name: "Webhooks: Verify it" }).waitFor();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/docs/webhooks#verify-it");
  await page.keyboard.press("/");
  await page.keyboard.type("kangaroo marmalade");
  await page.getByText("No guide contains all of these words.").waitFor();
  expect(faults).toEqual([]);
});

test("[10] the search ranks headings above prose and prose above code, and finds lists", async () => {
  const { page, faults } = await open();
  await page.goto(`${dev.url}/docs`);
  const found = async (text: string) => {
    await page.getByRole("searchbox").fill(text);
    await page.locator("#found a").first().waitFor();
    return page
      .locator("#found a")
      .evaluateAll((links) =>
        links.map((link) => (link as HTMLAnchorElement).pathname + (link as HTMLAnchorElement).hash),
      );
  };
  type Entry = { url: string; heading: string; text: string; code: string };
  const entries = (await (await fetch(`${dev.url}/docs/search.json`)).json()) as Entry[];
  const rank = (url: string, word: string) => {
    const entry = entries.find((one) => one.url === url);
    return entry?.heading.toLowerCase().includes(word) ? 0 : entry?.text.toLowerCase().includes(word) ? 1 : 2;
  };
  for (const word of ["webhook", "token", "recording", "verdict", "conversation"]) {
    const ranks = (await found(word)).map((url) => rank(url, word));
    expect([word, ranks]).toEqual([word, ranks.toSorted((a, b) => a - b)]);
  }
  expect(await found("docker")).not.toEqual([]);
  expect(faults).toEqual([]);
});

test("[10] every guide leads to the previous and the next one", async () => {
  const { page } = await open();
  const guides = readGuides();
  const urls = guides.map(({ name }) => (name === "start" ? "/docs" : `/docs/${name}`));
  await page.goto(`${dev.url}/docs`);
  expect(await page.locator(".turn [rel=prev]").count()).toBe(0);
  for (const url of urls.slice(1)) {
    await page.locator(".turn [rel=next]").click();
    await page.waitForURL(`${dev.url}${url}`);
  }
  expect(await page.locator(".turn [rel=next]").count()).toBe(0);
  await page.locator(".turn [rel=prev]").click();
  await page.waitForURL(`${dev.url}${urls.at(-2)}`);
}, 60_000);

test("[10] the copy button does not cover code on a phone", async () => {
  const { page } = await open({ viewport: SIZES.phone, hasTouch: true, isMobile: true });
  for (const { name } of readGuides()) {
    await page.goto(`${dev.url}${name === "start" ? "/docs" : `/docs/${name}`}`);
    const covered = await page.locator(".code").evaluateAll(
      (blocks) =>
        blocks.filter((block) => {
          const button = block.querySelector("button")?.getBoundingClientRect();
          const code = block.querySelector("code")?.getBoundingClientRect();
          return (
            button &&
            code &&
            getComputedStyle(block.querySelector("button") as Element).opacity === "1" &&
            button.bottom > code.top
          );
        }).length,
    );
    expect([name, covered]).toEqual([name, 0]);
  }
}, 60_000);

test("[10] llms.txt lists every guide as text", async () => {
  for (const path of ["/llms.txt", "/docs/llms.txt"]) {
    const response = await fetch(`${dev.url}${path}`);
    expect([path, response.status, response.headers.get("content-type")]).toEqual([
      path,
      200,
      "text/plain; charset=utf-8",
    ]);
    const text = await response.text();
    expect(text).toStartWith("# Stoa\n\n> ");
    for (const { name, title, text: guide } of readGuides()) {
      expect(text).toContain(`- [${title}](/docs/${name}.md): `);
      expect((await (await fetch(`${dev.url}/docs/${name}.md`)).text()).trim()).toBe(guide.trim());
    }
  }
  expect((await fetch(`${dev.url}/docs/no-such-guide.md`)).status).toBe(404);
});

test("the code blocks of the SDK guide run one after the other in a page of another origin", async () => {
  const blocks = blocksOf("web/docs/sdk.md");
  const html = blocks.find(({ language }) => language === "html")?.code.replaceAll("http://127.0.0.1:7000", dev.url);
  const site = Bun.serve({
    port: 0,
    hostname: "localhost",
    fetch: () => new Response(`<!doctype html><body>${html}`, { headers: { "content-type": "text/html" } }),
  });
  try {
    const page = await (await browser.newContext({ permissions: ["camera", "microphone"] })).newPage();
    await page.goto(site.url.origin);
    await page.waitForFunction(() => document.title === "function, function");
    const script = blocks.filter(({ info }) => info === "browser").map(({ code }) => code);
    expect(script.length).toBeGreaterThan(4);
    const given = await credentials();
    const said = await page.evaluate(
      async ({ script, sdk, given }) => {
        const AsyncFunction = (async () => {}).constructor as FunctionConstructor;
        const { connect, connectChat, RequestError } = await import(sdk);
        const names = {
          connect,
          connectChat,
          RequestError,
          ...given,
          renew: () => given.rtc,
          renewChat: () => given.chat,
        };
        try {
          await new AsyncFunction(...Object.keys(names), script)(...Object.values(names));
          return "done";
        } catch (error) {
          return String(error);
        }
      },
      { script: script.join("\n"), sdk: `${dev.url}/sdk.js`, given },
    );
    expect(said).toBe("done");
  } finally {
    await site.stop(true);
  }
}, 180_000);

async function credentials() {
  const api = async (path: string, body: object) => {
    const headers = { authorization: `Bearer ${dev.apiKey}`, "content-type": "application/json" };
    const response = await fetch(dev.url + path, { method: "POST", headers, body: JSON.stringify(body) });
    return (await response.json()) as { id: string };
  };
  const room = await api("/v1/rooms", { name: "sdk-guide" });
  const permissions = { publish: true, publishData: true };
  const rtc = await api(`/v1/rooms/${room.id}/rtc-tokens`, { participantIdentity: "ada", permissions });
  const talk = await api("/v1/chat/conversations", { name: "sdk-guide", members: [{ userId: "ada" }] });
  return { rtc, chat: await api("/v1/chat/tokens", { userId: "ada" }), conversation: talk.id };
}
