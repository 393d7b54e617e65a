import { afterAll, beforeAll, expect, test } from "bun:test";
import { Stoa } from "../../../web/sdk/server.ts";
import { blockFor } from "../../web/docs/blocks.ts";
import { type Firefox, launchFirefox } from "./firefox.ts";
import { type PushService, startPushService } from "./push-service.ts";
import type { Scripted } from "./scripted.ts";
import { type ServerProcess, startServer } from "./server-process.ts";
import { serveSite } from "./stage.ts";

const WAIT = { timeout: 60_000 };
/** The guide's service worker, which also reports its push payloads, because a test cannot see notifications. */
const WORKER = `
${blockFor("web/docs/push.md", "push-worker.js")}
self.addEventListener("push", (event) => {
  const channel = new BroadcastChannel("pushes");
  channel.postMessage(event.data.json());
});`;

let server: ServerProcess;
let service: PushService;
let site: Awaited<ReturnType<typeof serveSite>>;
let firefox: Firefox;
let page: Scripted;
let stoa: Stoa;
let room: string;

declare global {
  interface Window {
    pushes: { type: string; text: string | null; senderId: string }[];
    worker: ServiceWorkerRegistration;
  }
}

beforeAll(async () => {
  service = startPushService();
  const preferences = {
    "dom.push.serverURL": service.socketUrl,
    "dom.push.testing.allowInsecureServerURL": true,
    "dom.push.testing.ignorePermission": true,
    // An automated Firefox does not connect to its push service by default.
    "remote.prefs.recommended": false,
    "permissions.default.desktop-notification": 1,
    // Without a desktop Firefox must show notifications itself, or it would revoke the subscription.
    "alerts.useSystemBackend": false,
  };
  [server, site, firefox] = await Promise.all([
    startServer(),
    serveSite("localhost", { "/push-worker.js": WORKER }),
    launchFirefox({ preferences }),
  ]);
  stoa = new Stoa({ url: server.url, apiKey: server.apiKey });
  const members = [{ userId: "ada" }, { userId: "grace" }];
  ({ id: room } = await stoa.conversations.create({ name: "pushed", members }));
  page = await firefox.page(site.url.origin);
}, 180_000);
afterAll(async () => {
  await firefox?.close();
  await Promise.all([server?.close(), site?.stop(true), service?.close()]);
});

const write = (text: string) => stoa.messages.send(room, { senderId: "ada", text });

test("[19] enablePush subscribes a browser, and a message wakes its service worker when no socket is open", async () => {
  await page.evaluate(
    async ({ endpoint, token }) => {
      const path = "/sdk.js";
      window.sdk = await import(path);
      window.pushes = [];
      new BroadcastChannel("pushes").onmessage = ({ data }) => window.pushes.push(data);
      window.worker = await navigator.serviceWorker.register("/push-worker.js");
      await navigator.serviceWorker.ready;
      window.chat = await window.sdk.connectChat(endpoint, token);
      await window.chat.enablePush(window.worker);
    },
    await stoa.chatTokens.mint({ userId: "grace" }),
  );
  expect(await Array.fromAsync(stoa.push.subscriptions({ userId: "grace" }))).toHaveLength(1);
  // The user has an open socket, so there is no push.
  await write("seen at once");
  await page.evaluate(() => window.chat.close(), undefined);
  await page.waitForFunction(() => window.chat.state === "DISCONNECTED", undefined, WAIT);
  await until(async () => {
    await write("are you there?");
    return service.posted.length > 0;
  });
  await page.waitForFunction(() => window.pushes.length > 0, undefined, WAIT);
  const [first] = await page.evaluate(() => window.pushes, undefined);
  expect(first).toMatchObject({ type: "message", senderId: "ada", text: "are you there?", conversationId: room });
  expect(service.posted[0]?.headers.get("content-encoding")).toBe("aes128gcm");
  await page.waitForFunction(async () => (await window.worker.getNotifications()).length > 0, undefined, WAIT);
}, 180_000);

test("[19] disablePush unsubscribes in the browser and on the server", async () => {
  await page.evaluate(
    async ({ endpoint, token }) => {
      window.chat = await window.sdk.connectChat(endpoint, token);
      await window.chat.disablePush(window.worker);
    },
    await stoa.chatTokens.mint({ userId: "grace" }),
  );
  expect(await page.evaluate(async () => await window.worker.pushManager.getSubscription(), undefined)).toBeNull();
  expect(await Array.fromAsync(stoa.push.subscriptions({ userId: "grace" }))).toEqual([]);
}, 180_000);

/** Polls every second. */
async function until(holds: () => Promise<boolean>): Promise<void> {
  for (const end = Date.now() + WAIT.timeout; Date.now() < end; await Bun.sleep(1_000)) if (await holds()) return;
  throw new Error("the condition was not fulfilled in time");
}
