import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { seedInstallation } from "./seed-installation.ts";
import { loaded, openStage, type SignedInPage, type Stage } from "./stage.ts";

let stage: Stage;
let scenery: Awaited<ReturnType<typeof seedInstallation>>;
let owner: SignedInPage;
let page: Page;
beforeAll(async () => {
  stage = await openStage();
  scenery = await seedInstallation(stage);
  owner = await stage.owner();
  page = owner.page;
}, 180_000);
afterAll(async () => {
  await scenery?.close();
  await stage?.close();
});

const parameter = (name: string) => new URL(page.url()).searchParams.get(name);

describe("[8] the overview", () => {
  test("plots the selected period with a text alternative, and shows the value under the pointer", async () => {
    await owner.open("");
    const joins = page.getByRole("img", { name: /^Joins\./ });
    expect(await joins.getAttribute("aria-label")).toMatch(/Joined: now \d+, at most [1-9]/);
    await page.getByRole("radio", { name: "24h" }).click();
    await page.waitForFunction(() => new URL(location.href).searchParams.get("range") === "24h");
    await page.getByRole("link", { name: /^Join success 9\d % 2\d\d connections/ }).waitFor();
    const days = page.locator("figure").filter({ hasText: "Participant-minutes by day" });
    await days.locator(".u-over").hover();
    await days.getByText(/^Minutes [1-9]\d*$/).waitFor();
    await page.goto(page.url());
    await loaded(page);
    expect(await page.getByRole("radio", { name: "24h" }).isChecked()).toBe(true);
  }, 180_000);

  test("shows the project's minutes to every member, and those of all projects to the paying account", async () => {
    await owner.open("usage");
    await page.getByRole("heading", { name: "Your account this month" }).waitFor();
    // This server has no allowance.
    expect(await page.getByText("Included").count()).toBe(0);
    expect(await page.locator(".ring").count()).toBe(0);
    await page.getByRole("list", { name: "Minutes by project" }).getByText("Acme Events").waitFor();
    const member = await stage.visitor({ role: "VIEWER" });
    await member.open("usage");
    await member.page.getByRole("img", { name: /^This project by day/ }).waitFor();
    expect(await member.page.getByRole("list", { name: "Minutes by project" }).count()).toBe(0);
    await member.context.close();
  }, 180_000);
});

describe("[8] connections and errors", () => {
  test("a connection is found by its state, and the marks of its timeline link to the events", async () => {
    await owner.open("connections");
    await page.getByLabel("State").selectOption("FAILED");
    await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 7);
    expect(parameter("state")).toBe("FAILED");
    expect(await page.locator("tbody .badge").allInnerTexts()).toEqual(Array(7).fill("Failed"));
    await page.locator("tbody a").first().click();
    await page.getByText("What to do:").waitFor();
    await page.goBack();
    await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 7);

    await owner.open(`connections/${scenery.connectionId}`);
    const band = page.locator(".timeline .band");
    expect(await band.getAttribute("aria-label")).toContain(
      "Connected for 8 min 0 s, then Reconnecting for 1 min 0 s, then",
    );
    expect(await band.locator("span").count()).toBe(4);
    await page.locator(".mark.Errors").click();
    expect(new URL(page.url()).hash).toBe("#event-15");
    expect(await page.locator(".story li:target").innerText()).toContain("The camera was unplugged.");
  }, 180_000);

  test("errors are counted by category, and the filter by category is kept in the address", async () => {
    await owner.open("errors");
    const kinds = page.getByRole("list", { name: "Errors by kind" });
    expect(await kinds.getByRole("button").allInnerTexts()).toHaveLength(4);
    await kinds.getByRole("button", { name: /^ICE error/ }).click();
    // Three identical errors are one card with their number, each sentence once.
    await page.waitForFunction(() => document.querySelectorAll(".error-card").length === 1);
    await page.getByText("3 times", { exact: true }).waitFor();
    expect(await page.getByText("The client found no network path to the media server.").count()).toBe(1);
    expect(await page.getByRole("link", { name: "Connection", exact: true }).count()).toBe(3);
    expect(parameter("category")).toBe("ICE_ERROR");
    await page.getByRole("radio", { name: "1h" }).click();
    await page.getByText("3 times", { exact: true }).waitFor({ state: "detached" });
    await page.goto(page.url());
    await loaded(page);
    expect(await page.locator(".error-card").count()).toBe(1);
    await page.getByRole("button", { name: "Only ICE error ×" }).click();
    await page.waitForFunction(() => document.querySelectorAll(".error-card").length === 4);
  }, 180_000);
});

describe("[8] live data", () => {
  test("updates without reloading", async () => {
    await owner.open("rooms");
    await page.getByRole("link", { name: "design-review" }).waitFor();
    await stage.server.room("made-elsewhere");
    await page.getByRole("link", { name: "made-elsewhere" }).waitFor();
  }, 180_000);

  test("keeps its last values while the server is unreachable", async () => {
    await owner.open("rooms");
    // Becoming visible makes the page poll at once.
    const look = () => page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
    await page.route(/\/rooms\?/, (route) => route.abort());
    await look();
    await page.getByText("Not up to date: The server cannot be reached.").waitFor();
    await page.getByRole("link", { name: "design-review" }).waitFor();
    await page.unroute(/\/rooms\?/);
    await look();
    await page.getByText("Not up to date").waitFor({ state: "detached" });
    owner.complaints.length = 0;
  }, 180_000);

  test("is not polled while the page is hidden", async () => {
    const tab = await owner.context.newPage();
    await tab.clock.install();
    await tab.goto(`${stage.server.url}/projects/${stage.server.projectId}/rooms`);
    await loaded(tab);
    const visibility = (state: "hidden" | "visible") =>
      tab.evaluate((value) => {
        Object.defineProperty(document, "visibilityState", { value, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
      }, state);
    const poll = () => tab.waitForRequest(/\/rooms\?/);
    const watched = poll();
    await tab.clock.fastForward(6_000);
    await watched;

    await visibility("hidden");
    const asked: string[] = [];
    tab.on("request", (request) => asked.push(request.url()));
    for (let minute = 0; minute < 5; minute++) await tab.clock.fastForward(60_000);
    expect(asked).toEqual([]);
    const again = poll();
    await visibility("visible");
    await again;
    await tab.close();
    expect(owner.complaints).toEqual([]);
  }, 180_000);
});
