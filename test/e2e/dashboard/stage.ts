/** A real server with its media node, a browser, and users who are signed in to the dashboard. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { buildWeb } from "../../../bin/build-web.ts";
import type { Config } from "../../../src/kernel/config/index.ts";
import type { ProjectRole } from "../../../src/protocol/enums.ts";
import { openChromium } from "../../harness/browsers.ts";
import { type RealServer, realServer } from "../../harness/real-server.ts";

const ROOT = join(import.meta.dir, "../../..");
export const WEB = join(ROOT, "dist/web");

/** The user agent of the sessions. */
const BROWSER = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36";

export type SignedInPage = {
  page: Page;
  context: BrowserContext;
  userId: string;
  /** Script errors and policy violations of the page. */
  complaints: string[];
  /** Opens a page of the project and waits until it is loaded. */
  open(path: string): Promise<void>;
};

export type Stage = {
  server: RealServer;
  browser: Browser;
  visitor(options?: { role?: ProjectRole; operator?: boolean }): Promise<SignedInPage>;
  /** The project's owner, who is also the operator. */
  owner(): Promise<SignedInPage>;
  stranger(): Promise<{ page: Page; complaints: string[] }>;
  close(): Promise<void>;
};

/** Launches a browser with a fake camera. */
export async function launch(args: readonly string[] = []): Promise<Browser> {
  if (!existsSync(join(WEB, "dashboard/index.html"))) await buildWeb(ROOT, WEB);
  return openChromium(...args);
}

export async function openStage(overrides: Partial<Config> = {}, args: readonly string[] = []): Promise<Stage> {
  const browser = await launch(args);
  const server = await realServer({
    RATE_LIMIT_TEST_TOKEN: 1000,
    SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 1000,
    ...overrides,
  });
  const { runtime, services, url, projectId } = server;

  async function newPage(context: BrowserContext) {
    const page = await context.newPage();
    page.setDefaultTimeout(45_000);
    const complaints: string[] = [];
    page.on("pageerror", (error) => complaints.push(error.message));
    page.on("console", (message) => {
      // The test that causes a refused request checks it.
      if (message.type() === "error" && !message.text().includes("status of 4")) complaints.push(message.text());
    });
    return { page, complaints };
  }

  async function signedIn(userId: string): Promise<SignedInPage> {
    const { refreshToken } = await runtime.write((unit) =>
      services.sessions.start(unit, userId, { ip: "127.0.0.1", userAgent: BROWSER }),
    );
    const context = await browser.newContext({
      viewport: { width: 1440, height: 900 },
      permissions: ["camera", "microphone"],
    });
    const cookie = { name: "stoa_refresh", value: refreshToken, httpOnly: true, sameSite: "Strict" as const };
    await context.addCookies([{ ...cookie, domain: "127.0.0.1", path: "/v1/auth" }]);
    const { page, complaints } = await newPage(context);
    return {
      page,
      context,
      userId,
      complaints,
      async open(path) {
        const address = path.startsWith("/") ? path : `/projects/${projectId}${path === "" ? "" : `/${path}`}`;
        if (!page.url().startsWith(url)) await page.goto(`${url}${address}`);
        else await follow(page, address);
        await loaded(page);
      },
    };
  }

  return {
    server,
    browser,
    async visitor({ role = "OWNER", operator = false } = {}) {
      const user = await runtime.write((unit) => {
        const email = `${role.toLowerCase()}-${runtime.ids.uuid().slice(-6)}@example.com`;
        const identity = { email, name: `Ada ${role}`, passwordHash: null, emailVerified: true, isOperator: operator };
        const created = services.users.create(unit, identity);
        services.members.join(unit, projectId, created.id, role);
        return created;
      });
      return signedIn(user.id);
    },
    async owner() {
      const user = services.users.findByEmail("owner@example.com");
      if (!user) throw new Error("the harness made no owner");
      return signedIn(user.id);
    },
    stranger: async () => newPage(await browser.newContext()),
    async close() {
      await browser.close();
      await server.close();
    },
  };
}

/**
 * Navigates like a link, without reloading the dashboard. It goes through a page without a heading first, because the
 * previous page stays until the next one is loaded and could be mistaken for it.
 */
async function follow(page: Page, address: string): Promise<void> {
  const go = (to: string) =>
    page.evaluate((next) => {
      history.pushState(null, "", next);
      dispatchEvent(new PopStateEvent("popstate"));
    }, to);
  await go("/nowhere");
  await page.getByText("This page does not exist.").waitFor();
  await go(address);
}

/** Resolves when the page has its heading and is not loading. */
export async function loaded(page: Page): Promise<void> {
  await page.locator("h1").first().waitFor();
  await page.waitForFunction(() => document.querySelector(".loading") === null);
}
