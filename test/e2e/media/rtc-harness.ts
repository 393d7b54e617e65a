import type { Browser, Page } from "playwright-core";
import type { Api } from "../../harness/api.ts";

/** A server and a browser. */
export type Scene = { stage: Stage; browser: Browser; api: Api };
/** A participant with its page. */
export type Client = { identity: string; page: Page; token: string };
/** Three participants in a room; see scenarios/ for what they do. */
export type Call = { roomId: string; ann: Client; ben: Client; cas: Client };

export type Stage = {
  endpoint: string;
  /** Opens a page with the client, without joining. */
  page(browser: Browser): Promise<Page>;
  /** Joins, publishes, opens data channels, and adds receiving sections for `pairs` others. */
  enter(page: Page, token: string, pairs?: number): Promise<void>;
  close(): Promise<void>;
};

/** Serves the pages on another origin, as an application would. */
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
    async enter(page, token, pairs = 3) {
      await page.evaluate(
        async ([url, credential, count]) => {
          const rtc = window.openRtc();
          await rtc.join(url, credential);
          await rtc.publish();
          rtc.receive(count);
          rtc.openChannels();
          await rtc.offer();
        },
        [endpoint, token, pairs] as const,
      );
    },
    close: () => pages.stop(true),
  };
}

/** Mints a token and joins with it on a new page. */
export async function joinOnNewPage({ stage, browser, api }: Scene, roomId: string, identity: string): Promise<Client> {
  const [page, { token }] = await Promise.all([stage.page(browser), api.mint(roomId, identity)]);
  await stage.enter(page, token);
  return { identity, page, token };
}

/** Resolves when `page` decodes frames and receives audio of `identity`. */
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
