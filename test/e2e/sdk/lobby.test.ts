import { afterAll, beforeAll, expect, test } from "bun:test";
import type * as Sdk from "../../../web/sdk/index.ts";
import { joinRoom } from "./page-api.ts";
import { type Credentials, openStage, type SitePage, type Stage } from "./stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 180_000);
afterAll(() => stage?.close());

type Knocking = Window & { attempt: AbortController; outcome: string };

/** Begins to join; `outcome` tells how that goes. */
function knock(page: SitePage, credentials: Credentials): Promise<void> {
  return page.evaluate(async ({ endpoint, token }) => {
    const path = "/sdk.js";
    const sdk = (await import(path)) as typeof Sdk;
    const knocking = window as unknown as Knocking;
    knocking.attempt = new AbortController();
    const { signal } = knocking.attempt;
    const onLobby = () => {
      knocking.outcome = "in the lobby";
    };
    void sdk.connect(endpoint, token, { onLobby, signal }).then(
      (room) => Object.assign(window, { room, outcome: "joined" }),
      ({ code }: Sdk.StoaError) => Object.assign(window, { outcome: code }),
    );
  }, credentials);
}

const comesTo = (page: SitePage, outcome: string) =>
  page.waitForFunction((wanted) => (window as unknown as Knocking).outcome === wanted, outcome);
const hostSees = (page: SitePage, waiting: string[]) =>
  page.waitForFunction((wanted) => window.room.lobby.map(({ identity }) => identity).join() === wanted, waiting.join());

test("a host admits and denies those who wait in the lobby, and sees who gives up", async () => {
  const { id } = await stage.stoa.rooms.create({ name: "clinic", lobby: true });
  const guests = await Promise.all([stage.page(), stage.page(), stage.page()]);
  const [ada, ben, eve] = guests;
  await knock(ada, await stage.rtc(id, "ada"));
  await comesTo(ada, "in the lobby");

  const host = await stage.page();
  await joinRoom(host, await stage.rtc(id, "host", { publish: true, host: true }));
  expect(await host.evaluate(() => window.room.roomState)).toMatchObject({ lobby: true, locked: false });
  await hostSees(host, ["ada"]);
  await knock(ben, await stage.rtc(id, "ben"));
  await comesTo(ben, "in the lobby");
  await knock(eve, await stage.rtc(id, "eve"));
  await comesTo(eve, "in the lobby");
  await hostSees(host, ["ada", "ben", "eve"]);

  await host.evaluate(() => window.room.admit("ada"));
  await comesTo(ada, "joined");
  expect(await ada.evaluate(() => [...window.room.participants.keys()])).toEqual(["host"]);
  expect(await ada.evaluate(() => window.room.lobby)).toEqual([]);
  await host.evaluate(() => window.room.deny("ben"));
  await comesTo(ben, "LOBBY_DENIED");
  await eve.evaluate(() => (window as unknown as Knocking).attempt.abort());
  await comesTo(eve, "CLOSED");
  await hostSees(host, []);

  // An admitted participant comes back without waiting, and a room without a lobby lets everyone in.
  await ada.evaluate(() => window.room.close());
  await knock(ada, await stage.rtc(id, "ada"));
  await comesTo(ada, "joined");
  await knock(ben, await stage.rtc(id, "ben"));
  await comesTo(ben, "in the lobby");
  await host.evaluate(() => window.room.updateRoomState({ lobby: false }));
  await comesTo(ben, "joined");
  await host.waitForFunction(() => window.room.roomState?.lobby === false);
  await ben.waitForFunction(() => window.room.roomState?.lobby === false);
  await expect(ben.evaluate(() => window.room.updateRoomState({ locked: true }))).rejects.toThrow("act as host");
  for (const page of [...guests, host]) expect(page.errors).toEqual([]);
});
