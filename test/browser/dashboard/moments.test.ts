import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { examine } from "./pictures.ts";
import { decorate } from "./scenery.ts";
import { type Seeded, seed } from "./seed.ts";
import { loaded, openStage, type Stage, type Visitor } from "./stage.ts";

let stage: Stage;
let seeded: Seeded;
let scenery: Awaited<ReturnType<typeof decorate>>;
let owner: Visitor;
let page: Page;
beforeAll(async () => {
  stage = await openStage({ WEBHOOK_BACKOFF_BASE_MS: 200 });
  seeded = await seed(stage);
  scenery = await decorate(stage);
  owner = await stage.owner();
  page = owner.page;
}, 120_000);
afterAll(async () => {
  await scenery?.close();
  await seeded?.close();
  await stage?.close();
});

const button = (name: string) => page.getByRole("button", { name, exact: true });

/** What is seen only after a click. */
const MOMENTS: [name: string, path: () => string, act: () => Promise<unknown>][] = [
  ["dialog-new-project", () => "/", () => button("New project").click()],
  ["dialog-create-room", () => "rooms", () => button("Create a room").click()],
  [
    "dialog-refused",
    () => "rooms",
    async () => {
      await button("Create a room").click();
      await page.getByLabel("Name").fill("not a name!");
      await button("Create").click();
      await page.getByText("must be 1-128").waitFor();
    },
  ],
  ["dialog-create-stream", () => "live-streams", () => button("Create a live stream").click()],
  [
    "dialog-add-webhook",
    () => "webhooks",
    async () => {
      await button("Add an endpoint").click();
      await page.locator("summary").click();
    },
  ],
  ["dialog-recover", () => `webhooks/${seeded.webhookId}`, () => button("Recover").click()],
  ["dialog-secret", () => `webhooks/${seeded.webhookId}`, () => button("Rotate the secret").click()],
  ["dialog-add-member", () => "members", () => button("Add a member").click()],
  ["dialog-confirm", () => `rooms/${seeded.roomId}`, () => button("Close the room").click()],
  ["dialog-archive", () => "settings", () => button("Archive the project").click()],
  ["dialog-keys", () => "rooms", () => page.keyboard.press("?")],
  ["toast-done", () => `webhooks/${seeded.webhookId}`, () => button("Send a test").click()],
  [
    "toast-refused",
    () => "members",
    async () => {
      await page.getByLabel("Role of owner@example.com").selectOption("VIEWER");
      await page.locator(".toast").getByText("req_").waitFor();
    },
  ],
  ["not-found", () => "rooms/01900000-0000-7000-8000-000000000000", () => page.getByRole("alert").waitFor()],
  ["nothing-matches", () => "connections", () => page.getByRole("searchbox").fill("nobody of that name")],
  ["no-such-page", () => "/no/such/page", async () => {}],
  [
    "call",
    () => `rooms/${seeded.roomId}`,
    async () => {
      await button("Join as a test user").click();
      await page.waitForFunction(() => document.querySelectorAll(".video-tiles video").length === 3);
      await page.locator(".call").getByText("↓").waitFor();
    },
  ],
  [
    "connection-test",
    () => "diagnostics",
    async () => {
      await button("Test this connection").click();
      await page.getByText("All is well").waitFor();
    },
  ],
];

describe("[8] every moment", () => {
  test.each(MOMENTS)(
    "%s",
    async (name, path, act) => {
      await page.goto("about:blank");
      await page.goto(
        new URL(path().startsWith("/") ? path() : `/projects/${stage.server.projectId}/${path()}`, stage.server.url)
          .href,
      );
      await page.locator("h1, [role=alert], .empty").first().waitFor();
      await page.waitForFunction(() => document.querySelector(".loading") === null);
      await act();
      await examine(page, name);
      expect(owner.complaints).toEqual([]);
    },
    120_000,
  );

  test("the menu of the phone leads everywhere", async () => {
    await page.setViewportSize({ width: 390, height: 844 });
    await owner.open("rooms");
    await button("Menu").click();
    await page.getByRole("link", { name: "Webhooks" }).waitFor();
    await examine(page, "menu");
  }, 60_000);

  test("a project in which nothing happened yet says what comes next", async () => {
    const { runtime, services, url } = stage.server;
    const { id } = await runtime.write(() => services.projects.create(owner.userId, { name: "Fresh" }));
    for (const name of [
      "",
      "rooms",
      "live-streams",
      "chat",
      "connections",
      "errors",
      "usage",
      "webhooks",
      "api-keys",
    ]) {
      await page.goto(`${url}/projects/${id}/${name}`);
      await loaded(page);
      await examine(page, `empty-${name || "overview"}`);
    }
    expect(owner.complaints).toEqual([]);
  }, 120_000);
});
