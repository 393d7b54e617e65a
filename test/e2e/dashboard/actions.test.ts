import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { NEWEST } from "../../../src/kernel/http/serving/pages.ts";
import { HOSTILE } from "./hostile.ts";
import { type Seeded, seed } from "./seed.ts";
import { loaded, openStage, type SignedInPage, type Stage } from "./stage.ts";

let stage: Stage;
let seeded: Seeded;
let owner: SignedInPage;
let page: Page;
beforeAll(async () => {
  stage = await openStage({ WEBHOOK_BACKOFF_BASE_MS: 200 });
  seeded = await seed(stage);
  owner = await stage.visitor({ role: "OWNER", operator: true });
  page = owner.page;
}, 180_000);
afterAll(async () => {
  await seeded?.close();
  await stage?.close();
});

const button = (name: string | RegExp) => page.getByRole("button", { name, exact: typeof name === "string" });
const dialog = () => page.getByRole("dialog");
const toast = (text: string | RegExp) => page.locator(".toast").filter({ hasText: text }).first().waitFor();
/** Clicks a button and confirms its dialog. */
async function confirmed(name: string, action: string): Promise<void> {
  await button(name).first().click();
  await dialog().getByRole("button", { name: action, exact: true }).click();
}

const secretsShown = () => {
  const { services, projectId } = stage.server;
  return services.audit.list(projectId, { action: "api_key.secret_shown" }, NEWEST, 100).length;
};

describe("[8] rooms", () => {
  test("a room is created, joined from the page with camera and sound, and closed", async () => {
    await owner.open("rooms");
    await button("Create a room").click();
    await dialog().getByLabel("Name").fill("not a name!");
    await dialog().getByRole("button", { name: "Create" }).click();
    await dialog().getByText("must be 1-128").waitFor();
    await dialog().getByLabel("Name").fill("from-the-page");
    await dialog().getByRole("button", { name: "Create" }).click();
    await page.getByRole("heading", { name: "from-the-page" }).waitFor();
    await button("Join as a test user").click();
    await page.locator("video").waitFor();
    await page.waitForFunction(() => (document.querySelector("video")?.videoWidth ?? 0) > 0);
    await page.locator(".people").getByText("camera").waitFor();
    await button("Leave").click();
    await page.getByText("There are no participants in this room.").waitFor();
    await confirmed("Close the room", "Close the room");
    await page.locator("h1").getByText("Closed").waitFor();
    expect(await button("Join as a test user").count()).toBe(0);
  }, 180_000);

  test("two participants are listed with their tracks; one is muted, then removed", async () => {
    await owner.open(`rooms/${seeded.roomId}`);
    await button("Mute microphone of ada").click();
    await toast("Only the publisher can unmute it");
    await page.locator(".people li").filter({ hasText: "ada" }).getByText("Muted").waitFor();
    await confirmed("Remove ada", "Remove");
    await toast("ada was removed");
    await page.waitForFunction(() => document.querySelectorAll(".people > li").length === 1);
    expect(await page.locator(".people b").allInnerTexts()).toEqual(["grace"]);
  }, 180_000);
});

describe("[8] live streams", () => {
  test("a live stream is created, started, watched, given a co-host and ended", async () => {
    await owner.open("live-streams");
    await button("Create a live stream").click();
    await dialog().getByLabel("Title").fill("Evening show");
    await dialog().getByLabel("Host").fill("host-1");
    await dialog().getByRole("button", { name: "Create" }).click();
    await page.getByRole("heading", { name: "Evening show" }).waitFor();
    await button("Start").click();
    await page.locator("h1").getByText("Live").waitFor();
    await button("Broadcast from here").click();
    await page.locator("video").waitFor();
    await button("Leave").click();
    await button("Watch here").click();
    await page.getByRole("table", { name: "Viewers" }).getByText("dashboard-").waitFor();
    await button(/^Remove dashboard-/).click();
    await dialog().getByRole("button", { name: "Remove" }).click();
    await page.getByText("There are no viewers.").waitFor();
    await page.locator(".call").waitFor({ state: "detached" });
    await button("Add a co-host").click();
    await dialog().getByLabel("Identity").fill("helper");
    await dialog().getByRole("button", { name: "Add" }).click();
    // The exact cell is needed, because the row also contains the confirmation dialog.
    const helper = page.getByRole("table", { name: "Hosts" }).getByRole("cell", { name: "helper", exact: true });
    await helper.waitFor();
    await confirmed("Remove helper", "Remove");
    await helper.waitFor({ state: "detached" });
    await button("Edit").click();
    await dialog().getByLabel("Title").fill("Late show");
    await dialog().getByRole("button", { name: "Save" }).click();
    await page.getByRole("heading", { name: "Late show" }).waitFor();
    await confirmed("End the stream", "End the stream");
    await page.locator("h1").getByText("Ended").waitFor();
  }, 180_000);
});

describe("[8] webhooks", () => {
  test("an endpoint in LiveKit's format is signed by an API key, and has no secret of its own", async () => {
    await owner.open("webhooks");
    await button("Add an endpoint").click();
    await dialog().getByLabel("Address").fill("http://127.0.0.1:9/livekit");
    await dialog().getByLabel("Format").selectOption("livekit");
    await dialog().getByRole("button", { name: "Add" }).click();
    await dialog().getByRole("alert").getByText("must be the id of an active API key").waitFor();
    await dialog().getByLabel("API key").selectOption({ index: 1 });
    await dialog().getByRole("button", { name: "Add" }).click();
    await toast(/with the API key and its LiveKit secret/);
    await page.getByRole("link", { name: "http://127.0.0.1:9/livekit" }).click();
    await loaded(page);
    expect(await button("Rotate the secret").count()).toBe(0);
    await confirmed("Delete", "Delete");
    // The list follows; it would come after the address that the next test opens.
    await button("Add an endpoint").waitFor();
  }, 180_000);

  test("an endpoint shows its secret once, is tested, edited, rotated, disabled, enabled and deleted", async () => {
    await owner.open("webhooks");
    await button("Add an endpoint").click();
    await dialog().getByLabel("Address").fill("http://10.0.0.1/hook");
    await dialog().getByRole("button", { name: "Add" }).click();
    await dialog().getByRole("alert").first().waitFor();
    const address = await page.evaluate(() => document.querySelector("table a")?.textContent ?? "");
    await dialog().getByLabel("Address").fill(`${address}2`);
    await dialog().getByRole("button", { name: "Add" }).click();
    const secret = await dialog().locator("code").innerText();
    expect(secret).toStartWith("whsec_");
    await button("I have copied it").click();
    await page.getByRole("link", { name: `${address}2` }).click();
    await loaded(page);
    expect(await page.locator("body").innerText()).not.toContain(secret);
    await button("Send a test").click();
    await page.getByRole("link", { name: "webhook.test" }).waitFor();
    await button("Edit").click();
    await dialog().getByLabel("Description").fill("billing");
    await dialog().getByRole("button", { name: "Save" }).click();
    await page.locator(".facts").getByText("billing").waitFor();
    await button("Rotate the secret").click();
    expect(await dialog().locator("code").innerText()).not.toBe(secret);
    await button("I have copied it").click();
    await button("Disable").click();
    await page.locator("h1").getByText("Disabled").waitFor();
    await button("Enable").click();
    await page.locator("h1").getByText("Active").waitFor();
    await button("Recover").click();
    await dialog().getByRole("button", { name: "Recover" }).click();
    await toast(/sent again/);
    await confirmed("Delete", "Delete");
    await page.getByRole("link", { name: `${address}2` }).waitFor({ state: "detached" });
  }, 180_000);

  test("a failed delivery shows its attempts and its body, and is sent again", async () => {
    await owner.open(`webhooks/${seeded.webhookId}/deliveries/${seeded.deliveryId}`);
    await page.getByRole("table", { name: "Attempts" }).getByText("HTTP 500").first().waitFor();
    await page.locator("pre").getByText("live_stream.created").waitFor();
    const before = seeded.received.length;
    await button("Redeliver").click();
    await toast("Sent again");
    while (seeded.received.length === before) await Bun.sleep(20);
    expect(seeded.received.at(-1)).toBe(seeded.received[0]);
  }, 180_000);
});

describe("[8] keys, members, settings, servers, account", () => {
  test("a key is shown once and revoked", async () => {
    await owner.open("api-keys");
    await button("Create a key").click();
    await dialog().getByLabel("Name").fill(HOSTILE);
    await dialog().getByRole("button", { name: "Create" }).click();
    const key = await dialog().locator("code").innerText();
    expect(key).toMatch(/^svk_dev_/);
    const project = () => fetch(`${stage.server.url}/v1/project`, { headers: { authorization: `Bearer ${key}` } });
    expect((await project()).status).toBe(200);
    await button("I have copied it").click();

    // The secret for LiveKit's SDKs is hidden until it is requested, which the audit log records.
    await button(`LiveKit secret of ${HOSTILE}`).click();
    const settings = dialog().locator("code");
    expect(await settings.innerText()).toMatch(/^LIVEKIT_URL=ws.*\nLIVEKIT_API_KEY=\w+\nLIVEKIT_API_SECRET=•+$/);
    expect(secretsShown()).toBe(0);
    await button("Show the secret").click();
    await button("Copy Settings").waitFor();
    expect(await settings.innerText()).toMatch(/\nLIVEKIT_API_SECRET=[0-9a-f]{64}$/);
    expect(secretsShown()).toBe(1);
    await page.keyboard.press("Escape");
    await confirmed(`Revoke ${HOSTILE}`, "Revoke");
    await page.getByRole("row").filter({ hasText: HOSTILE }).getByText("Revoked").waitFor();
    expect((await project()).status).toBe(401);
    expect(await page.evaluate(() => "hacked" in window)).toBe(false);
  }, 180_000);

  test("an invitation is sent and withdrawn; a member gets another role and is removed", async () => {
    await owner.open("members");
    await button("Add a member").click();
    await dialog().getByLabel("E-mail address").fill("new@example.com");
    await dialog().getByRole("button", { name: "Add" }).click();
    await page.getByRole("table", { name: "Invitations" }).getByText("new@example.com").waitFor();
    await confirmed("Withdraw the invitation of new@example.com", "Withdraw");
    await page.getByText("new@example.com", { exact: true }).waitFor({ state: "detached" });

    const colleague = await stage.visitor({ role: "DEVELOPER" });
    const email = stage.server.services.users.get(colleague.userId).email;
    await owner.open("members");
    await page.getByLabel(`Role of ${email}`).selectOption("ADMIN");
    await toast(`${email} is admin now.`);
    await colleague.open("audit-log");
    await colleague.page.getByRole("table").getByText("member.role_changed").first().waitFor();
    await confirmed(`Remove ${email}`, "Remove");
    await page.getByText(email, { exact: true }).waitFor({ state: "detached" });
    await colleague.page.goto(`${stage.server.url}/projects/${stage.server.projectId}/rooms`);
    await colleague.page.getByRole("alert").waitFor();
    await colleague.context.close();
  }, 180_000);

  test("origins and name are saved, and the audit log and its CSV name the user", async () => {
    await owner.open("settings");
    await page.getByLabel("Pages that may use this project").fill("nonsense");
    await button("Save the origins").click();
    await page.getByRole("alert").first().waitFor();
    await page.getByLabel("Pages that may use this project").fill("https://app.example.com");
    await button("Save the origins").click();
    await toast("origins were saved");
    await page.getByLabel("Name").fill(`Renamed ${HOSTILE}`);
    await button("Save").click();
    await page.getByLabel("Project").getByText("Renamed").waitFor({ state: "attached" });
    await owner.open("audit-log?action=project.updated");
    expect(await page.getByRole("row").count()).toBeGreaterThan(2);
    const saving = page.waitForEvent("download");
    await button("Export CSV").click();
    const csv = await Bun.file((await (await saving).path()) ?? "").text();
    expect(csv).toContain("createdAt,action,actorType,actorEmail");
    expect(csv).toContain("project.updated");
  }, 180_000);

  test("a server is drained and undrained", async () => {
    await owner.open("/servers");
    await confirmed("Drain", "Drain");
    await page.locator(".servers").getByText("Draining").waitFor();
    await button("Undrain").click();
    await page.locator(".servers").getByText("Healthy").waitFor();
  }, 180_000);

  test("the user changes the name and ends another session", async () => {
    await stage.server.runtime.write((unit) =>
      stage.server.services.sessions.start(unit, owner.userId, { ip: "192.0.2.7", userAgent: HOSTILE }),
    );
    await owner.open("/account");
    await page.getByLabel("Name").fill("Grace");
    await button("Save").click();
    await page.locator(".who").getByText("Grace").waitFor();
    await confirmed("Sign out the session from 192.0.2.7", "Sign out");
    await page.getByText("192.0.2.7").waitFor({ state: "detached" });
  }, 180_000);

  test("chat counts 2,000 messages without showing their texts", async () => {
    await owner.open("chat");
    // The additional message is the note of a call in its room's conversation.
    await page.locator(".tiles").getByText("2,001").first().waitFor();
    await owner.open(`chat/conversations/${seeded.conversationId}`);
    await button("Show more").click();
    await page.waitForFunction(() => document.querySelectorAll("[aria-label=messages] tbody tr").length === 100);
    expect(await page.content()).not.toContain("never to be seen");
  }, 180_000);

  test("the dashboard's requests work regardless of the project's allowed origins", async () => {
    const { runtime, services, projectId } = stage.server;
    const author = { actor: null, request: null, environment: "DEVELOPMENT" as const };
    const strict = { allowedOrigins: ["https://app.example.com"], allowLocalhostOrigins: false };
    await runtime.write((unit) => services.projects.setOrigins(unit, projectId, strict, author));
    await owner.open(`rooms/${seeded.roomId}`);
    await button("Join as a test user").click();
    await page.waitForFunction(() => document.querySelectorAll(".video-tiles video").length >= 2);
    await button("Leave").click();
    await owner.open("diagnostics");
    await button("Test this connection").click();
    await page.getByText("Calls work from this browser").waitFor();
    expect(await page.locator(".checks-run .badge").allInnerTexts()).toEqual(Array(6).fill("Passed"));
    // Without a relay no call works through port 443 alone, and the advice says how to enable one.
    await page.getByLabel("Through port 443 only").check();
    await button("Test again").click();
    await page.getByText("Start the server with DOMAIN").waitFor();
    await page.getByText("Calls from networks that let out port 443 only will not work").waitFor();
    expect(owner.complaints).toEqual([]);
  }, 180_000);
});
