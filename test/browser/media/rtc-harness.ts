import type { Browser, Page } from "playwright-core";
import type { Api } from "../../harness/api.ts";

export type Stage = {
  endpoint: string;
  /** A page with the client in it, not joined yet. */
  page(browser: Browser): Promise<Page>;
  /** Joins and brings up media: publishes, and can receive `pairs` others. */
  enter(page: Page, token: string, pairs?: number): Promise<void>;
  close(): Promise<void>;
};

/** A page server beside the real one: another origin, as an application's own would be. */
export async function openStage(api: Api): Promise<Stage> {
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
  const endpoint = `${api.url.replace("http", "ws")}/v1/rtc`;
  return {
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
    close: () => pages.stop(true),
  };
}

/** Frames decoded, sound heard: `page` really receives `identity`. */
export function receives(page: Page, identity: string, frames = 15) {
  return page.evaluate(
    async ([who, count]) => {
      const { audio, video } = await window.rtc.watch(who);
      const { framesDecoded, frameHeight } = await window.rtc.decoded(video, count);
      return { framesDecoded, frameHeight, energy: await window.rtc.heard(audio), video };
    },
    [identity, frames] as const,
  );
}
