import type { Browser, Page } from "playwright-core";
import { type RealServer, realServer } from "../../harness/running.ts";

export type Stage = {
  server: RealServer;
  endpoint: string;
  /** A page with the client in it, not joined yet. */
  page(browser: Browser): Promise<Page>;
  /** Joins and brings up media: publishes, and can receive `pairs` others. */
  enter(page: Page, token: string, pairs?: number): Promise<void>;
  close(): Promise<void>;
};

/** The real server, and a page server beside it: another origin, as an application's own would be. */
export async function openStage(): Promise<Stage> {
  const server = await realServer({ SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 10_000, RATE_LIMIT_RTC_TOKENS: 10_000 });
  const built = await Bun.build({ entrypoints: [`${import.meta.dir}/rtc-page.ts`], target: "browser" });
  const script = (await built.outputs[0]?.text()) ?? "";
  const pages = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: ({ url }) =>
      url.endsWith("/page.js")
        ? new Response(script, { headers: { "content-type": "text/javascript" } })
        : new Response('<!doctype html><body><script type="module" src="/page.js"></script>', {
            headers: { "content-type": "text/html" },
          }),
  });
  const endpoint = `${server.url.replace("http", "ws")}/v1/rtc`;
  return {
    server,
    endpoint,
    async page(browser) {
      const page = await browser.newPage();
      page.on("pageerror", (error) => console.error(error));
      await page.goto(`http://127.0.0.1:${pages.port}/`);
      await page.waitForFunction(() => typeof window.openRtc === "function");
      return page;
    },
    async enter(page, token, pairs = 2) {
      await page.evaluate(
        async ([url, credential, count]) => {
          const rtc = window.openRtc();
          await rtc.join(url, credential);
          await rtc.publish();
          rtc.receive(count);
          await rtc.offer();
        },
        [endpoint, token, pairs] as const,
      );
    },
    async close() {
      await pages.stop(true);
      await server.close();
    },
  };
}
