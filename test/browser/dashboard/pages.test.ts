import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { type Seeded, seed } from "./seed.ts";
import { loaded, openStage, type Stage, type Visitor } from "./stage.ts";

const ROOT = join(import.meta.dir, "../../..");
const SCREENSHOTS = join(ROOT, ".screenshots");
const AXE = await Bun.file(join(ROOT, "node_modules/axe-core/axe.min.js")).text();

let stage: Stage;
let seeded: Seeded;
let owner: Visitor;
beforeAll(async () => {
  mkdirSync(SCREENSHOTS, { recursive: true });
  stage = await openStage({ WEBHOOK_BACKOFF_BASE_MS: 200 });
  seeded = await seed(stage);
  owner = await stage.visitor({ role: "OWNER", operator: true });
}, 120_000);
afterAll(async () => {
  await seeded?.close();
  await stage?.close();
});

const PAGES: [name: string, path: () => string][] = [
  ["projects", () => "/"],
  ["account", () => "/account"],
  ["servers", () => "/servers"],
  ["overview", () => ""],
  ["start", () => "start"],
  ["rooms", () => "rooms"],
  ["room", () => `rooms/${seeded.roomId}`],
  ["live-streams", () => "live-streams"],
  ["live-stream", () => `live-streams/${seeded.streamId}`],
  ["chat", () => "chat"],
  ["chat-connections", () => "chat/connections"],
  ["conversation", () => `chat/conversations/${seeded.conversationId}`],
  ["connections", () => "connections"],
  ["connection", () => `connections/${seeded.connectionId}`],
  ["errors", () => "errors"],
  ["diagnostics", () => "diagnostics"],
  ["usage", () => "usage"],
  ["api-keys", () => "api-keys"],
  ["webhooks", () => "webhooks"],
  ["webhook", () => `webhooks/${seeded.webhookId}`],
  ["delivery", () => `webhooks/${seeded.webhookId}/deliveries/${seeded.deliveryId}`],
  ["members", () => "members"],
  ["audit-log", () => "audit-log"],
  ["settings", () => "settings"],
];

describe("[8] every page", () => {
  test.each(PAGES)(
    "%s shows its data, breaks no rule of access, and runs nothing that users wrote",
    async (name, path) => {
      const { page } = owner;
      await page.emulateMedia({ colorScheme: "light" });
      await page.setViewportSize({ width: 1440, height: 900 });
      await owner.open(path());
      await picture(page, `${name}-1440-light`);
      expect(await serious(page)).toEqual([]);
      await page.emulateMedia({ colorScheme: "dark" });
      await picture(page, `${name}-1440-dark`);
      expect(await serious(page)).toEqual([]);
      await page.setViewportSize({ width: 390, height: 844 });
      await picture(page, `${name}-390-dark`);
      expect(await overflow(page)).toBeLessThanOrEqual(0);
      await page.emulateMedia({ colorScheme: "light" });
      await picture(page, `${name}-390-light`);
      expect(await page.evaluate(() => "hacked" in window)).toBe(false);
      expect(owner.complaints).toEqual([]);
    },
    120_000,
  );

  test("sign-in is as good", async () => {
    const { page, complaints } = await stage.stranger();
    await page.goto(stage.server.url);
    await loaded(page);
    await page.getByRole("button", { name: "Sign in" }).waitFor();
    await picture(page, "sign-in-1440-light");
    expect(await serious(page)).toEqual([]);
    expect(complaints).toEqual([]);
    await page.context().close();
  }, 60_000);
});

const picture = (page: Page, name: string) =>
  page.screenshot({ path: join(SCREENSHOTS, `${name}.png`), fullPage: true, animations: "disabled" });

/** By how much the page is wider than the screen. */
const overflow = (page: Page) => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);

type Finding = { id: string; impact: string | null; nodes: { html: string; failureSummary?: string }[] };

/** What axe calls serious or worse. It is evaluated by the debugger, which the page's policy does not bind. */
async function serious(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const findings = await page.evaluate(async () => {
    const { axe } = window as unknown as { axe: { run(): Promise<{ violations: Finding[] }> } };
    return (await axe.run()).violations;
  });
  return findings
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes[0]?.html} ${nodes[0]?.failureSummary}`);
}
