import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { type RunningServer, start } from "../../../src/server.ts";
import { testConfig } from "../../harness/test-config.ts";
import { examine } from "./screenshots.ts";
import { launch, loaded, WEB } from "./stage.ts";

const dataDir = mkdtempSync(join(tmpdir(), "stoa-first-run-"));
let server: RunningServer;
let browser: Browser;
let page: Page;
const complaints: string[] = [];
beforeAll(async () => {
  browser = await launch();
  server = await start(testConfig({ DATA_DIR: dataDir }));
  const context = await browser.newContext();
  await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: server.url });
  page = await context.newPage();
  page.setDefaultTimeout(60_000);
  page.on("pageerror", (error) => complaints.push(error.message));
}, 180_000);
afterAll(async () => {
  await browser?.close();
  await server?.stop("test over", 0);
  rmSync(dataDir, { recursive: true, force: true });
});

/** This must not block, because the command calls the server in this process. */
const outputOf = (command: string[]) => new Response(Bun.spawn(command, { stdout: "pipe" }).stdout).text();

describe("[8] an empty server", () => {
  let key = "";

  test("creates the operator account, then a project, then shows the key once with working snippets", async () => {
    await page.goto(server.url);
    await page.getByRole("heading", { name: "Create the operator account" }).waitFor();
    await examine(page, "first-run");
    await page.getByLabel("E-mail address").fill("ada@example.com");
    await page.getByLabel("Password").fill("short");
    await page.getByRole("button", { name: "Create the account" }).click();
    expect(await page.getByLabel("Password").evaluate((input: HTMLInputElement) => input.validity.valid)).toBe(false);
    await page.getByLabel("Password").fill("correct horse battery");
    await page.getByRole("button", { name: "Create the account" }).click();
    await page.getByLabel("Name", { exact: true }).fill("My application");
    await page.getByRole("button", { name: "Create the project" }).click();
    await page.getByRole("heading", { name: "Get started" }).waitFor();
    key = await page.locator("code").first().innerText();
    expect(key).toMatch(/^svk_dev_/);
    await examine(page, "first-run-key");
    expect(await page.getByLabel("Project").locator("option:checked").innerText()).toBe("My application");
    await page.getByRole("button", { name: "Copy API key" }).click();
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(key);

    const curl = await page.locator("pre").nth(1).innerText();
    expect(JSON.parse(await outputOf(["bash", "-c", curl]))).toMatchObject({ participantIdentity: "ada" });
    await page.getByRole("radio", { name: "JavaScript, server" }).click();
    const script = await page.locator("pre").nth(1).innerText();
    expect(await outputOf([process.execPath, "-e", script])).toContain("/v1/rtc");
    expect(await page.getByRole("link", { name: "Open the playground" }).getAttribute("href")).toBe("/playground");
  }, 180_000);

  test("after a reload the key is gone, the session remains, and scripts can find no token", async () => {
    await page.reload();
    await loaded(page);
    await page.getByRole("button", { name: "Create a development key" }).waitFor();
    expect(await page.locator("body").innerText()).not.toContain(key);
    const stored = await page.evaluate(() =>
      JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]),
    );
    expect(stored).not.toMatch(/eyJ|svk_/);
    expect(stored).not.toContain("stoa_refresh");
  }, 180_000);

  test("the environment is kept in the address and restored by going back, and production is marked", async () => {
    await page.getByRole("link", { name: "Rooms" }).click();
    await page.getByRole("heading", { name: "Rooms" }).waitFor();
    expect(new URL(page.url()).searchParams.get("environment")).toBe("DEVELOPMENT");
    await page.getByRole("radio", { name: "Production" }).click();
    await page.waitForURL(/environment=PRODUCTION/);
    await page.locator(".in-production").waitFor();
    await page.getByRole("link", { name: "Webhooks" }).click();
    await page.waitForURL(/webhooks\?environment=PRODUCTION/);
    await page.goBack();
    await page.getByRole("heading", { name: "Rooms" }).waitFor();
    await page.reload();
    await page.locator(".in-production").waitFor();
    await page.getByRole("radio", { name: "Development" }).click();
    await page.waitForURL(/environment=DEVELOPMENT/);
  }, 180_000);

  test("/ focuses the search and ? shows the shortcuts, but not while typing", async () => {
    const { id } = JSON.parse(await page.evaluate(() => JSON.stringify({ id: location.pathname.split("/")[2] })));
    await page.goto(`${server.url}/projects/${id}/api-keys`);
    await loaded(page);
    await page.locator("h1").click();
    await page.keyboard.press("/");
    expect(await page.evaluate(() => (document.activeElement as HTMLInputElement).type)).toBe("search");
    await page.keyboard.type("?/nothing");
    expect(await page.getByRole("dialog").count()).toBe(0);
    await page.getByText("Nothing here matches").waitFor();
    await page.locator("h1").click();
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
  }, 180_000);

  test("signing out and in with a changed password returns to the same page", async () => {
    const here = page.url();
    await page.getByRole("link", { name: "Your account" }).click();
    await page.getByLabel("Current password").fill("correct horse battery");
    await page.getByLabel("New password").fill("another horse battery");
    await page.getByRole("button", { name: "Change the password" }).click();
    await page.getByText("Your password was changed").waitFor();
    await page.goto(here);
    await loaded(page);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("E-mail address").fill("ada@example.com");
    await page.getByLabel("Password").fill("correct horse battery");
    await page.getByRole("button", { name: "Sign in", exact: true }).click();
    await page
      .getByRole("alert")
      .getByText(/req_[0-9a-f]{24}/)
      .waitFor();
    await page.getByLabel("Password").fill("another horse battery");
    await page.getByRole("button", { name: "Sign in", exact: true }).click();
    await page.getByRole("heading", { name: "API keys" }).waitFor();
    expect(complaints).toEqual([]);
  }, 180_000);
});

test("[8] the dashboard is smaller than 128 KB compressed", () => {
  const seen = new Set<string>();
  const visit = (path: string) => {
    if (seen.has(path)) return;
    seen.add(path);
    const text = readFileSync(join(WEB, path), "utf8");
    for (const [, next] of text.matchAll(/["'(./]assets\/([\w.-]+\.(?:js|css|svg))/g)) visit(`assets/${next}`);
    if (path.endsWith(".js"))
      for (const [, next] of text.matchAll(/["']\.\/([\w.-]+\.js)["']/g)) visit(`assets/${next}`);
  };
  visit("dashboard/index.html");
  const bytes = [...seen].reduce(
    (sum, path) => sum + Bun.gzipSync(readFileSync(join(WEB, path)), { level: 9 }).length,
    0,
  );
  console.log(`dashboard: ${seen.size} files, ${(bytes / 1024).toFixed(1)} KB compressed`);
  expect(seen.size).toBeGreaterThan(30);
  expect(bytes).toBeLessThan(128 * 1024);
});
