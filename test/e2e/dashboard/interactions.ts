/** States of pages that appear only after a click or an error. */
import type { Page } from "playwright-core";
import type { Seeded } from "./seed.ts";

type Interaction = [name: string, path: (seeded: Seeded) => string, act: (page: Page) => Promise<unknown>];

const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });
const click = (name: string) => (page: Page) => button(page, name).click();

const firstLivekitSecret = (page: Page) =>
  page
    .getByRole("button", { name: /^LiveKit secret of / })
    .first()
    .click();

export const INTERACTIONS: Interaction[] = [
  ["dialog-new-project", () => "/", click("New project")],
  [
    "dialog-refused",
    () => "rooms",
    async (page) => {
      await button(page, "Create a room").click();
      await page.getByLabel("Name").fill("not a name!");
      await button(page, "Create").click();
      await page.getByText("must be 1-128").waitFor();
    },
  ],
  ["dialog-create-stream", () => "live-streams", click("Create a live stream")],
  [
    "dialog-add-webhook",
    () => "webhooks",
    async (page) => {
      await button(page, "Add an endpoint").click();
      await page.locator("summary").click();
    },
  ],
  ["dialog-recover", ({ webhookId }) => `webhooks/${webhookId}`, click("Recover")],
  ["dialog-secret", ({ webhookId }) => `webhooks/${webhookId}`, click("Rotate the secret")],
  ["dialog-livekit", () => "api-keys", firstLivekitSecret],
  [
    "dialog-livekit-secret",
    () => "api-keys",
    async (page) => {
      await firstLivekitSecret(page);
      await button(page, "Show the secret").click();
      await button(page, "Copy Settings").waitFor();
    },
  ],
  ["dialog-add-member", () => "members", click("Add a member")],
  ["dialog-confirm", ({ roomId }) => `rooms/${roomId}`, click("Close the room")],
  ["dialog-archive", () => "settings", click("Archive the project")],
  [
    "palette",
    () => "rooms",
    async (page) => {
      await page.keyboard.press("Control+k");
      await page.getByRole("option", { name: /^Overview/ }).waitFor();
    },
  ],
  ["dialog-keys", () => "rooms", (page) => page.keyboard.press("?")],
  ["toast-done", ({ webhookId }) => `webhooks/${webhookId}`, click("Send a test")],
  [
    "toast-refused",
    () => "members",
    async (page) => {
      await page.getByLabel("Role of owner@example.com").selectOption("VIEWER");
      await page.locator(".toast").getByText("req_").waitFor();
    },
  ],
  ["nothing-matches", () => "connections", (page) => page.getByRole("searchbox").fill("nobody of that name")],
  ["production", () => "api-keys?environment=PRODUCTION", (page) => page.locator(".in-production").waitFor()],
  [
    "menu",
    () => "rooms?environment=DEVELOPMENT",
    async (page) => {
      await page.setViewportSize({ width: 390, height: 844 });
      await button(page, "Menu").click();
      await page.getByRole("link", { name: "Webhooks" }).waitFor();
    },
  ],
  [
    "call",
    ({ roomId }) => `rooms/${roomId}`,
    async (page) => {
      await button(page, "Join as a test user").click();
      await page.waitForFunction(() => document.querySelectorAll(".video-tiles video").length === 3);
      await page.locator(".call").getByText("↓").waitFor();
    },
  ],
  [
    "connection-test",
    () => "diagnostics",
    async (page) => {
      await button(page, "Test this connection").click();
      await page.getByText("Calls work from this browser").waitFor();
    },
  ],
  [
    "connection-test-failed",
    () => "diagnostics",
    async (page) => {
      // This simulates a proxy that blocks WebSockets.
      await page.routeWebSocket(/\/v1\/rtc/, (socket) => socket.close({ code: 1011 }));
      await button(page, "Test this connection").click();
      await page.getByText("let it pass WebSocket upgrades").waitFor();
      await page.getByText("Calls from this network will not work").waitFor();
    },
  ],
];
