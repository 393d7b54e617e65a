import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { examine } from "./pictures.ts";
import { decorate } from "./scenery.ts";
import { type Seeded, seed } from "./seed.ts";
import { openStage, type Stage, type Visitor } from "./stage.ts";

let stage: Stage;
let seeded: Seeded;
let scenery: Awaited<ReturnType<typeof decorate>>;
let owner: Visitor;
beforeAll(async () => {
  stage = await openStage({ WEBHOOK_BACKOFF_BASE_MS: 200 });
  seeded = await seed(stage);
  scenery = await decorate(stage);
  owner = await stage.owner();
}, 120_000);
afterAll(async () => {
  await scenery?.close();
  await seeded?.close();
  await stage?.close();
});

const PAGES: [name: string, path: () => string][] = [
  ["projects", () => "/"],
  ["account", () => "/account"],
  ["servers", () => "/servers"],
  ["overview", () => ""],
  ["overview-24h", () => "?range=24h"],
  ["start", () => "start"],
  ["rooms", () => "rooms"],
  ["room", () => `rooms/${seeded.roomId}`],
  ["live-streams", () => "live-streams"],
  ["live-stream", () => `live-streams/${seeded.streamId}`],
  ["chat", () => "chat"],
  ["chat-connections", () => "chat/connections"],
  ["conversation", () => `chat/conversations/${seeded.conversationId}`],
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
});
