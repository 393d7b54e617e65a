import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { HOSTILE, type Planted, plantHostileTexts } from "./hostile.ts";
import { openStage, type SignedInPage, type Stage } from "./stage.ts";

const MARK = "window.hacked=1";
let stage: Stage;
let planted: Planted;
let owner: SignedInPage;
let page: Page;
beforeAll(async () => {
  stage = await openStage({ WEBHOOK_BACKOFF_BASE_MS: 60_000 });
  planted = await plantHostileTexts(stage);
  owner = await stage.owner();
  page = owner.page;
}, 180_000);
afterAll(() => stage?.close());

/** The pages that show texts of users, with the minimum number of hostile texts on each, so that an empty page fails. */
const PAGES: [name: string, path: () => string, least: number][] = [
  ["projects", () => "/", 2],
  ["account", () => "/account", 2],
  ["servers", () => "/servers", 2],
  ["overview", () => "", 2],
  ["start", () => "start", 2],
  ["rooms", () => "rooms", 2],
  ["room", () => `rooms/${planted.roomId}`, 9],
  ["live-streams", () => "live-streams", 3],
  ["live-stream", () => `live-streams/${planted.streamId}`, 5],
  ["chat", () => "chat", 2],
  ["chat-connections", () => "chat/connections", 3],
  ["conversation", () => `chat/conversations/${planted.conversationId}`, 2],
  ["connections", () => "connections", 3],
  ["connection", () => `connections/${planted.connectionId}`, 6],
  ["errors", () => "errors", 3],
  ["diagnostics", () => "diagnostics", 2],
  ["usage", () => "usage", 4],
  ["api-keys", () => "api-keys", 3],
  ["webhooks", () => "webhooks", 2],
  ["webhook", () => `webhooks/${planted.webhookId}`, 4],
  ["delivery", () => `webhooks/${planted.webhookId}/deliveries/${planted.deliveryId}`, 4],
  ["members", () => "members", 4],
  ["audit-log", () => "audit-log", 2],
  ["settings", () => "settings", 2],
];

/** Whether any hostile text was executed or inserted as an element. */
const harm = () =>
  page.evaluate(() => ({
    ran: "hacked" in window,
    elements: document.querySelectorAll("img, main script, svg[onload], [onerror], [href^=javascript]").length,
  }));
const HARMLESS = { ran: false, elements: 0 };

describe("[8] texts of users are shown as text", () => {
  test.each(PAGES)(
    "%s",
    async (name, path, least) => {
      await owner.open(path());
      const shown = (await page.locator("body").innerText()).split(MARK).length - 1;
      const fields = await page
        .locator("input, textarea")
        .evaluateAll((inputs) => inputs.map((input) => (input as HTMLInputElement).value).join());
      expect([name, shown + fields.split(MARK).length - 1 >= least]).toEqual([name, true]);
      expect([name, await harm()]).toEqual([name, HARMLESS]);
      expect(owner.complaints).toEqual([]);
    },
    60_000,
  );

  test("dialogs, confirmations and toasts show texts of users as text", async () => {
    await owner.open(`live-streams/${planted.streamId}`);
    await page.getByRole("button", { name: "Edit" }).click();
    await page.locator("summary").click();
    expect(await page.getByLabel("Thumbnail address").inputValue()).toBe("javascript:window.hacked=1");
    expect(await harm()).toEqual(HARMLESS);

    await owner.open("api-keys");
    await page.getByRole("button", { name: `Revoke ${HOSTILE}` }).click();
    await page.getByRole("dialog").getByText(`Every request with ${HOSTILE}`).waitFor();
    expect(await harm()).toEqual(HARMLESS);

    await owner.open("settings");
    await page.getByRole("button", { name: "Archive the project" }).click();
    await page.getByLabel(`Type ${HOSTILE} to go on`).fill(HOSTILE);
    await page.getByRole("dialog").getByRole("button", { name: "Archive" }).click();
    await page.locator(".toast").getByText(`${HOSTILE} was archived.`).waitFor();
    expect(await harm()).toEqual(HARMLESS);
    expect(await page.title()).not.toContain("undefined");
  }, 180_000);
});
