import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import type { Recording } from "../../../src/protocol/recordings.ts";
import { examine } from "./screenshots.ts";
import { loaded, openStage, type SignedInPage, type Stage } from "./stage.ts";

let stage: Stage;
let owner: SignedInPage;
let page: Page;
beforeAll(async () => {
  stage = await openStage();
  owner = await stage.owner();
  page = owner.page;
}, 180_000);
afterAll(async () => {
  await stage?.close();
});

const button = (name: string) => page.getByRole("button", { name, exact: true });
const dialog = () => page.getByRole("dialog");
const title = (text: string) => page.locator("h1").getByText(text).waitFor();

const list = async () => (await stage.server.call("GET", "/v1/recordings")).body as unknown as Recording[];

async function written(bytes: number): Promise<void> {
  while (!(await list()).some((one) => one.bytes > bytes)) await Bun.sleep(250);
}

function composed(id: string, state: Recording["composition"]): Promise<void> {
  const { runtime } = stage.server;
  const text = state && JSON.stringify(state);
  return runtime.write(() => {
    runtime.db.$client.run("UPDATE recordings SET composition = ? WHERE public_id = ?", [text, id]);
  });
}

describe("[18] recordings in the dashboard", () => {
  test("without recordings the page says how to make one", async () => {
    await owner.open("recordings");
    await page.getByText("Nothing has been recorded yet.").waitFor();
    await examine(page, "recordings-empty", "brief");
  }, 180_000);

  test("a room is recorded with a badge, and the recording is played, shared, composed and deleted", async () => {
    await owner.open("rooms");
    await button("Create a room").click();
    await dialog().getByLabel("Name").fill("weekly");
    await dialog().getByRole("button", { name: "Create" }).click();
    await title("weekly");
    await button("Join as a test user").click();
    await page.waitForFunction(() => (document.querySelector("video")?.videoWidth ?? 0) > 0);
    await button("Record").click();
    // The badge is in the head of the page and in the call.
    await page.waitForFunction(() => document.querySelectorAll(".badge.recording").length === 2);
    await examine(page, "room-recording", "brief");
    await written(150_000);
    await owner.open("rooms");
    await page.getByRole("table").locator(".badge.recording").waitFor();
    await page.getByRole("link", { name: "weekly" }).click();
    await page.getByRole("link", { name: "Recordings" }).last().click();
    await page.getByRole("link", { name: "weekly" }).first().click();
    await button("Stop").click();
    await page.locator("h1 .badge").getByText("Ready").waitFor();
    await examine(page, "recording");

    await button("Share").click();
    await dialog().getByLabel("Works for").selectOption("3600");
    await button("Create a link").click();
    const link = await dialog().locator("code").innerText();
    expect(link).toContain("/replay#token=");
    await button("Done").click();

    await button("Compose").click();
    await dialog().getByLabel("Size").selectOption("640x360");
    await dialog().getByRole("button", { name: "Compose" }).click();
    // The states are written directly, because the duration of ffmpeg is unpredictable.
    await page.getByText("All files as one MP4").waitFor({ state: "detached" });
    const [{ id, files } = { id: "", files: [] }] = await list();
    await stage.server.call("DELETE", `/v1/recordings/${id}/composition`);
    await page.getByText("All files as one MP4").waitFor();
    await composed(id, { status: "RUNNING", progress: 0.42, fileId: null, error: null });
    await page.getByRole("progressbar", { name: "Composing" }).getByText("42 %").waitFor();
    await examine(page, "recording-composing", "brief");
    await button("Cancel the composition").click();
    await page.getByText("All files as one MP4").waitFor();
    await composed(id, { status: "FAILED", progress: 0, fileId: null, error: "ffmpeg: a.webm: Invalid data" });
    await page.getByText("The video could not be composed. ffmpeg: a.webm: Invalid data").waitFor();
    await composed(id, { status: "READY", progress: 1, fileId: files[0]?.id ?? null, error: null });
    await button("Download the video").waitFor();
    const [saved] = await Promise.all([page.waitForEvent("download"), button("Download the video").click()]);
    expect(saved.suggestedFilename()).toMatch(/^weekly test-\w+ \w+\.webm$/);
    await examine(page, "recording-composed", "brief");
    await composed(id, null);

    await owner.open("recordings");
    await examine(page, "recordings");
    await page.getByRole("link", { name: "weekly" }).first().click();
    const address = page.url();
    await button("Replay").click();
    await button("Play").click();
    await page.locator(".stage video").waitFor();
    await page.waitForFunction(() => (document.querySelector("video")?.currentTime ?? 0) > 0.2);
    await examine(page, "replay");
    expect(await page.getByText("weekly", { exact: true }).count()).toBe(1);
    await page.getByRole("list", { name: "Legend" }).getByText("Left").waitFor();
    // The participant may have left the replay while it was examined.
    await page.getByLabel("Position").fill("0");
    await page.locator(".stage video").waitFor();
    await page.getByLabel("Speed").selectOption("2");
    await page.waitForFunction(() => document.querySelector("video")?.playbackRate === 2);
    await page.getByText("Download", { exact: true }).click();
    const [file] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("link", { name: /: camera$/ }).click(),
    ]);
    expect(file.suggestedFilename()).toMatch(/^weekly test-\w+ \w+\.webm$/);
    await button("Full screen").click();
    await page.waitForFunction(() => document.fullscreenElement !== null);
    await button("Exit full screen").click();
    await page.waitForFunction(() => document.fullscreenElement === null);

    const { page: stranger } = await stage.stranger();
    await stranger.goto(link);
    await stranger.locator(".stage .person").first().waitFor();

    await page.goto(address);
    await loaded(page);
    await button("Delete").click();
    await dialog().getByRole("button", { name: "Delete" }).click();
    await page.getByText("Nothing has been recorded yet.").waitFor();
    await stranger.reload();
    await stranger.getByText("The recording was deleted.").waitFor();
    expect(owner.complaints).toEqual([]);
  }, 240_000);

  test("a project viewer sees recordings without any controls", async () => {
    const { page: seen, open, complaints } = await stage.visitor({ role: "VIEWER" });
    const roomId = await stage.server.room("held");
    const { body } = await stage.server.call("POST", `/v1/rooms/${roomId}/recordings`, {});
    await open(`recordings/${body.id}`);
    await seen.getByText("No participant has sent media yet.").waitFor();
    expect(await seen.locator("main").getByRole("button").allInnerTexts()).toEqual(["Copy"]);
    expect(complaints).toEqual([]);
  }, 180_000);
});
