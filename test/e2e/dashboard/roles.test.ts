import { afterAll, beforeAll, expect, test } from "bun:test";
import { PROJECT_ROLES, type ProjectRole } from "../../../src/protocol/enums.ts";
import { PERMISSIONS, type Permission } from "../../../src/protocol/permissions.ts";
import { openStage, type SignedInPage, type Stage } from "./stage.ts";

let stage: Stage;
let roomId: string;
let webhookId: string;
beforeAll(async () => {
  stage = await openStage();
  const { server } = stage;
  roomId = await server.room("standup");
  const input = { url: "https://example.com/hook", environment: "DEVELOPMENT" as const };
  const author = { actor: null, request: null, environment: "DEVELOPMENT" as const };
  ({ id: webhookId } = await server.runtime.write((unit) =>
    server.services.webhooks.create(unit, server.projectId, input, author),
  ));
}, 180_000);
afterAll(() => stage?.close());

/** The controls of the pages and the permission that each needs. */
const CONTROLS: [page: () => string, name: string, permission: Permission][] = [
  [() => "rooms", "Create a room", "rooms:manage"],
  [() => `rooms/${roomId}`, "Join as a test user", "rooms:manage"],
  [() => `rooms/${roomId}`, "Close the room", "rooms:manage"],
  [() => "live-streams", "Create a live stream", "streams:manage"],
  [() => "api-keys", "Create a key", "api-keys:manage"],
  [() => "api-keys", "Revoke test", "api-keys:manage"],
  [() => "webhooks", "Add an endpoint", "webhooks:manage"],
  [() => `webhooks/${webhookId}`, "Rotate the secret", "webhooks:manage"],
  [() => `webhooks/${webhookId}`, "Delete", "webhooks:manage"],
  [() => "members", "Add a member", "members:manage"],
  [() => "members", "Remove owner@example.com", "owners:manage"],
  [() => "settings", "Save the origins", "project:update"],
  [() => "settings", "Archive the project", "project:archive"],
  [() => "diagnostics", "Test this connection", "rooms:manage"],
  [() => "people?userId=ada", "Erase", "people:manage"],
  [() => "audit-log", "Export CSV", "audit:read"],
];

async function isOffered({ page }: SignedInPage, name: string): Promise<boolean> {
  return (await page.getByRole("button", { name, exact: true }).count()) > 0;
}

test.each([...PROJECT_ROLES])(
  "[8] %s is offered exactly what the role may do",
  async (role: ProjectRole) => {
    const visitor = await stage.visitor({ role });
    let at = "";
    for (const [page, name, permission] of CONTROLS) {
      if (page() !== at) await visitor.open(page());
      at = page();
      const may = PERMISSIONS[role].includes(permission);
      expect([role, name, await isOffered(visitor, name)]).toEqual([role, name, may]);
    }
    const audit = visitor.page.getByRole("link", { name: "Audit log" });
    expect(await audit.count()).toBe(PERMISSIONS[role].includes("audit:read") ? 1 : 0);
    for (const path of ["/servers", "/cluster"]) {
      await visitor.open(path);
      await visitor.page.getByText("Only operators").waitFor();
    }
    expect(visitor.complaints).toEqual([]);
    await visitor.context.close();
  },
  120_000,
);

test("[8] a user who is not a member does not find the project", async () => {
  const { page } = await stage.visitor();
  await page.goto(`${stage.server.url}/projects/01900000-0000-7000-8000-000000000000`);
  await page.getByRole("alert").getByText("not found").or(page.getByRole("alert")).first().waitFor();
  expect(await page.getByRole("link", { name: "Rooms" }).count()).toBe(0);
}, 180_000);

test("[8] an archived project is shown read-only to everyone", async () => {
  const { server } = stage;
  const visitor = await stage.visitor({ role: "OWNER" });
  await server.runtime.write((unit) =>
    server.services.projects.archive(unit, server.projectId, {
      actor: null,
      request: null,
      environment: "DEVELOPMENT",
    }),
  );
  for (const [page, name] of CONTROLS.filter(([, , permission]) => !permission.endsWith(":read"))) {
    await visitor.open(page());
    expect([name, await isOffered(visitor, name)]).toEqual([name, false]);
  }
  await visitor.page.getByText("This project is archived").waitFor();
}, 180_000);
