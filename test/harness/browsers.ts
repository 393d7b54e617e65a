import { type Browser, type BrowserContext, chromium } from "playwright-core";

const CHROMIUM_ARGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--use-fake-device-for-media-stream",
  "--use-fake-ui-for-media-stream",
  "--autoplay-policy=no-user-gesture-required",
  "--disable-background-timer-throttling",
  "--disable-renderer-backgrounding",
];

export const CHROMIUM = {
  executablePath: process.env.CHROMIUM_PATH ?? "/usr/bin/chromium",
  headless: true,
  args: CHROMIUM_ARGS,
};

/** Three cameras, as the second one delivers depth images, which cannot be encoded. */
export const THREE_CAMERAS = "--use-fake-device-for-media-stream=device-count=3";

/** The running Chromium of each set of flags; they end with this process. */
const running = new Map<string, Promise<Browser>>();

/** Chromium for one test file: its process is shared by the files of a folder, and `close` ends what this file has opened. */
export async function openChromium(...args: string[]): Promise<Browser> {
  const key = args.join(" ");
  let started = running.get(key);
  if (started === undefined || !(await started).isConnected()) {
    started = chromium.launch({ ...CHROMIUM, args: [...CHROMIUM_ARGS, ...args] });
    running.set(key, started);
  }
  return withOwnContexts(await started);
}

function withOwnContexts(browser: Browser): Browser {
  const contexts = new Set<BrowserContext>();
  const track = (context: BrowserContext) => {
    contexts.add(context);
    context.on("close", () => contexts.delete(context));
    return context;
  };
  const own: Pick<Browser, "newContext" | "newPage" | "contexts" | "close"> = {
    newContext: async (options) => track(await browser.newContext(options)),
    async newPage(options) {
      const page = await browser.newPage(options);
      track(page.context());
      return page;
    },
    contexts: () => [...contexts],
    close: async () => void (await Promise.all([...contexts].map((context) => context.close()))),
  };
  return new Proxy(browser, {
    get(target, name) {
      if (Object.hasOwn(own, name)) return own[name as keyof typeof own];
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
