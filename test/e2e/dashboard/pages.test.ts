import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { INTERACTIONS } from "./interactions.ts";
import { examine } from "./screenshots.ts";
import { type Seeded, seed } from "./seed.ts";
import { seedInstallation } from "./seed-installation.ts";
import { loaded, openStage, type SignedInPage, type Stage } from "./stage.ts";

let stage: Stage;
let seeded: Seeded;
let scenery: Awaited<ReturnType<typeof seedInstallation>>;
let owner: SignedInPage;
beforeAll(async () => {
  stage = await openStage({ WEBHOOK_BACKOFF_BASE_MS: 200 });
  seeded = await seed(stage);
  scenery = await seedInstallation(stage);
  owner = await stage.owner();
}, 180_000);
afterAll(async () => {
  await scenery?.close();
  await seeded?.close();
  await stage?.close();
});

const PAGES: [name: string, path: () => string][] = [
  ["projects", () => "/"],
  ["account", () => "/account"],
  ["servers", () => "/servers"],
  ["cluster-of-one", () => "/cluster"],
  ["overview", () => ""],
  ["start", () => "start"],
  ["rooms", () => "rooms"],
  ["room", () => `rooms/${seeded.roomId}`],
  ["live-streams", () => "live-streams"],
  ["live-stream", () => `live-streams/${seeded.streamId}`],
  ["chat", () => "chat"],
  ["chat-connections", () => "chat/connections"],
  ["chat-reports", () => "chat/reports"],
  ["chat-words", () => "chat/words"],
  ["conversation", () => `chat/conversations/${seeded.conversationId}`],
  ["calls", () => "calls"],
  ["one-call", () => `calls/${scenery.callId}`],
  ["connections", () => "connections"],
  ["connection", () => `connections/${scenery.connectionId}`],
  ["connection-live", () => `connections/${seeded.connectionId}`],
  ["errors", () => "errors"],
  ["diagnostics", () => "diagnostics"],
  ["usage", () => "usage"],
  ["api-keys", () => "api-keys"],
  ["webhooks", () => "webhooks"],
  ["webhook", () => `webhooks/${seeded.webhookId}`],
  ["delivery", () => `webhooks/${seeded.webhookId}/deliveries/${seeded.deliveryId}`],
  ["members", () => "members"],
  ["people", () => "people?userId=grace"],
  ["audit-log", () => "audit-log"],
  ["settings", () => "settings"],
];

describe("[8] every page", () => {
  test.each(PAGES)(
    "%s shows its data, fits desk and phone by day and night, and breaks no rule of access",
    async (name, path) => {
      await owner.open(path());
      await examine(owner.page, name);
      expect(owner.complaints).toEqual([]);
    },
    120_000,
  );

  test.each(INTERACTIONS)(
    "%s passes the same checks",
    async (name, path, act) => {
      await owner.open(path(seeded));
      await act(owner.page);
      await examine(owner.page, name, "brief");
      expect(owner.complaints).toEqual([]);
      await owner.page.keyboard.press("Escape");
      await owner.page.getByRole("dialog").waitFor({ state: "detached" });
      for (const toast of await owner.page.getByRole("button", { name: "Dismiss" }).all()) await toast.click();
    },
    120_000,
  );

  test("a flight record is plotted", async () => {
    await owner.open(`connections/${scenery.connectionId}`);
    await owner.page.getByRole("button", { name: "Show", exact: true }).click();
    await owner.page.getByText("Packet loss, in percent").waitFor();
    await examine(owner.page, "connection-flight");
    expect(owner.complaints).toEqual([]);
  }, 180_000);

  test("a missing page or record shows an error", async () => {
    const { page } = owner;
    await page.goto(
      `${stage.server.url}/projects/${stage.server.projectId}/rooms/01900000-0000-7000-8000-000000000000`,
    );
    await page.getByRole("alert").getByText("There is no such room.").waitFor();
    await page
      .getByRole("alert")
      .getByText(/req_[0-9a-f]{24}/)
      .waitFor();
    await examine(page, "not-found", "brief");
    await page.goto(`${stage.server.url}/no/such/page`);
    await page.getByText("This page does not exist.").waitFor();
    await examine(page, "no-such-page", "brief");
  }, 180_000);

  test("an empty project says what to do next", async () => {
    const { runtime, services } = stage.server;
    const { id } = await runtime.write((unit) => services.projects.create(unit, owner.userId, { name: "Fresh" }));
    for (const name of [
      "",
      "rooms",
      "live-streams",
      "chat",
      "chat/connections",
      "chat/reports",
      "chat/words",
      "calls",
      "recordings",
      "connections",
      "errors",
      "diagnostics",
      "usage",
      "start",
      "webhooks",
      "api-keys",
      "members",
      "people",
      "audit-log",
      "settings",
    ]) {
      await owner.open(`/projects/${id}/${name}`);
      await examine(owner.page, `empty-${name.replace("/", "-") || "overview"}`, "brief");
    }
    await owner.open(`/projects/${id}`);
    await owner.page.getByText("Nothing here yet. All you need").waitFor();
    await loaded(owner.page);
    expect(owner.complaints).toEqual([]);
  }, 180_000);
});
