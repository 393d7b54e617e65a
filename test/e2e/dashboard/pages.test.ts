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

/** The pages of a project that an empty project has too, among them every page that the navigation links to. */
const PROJECT_PAGES = [
  "",
  "start",
  "rooms",
  "live-streams",
  "chat",
  "chat/connections",
  "chat/reports",
  "chat/words",
  "recordings",
  "calls",
  "connections",
  "errors",
  "diagnostics",
  "usage",
  "api-keys",
  "webhooks",
  "members",
  "people",
  "audit-log",
  "settings",
];
const nameOf = (path: string) => path.replace("/", "-") || "overview";

const PAGES: [name: string, path: () => string][] = [
  ["projects", () => "/"],
  ["account", () => "/account"],
  ["servers", () => "/servers"],
  ["cluster-of-one", () => "/cluster"],
  ...PROJECT_PAGES.map((path): [string, () => string] => [nameOf(path), () => path]),
  ["room", () => `rooms/${seeded.roomId}`],
  ["live-stream", () => `live-streams/${seeded.streamId}`],
  ["conversation", () => `chat/conversations/${seeded.conversationId}`],
  ["one-call", () => `calls/${scenery.callId}`],
  ["connection", () => `connections/${scenery.connectionId}`],
  ["connection-live", () => `connections/${seeded.connectionId}`],
  ["webhook", () => `webhooks/${seeded.webhookId}`],
  ["delivery", () => `webhooks/${seeded.webhookId}/deliveries/${seeded.deliveryId}`],
  ["person", () => "people?userId=grace"],
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
    for (const path of PROJECT_PAGES) {
      await owner.open(`/projects/${id}/${path}`);
      await examine(owner.page, `empty-${nameOf(path)}`, "brief");
    }
    const links = await owner.page.locator("#nav a").evaluateAll((all) => all.map((link) => link.getAttribute("href")));
    const pages = links.flatMap((href) => href?.match(/^\/projects\/[^/]+\/?(.*)/)?.[1] ?? []);
    expect(pages).toContain("rooms");
    expect(
      pages.filter((page) => !PROJECT_PAGES.includes(page)),
      "add these to PROJECT_PAGES",
    ).toEqual([]);
    await owner.open(`/projects/${id}`);
    await owner.page.getByText("Nothing here yet. All you need").waitFor();
    await loaded(owner.page);
    expect(owner.complaints).toEqual([]);
  }, 180_000);
});
