import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { allSee, enterLivekit, enterStoa, type Person, views } from "./harness/crowd.ts";
import { startNative } from "./harness/native-process.ts";
import { openStage, type Stage, WAIT_MS } from "./harness/stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 180_000);
afterAll(() => stage?.close());

const ROOM = "twelve";
const LIVEKIT = ["kim", "kai", "kat", "ken"];
const TWO_CONNECTIONS = ["tea", "tom"];
const OWN = ["ola", "oda", "ove", "ole"];
const NATIVE = ["nia", "nat"];
const IDENTITIES = [...LIVEKIT, ...TWO_CONNECTIONS, ...OWN, ...NATIVE];
/** One client of LiveKit's and one of ours. */
const SPEAKERS = ["kim", "ola"];
const nameOf = (identity: string) => `${identity.toUpperCase()} Ö.`;
const FRAMES = 15;

const people = (identities: readonly string[]): Promise<Person[]> =>
  Promise.all(
    identities.map(async (identity) => ({
      identity,
      token: await stage.token(ROOM, identity, { name: nameOf(identity) }),
      speaks: SPEAKERS.includes(identity),
    })),
  );

async function ownPeople() {
  const { id } = await stage.stoa.rooms.create({ name: ROOM });
  const permissions = { publish: true, publishData: true };
  return Promise.all(
    OWN.map(async (participantIdentity) => ({
      identity: participantIdentity,
      ...(await stage.stoa.rtcTokens.mint(id, { participantIdentity, permissions, name: nameOf(participantIdentity) })),
      speaks: SPEAKERS.includes(participantIdentity),
    })),
  );
}

const othersOf = (own: string) =>
  IDENTITIES.filter((identity) => identity !== own).map((identity) => [identity, nameOf(identity)] as const);

test(
  "twelve clients of four kinds in one room see all others by name and hear the speakers",
  async () => {
    const own = await stage.page("stoa");
    await enterStoa(own, await ownPeople());
    const livekit = await stage.page("livekit-client");
    await enterLivekit(livekit, stage.wsUrl, await people(LIVEKIT));
    const older = await stage.page("livekit-client-two-connections");
    await enterLivekit(older, stage.wsUrl, await people(TWO_CONNECTIONS));
    const tokens = Object.fromEntries((await people(NATIVE)).map(({ identity, token }) => [identity, token]));
    const native = startNative("native-crowd.mjs", { packages: stage.packages, url: stage.wsUrl, tokens });
    try {
      const pages: Page[] = [own, livekit, older];
      try {
        await Promise.all(pages.map((page) => allSee(page, IDENTITIES, FRAMES)));
      } catch (error) {
        throw new Error(JSON.stringify(await Promise.all(pages.map(views))), { cause: error });
      }
      for (const page of pages) {
        for (const [identity, { names }] of Object.entries(await views(page)))
          expect([identity, names]).toEqual([identity, Object.fromEntries(othersOf(identity))]);
      }
      for (const page of [livekit, older]) {
        await page.waitForFunction(
          async (speakers) => {
            const heard = [...window.crowd].flatMap(([own, member]) =>
              speakers.filter((speaker) => speaker !== own).map((speaker) => member.hears(speaker)),
            );
            return (await Promise.all(heard)).every(Boolean);
          },
          SPEAKERS,
          { timeout: WAIT_MS, polling: 250 },
        );
      }

      const seen = NATIVE.flatMap((name) => othersOf(name).map(([identity]) => `${name} gets ${identity} video`));
      await Promise.all(seen.map((line) => native.says(line)));
      await Promise.all(NATIVE.flatMap((name) => SPEAKERS.map((one) => native.says(`${name} gets ${one} audio`))));
      native.does("names");
      await Promise.all(
        NATIVE.map((name) =>
          native.says(`${name} knows ${JSON.stringify(Object.fromEntries(othersOf(name).toSorted()))}`),
        ),
      );

      const [live] = (await stage.stoa.rooms.list()).filter(({ name }) => name === ROOM);
      expect(live?.participantCount).toBe(12);
      expect(await stage.rooms.listParticipants(ROOM)).toHaveLength(12);
    } finally {
      await native.end();
    }
  },
  8 * WAIT_MS,
);
