import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { seedInstallation } from "./seed-installation.ts";
import { openStage, type SignedInPage, type Stage } from "./stage.ts";

let stage: Stage;
let scenery: Awaited<ReturnType<typeof seedInstallation>>;
let owner: SignedInPage;
let page: Page;
beforeAll(async () => {
  stage = await openStage({ USAGE_INCLUDED_MINUTES: 10_000 });
  scenery = await seedInstallation(stage);
  owner = await stage.owner();
  page = owner.page;
  await owner.context.grantPermissions(["clipboard-read", "clipboard-write", "camera", "microphone"]);
}, 180_000);
afterAll(async () => {
  await scenery?.close();
  await stage?.close();
});

const rows = () => page.locator("tbody tr");
const cell = (title: string) => page.locator(`tbody tr:first-child td[data-title="${title}"]`);
const day = (ms: number) => new Date(ms).toLocaleDateString("sv");

describe("[8] the list of calls", () => {
  test("shows quality, verdict and recording, and is filtered by them and by date", async () => {
    await owner.open("calls");
    expect(await cell("Quality").innerText()).toBe("Poor");
    expect(await cell("Verdict").innerText()).toBe("Uplink loss");
    await page.getByLabel("Quality").selectOption("excellent");
    await page.getByText("No calls match these filters.").waitFor();
    await page.getByLabel("Quality").selectOption("poor");
    await page.getByLabel("Verdict").selectOption("uplink_loss");
    await rows().first().waitFor();
    expect(new URL(page.url()).search).toContain("quality=poor&cause=uplink_loss");
    await page.getByLabel("From").fill(day(Date.now() + 86_400_000));
    await page.getByText("No calls match these filters.").waitFor();
    await page.getByLabel("From").fill(day(Date.now() - 86_400_000));
    await rows().first().waitFor();
    // The last day counts as a whole.
    await page.getByLabel("To").fill(day(Date.now()));
    await rows().first().waitFor();
    await page.getByLabel("To").fill(day(Date.now() - 86_400_000));
    await page.getByText("No calls match these filters.").waitFor();
    await page.getByLabel("To").fill("");
    await cell("Recording").getByRole("link").click();
    await page.getByRole("heading", { name: "Morning review" }).waitFor();
  }, 120_000);

  test("a call links to its recording, and its id is copied", async () => {
    await owner.open(`calls/${scenery.callId}`);
    await page.getByRole("button", { name: "Copy id" }).click();
    await page.getByText("Copied").waitFor();
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(scenery.callId);
    await page.getByRole("link", { name: "Recording", exact: true }).click();
    await page.getByRole("heading", { name: "Morning review" }).waitFor();
  }, 120_000);
});

test("[8] names and ids in tables stay on one line", async () => {
  for (const path of ["connections", "usage", "rooms"]) {
    await owner.open(path);
    const broken = await page.locator("td").evaluateAll((cells) =>
      cells
        .filter((one) => !one.classList.contains("prose") && !one.querySelector(".badge, button, select"))
        .filter((one) => {
          const range = document.createRange();
          range.selectNodeContents(one);
          return new Set([...range.getClientRects()].map(({ top }) => Math.round(top / 8))).size > 2;
        })
        .map((one) => (one as HTMLElement).innerText),
    );
    expect([path, broken]).toEqual([path, []]);
  }
}, 120_000);

test("[8] live streams are shown by their titles in the lists of rooms and conversations", async () => {
  for (const path of ["rooms", "chat"]) {
    await owner.open(path);
    await page.getByRole("link", { name: "Product launch", exact: true }).waitFor();
    expect(await page.locator("tbody").innerText()).not.toContain("stream_");
  }
}, 120_000);

test("[8] a configured allowance is shown", async () => {
  await owner.open("usage");
  await page.getByRole("img", { name: / % of the included minutes are used$/ }).waitFor();
  await page.getByText("10,000 min").waitFor();
  const member = await stage.visitor({ role: "VIEWER" });
  await member.open("usage");
  await member.page.getByText("count toward its owner's allowance").waitFor();
  await member.context.close();
}, 120_000);

test("[8] the overview shows the minutes of the selected environment, and its figures fill their rows", async () => {
  await owner.open("");
  const minutes = page.getByRole("link", { name: /^Minutes used [1-9][\d,]* this month/ });
  await minutes.waitFor();
  const gaps = async (width: number) => {
    await page.setViewportSize({ width, height: 900 });
    return page.locator(".tiles").evaluate((tiles) => {
      const right = tiles.getBoundingClientRect().right;
      const rows = new Map<number, number>();
      for (const tile of tiles.children) {
        const { top, right: end } = tile.getBoundingClientRect();
        rows.set(top, Math.max(rows.get(top) ?? 0, end));
      }
      return [...rows.values()].filter((end) => right - end > 1).length;
    });
  };
  for (const width of [390, 800, 1024, 1280, 1440]) expect([width, await gaps(width)]).toEqual([width, 0]);
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.getByRole("radio", { name: "Production" }).click();
  await page.getByRole("link", { name: /^Minutes used 0 this month/ }).waitFor();
  await page.getByRole("radio", { name: "Development" }).click();
  await minutes.waitFor();
}, 120_000);

test("[8] the theme is chosen, applies at once and survives a reload", async () => {
  await page.emulateMedia({ colorScheme: "light" });
  await owner.open("rooms");
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  const press = () => page.getByRole("button", { name: /^Theme: / }).click();
  await press();
  expect(await ground()).toBe(light);
  await press();
  const dark = await ground();
  expect(dark).not.toBe(light);
  await page.reload();
  await page.getByRole("button", { name: "Theme: dark" }).waitFor();
  expect(await ground()).toBe(dark);
  await press();
  await page.getByRole("button", { name: "Theme: system" }).waitFor();
  expect(await ground()).toBe(light);
  await page.emulateMedia({ colorScheme: "dark" });
  expect(await ground()).toBe(dark);
  await press();
  expect(await ground()).toBe(light);
  await press();
  await press();
  await page.emulateMedia({ colorScheme: "light" });
}, 120_000);

test("[8] Ctrl-K finds pages, rooms, calls and people with the keyboard alone", async () => {
  await owner.open("settings");
  const find = async (text: string, title: RegExp) => {
    await page.keyboard.press("Control+k");
    const box = page.getByRole("combobox", { name: "Find a page, room, call or person" });
    await box.waitFor();
    await page.keyboard.type(text);
    await page.getByRole("option", { name: title }).first().waitFor();
  };
  const at = (path: RegExp) => page.waitForURL(path);
  await find("webh", /^Webhooks Page/);
  await page.keyboard.press("Enter");
  await at(/\/webhooks(\?|$)/);
  await find("design-review room", /^design-review Room/);
  await page.keyboard.press("Enter");
  await at(/\/rooms\/[0-9a-f-]{36}/);
  await find("call morning", /^Call in morning-review Call/);
  await page.keyboard.press("Enter");
  await at(/\/calls\/call_/);
  await find("katherine", /^katherine Person/);
  await page.keyboard.press("Enter");
  await at(/\/people\?userId=katherine/);
  await find(scenery.callId, /Call/);
  await page.keyboard.press("Enter");
  await at(new RegExp(`/calls/${scenery.callId}`));
  // The arrows move the choice, and Escape closes without going anywhere.
  await find("", /^Rooms Page/);
  const selected = () => page.locator(".palette [aria-selected=true]").innerText();
  const first = await selected();
  await page.keyboard.press("ArrowDown");
  expect(await selected()).not.toBe(first);
  await page.keyboard.press("ArrowUp");
  expect(await selected()).toBe(first);
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  expect(new URL(page.url()).pathname).toContain(scenery.callId);
  expect(owner.complaints).toEqual([]);
}, 120_000);
