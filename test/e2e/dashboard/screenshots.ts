/** Checks a page on desktop and phone, in light and dark, and with axe. */
import { expect } from "bun:test";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";

const ROOT = join(import.meta.dir, "../../..");
const SCREENSHOTS = join(ROOT, ".screenshots");
const AXE = await Bun.file(join(ROOT, "node_modules/axe-core/axe.min.js")).text();

const DESK = { width: 1440, height: 900 };
const PHONE = { width: 390, height: 844 };

/** Screenshots take longer than the checks, so they are made only with `PICTURES=1 bin/test e2e/dashboard`. */
const { PICTURES } = process.env;

/**
 * Checks four views of a page, or two if the page behind a dialog was checked already. Screenshots are for people to
 * review.
 */
export async function examine(page: Page, name: string, views: "all" | "brief" = "all"): Promise<void> {
  mkdirSync(SCREENSHOTS, { recursive: true });
  // The backdrop of a dialog covers only the visible part.
  const fullPage = (await page.getByRole("dialog").count()) === 0;
  const screenshot = async (kind: string) => {
    await settle(page);
    if (PICTURES !== "1") return;
    await page.screenshot({ path: join(SCREENSHOTS, `${name}-${kind}.png`), fullPage, animations: "disabled" });
  };

  await page.setViewportSize(DESK);
  await page.emulateMedia({ colorScheme: "light" });
  await screenshot("1440-light");
  expect([name, await serious(page)]).toEqual([name, []]);
  await page.emulateMedia({ colorScheme: "dark" });
  if (views === "all") {
    await screenshot("1440-dark");
    // The other rules do not depend on the colours.
    expect([name, await serious(page, ["color-contrast"])]).toEqual([name, []]);
  }
  await page.setViewportSize(PHONE);
  await screenshot("390-dark");
  expect([name, await stillTooWide(page)]).toEqual([name, []]);
  await page.emulateMedia({ colorScheme: "light" });
  if (views === "all") await screenshot("390-light");
  await page.setViewportSize(DESK);
}

/** Waits until colour transitions have ended. */
const settle = (page: Page) =>
  page.evaluate(() => {
    for (const animation of document.getAnimations()) {
      if (Number.isFinite(animation.effect?.getComputedTiming().endTime)) animation.finish();
    }
  });

/** The elements that overflow the screen or are cut off in a scrolling container. */
const tooWide = (page: Page) =>
  page.evaluate(() => {
    const found = document.documentElement.scrollWidth > innerWidth ? ["the page"] : [];
    for (const frame of document.querySelectorAll<HTMLElement>(".table-frame, .card, .page-head, .top")) {
      if (frame.scrollWidth > frame.clientWidth + 1) found.push(`${frame.className}: ${frame.innerText.slice(0, 80)}`);
    }
    return found;
  });

/** Charts are redrawn after they have measured their width, which may take some frames. */
async function stillTooWide(page: Page): Promise<string[]> {
  let found = await tooWide(page);
  for (let frame = 0; found.length > 0 && frame < FRAMES_TO_DRAW; frame++) {
    await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(drawn)));
    found = await tooWide(page);
  }
  return found;
}

const FRAMES_TO_DRAW = 300;

type Finding = { id: string; impact: string | null; nodes: { html: string; failureSummary?: string }[] };

/** The serious and critical findings of axe, which is injected through the debugger because of the page's policy. */
async function serious(page: Page, rules?: string[]): Promise<string[]> {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(AXE);
  const findings = await page.evaluate(async (runOnly) => {
    const { axe } = window as unknown as {
      axe: { run(where: object, options: object): Promise<{ violations: Finding[] }> };
    };
    // The rows of a list are alike, so five of them are enough.
    const exclude = [["tbody tr:nth-child(n+6)"], [".story li:nth-child(n+6)"]];
    return (await axe.run({ exclude }, { ...(runOnly && { runOnly }), resultTypes: ["violations"] })).violations;
  }, rules);
  return findings
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes[0]?.html} ${nodes[0]?.failureSummary}`);
}
