import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { allSee, enterLivekit, views } from "./harness/crowd.ts";
import { type LivekitPackage, openStage, type Stage, WAIT_MS } from "./harness/stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 180_000);
afterAll(() => stage?.close());

const ROOM = "churn";
const GUESTS = ["v1", "v2", "v3", "v4", "v5"];
const person = async (identity: string) => ({ identity, token: await stage.token(ROOM, identity) });

const sectionsIn = (page: Page, identity: string) =>
  page.evaluate((identity) => window.crowd.get(identity)?.sections() ?? 0, identity);

test(
  "participants who join and leave four times reuse the same media sections, five together and one alone",
  async () => {
    const scripts: LivekitPackage[] = ["livekit-client", "livekit-client-two-connections"];
    const watchers = await Promise.all(
      scripts.map(async (script) => {
        const page = await stage.page(script);
        await enterLivekit(page, stage.wsUrl, [await person(script)], { publish: false });
        return { script, page };
      }),
    );
    const picky = await stage.page("livekit-client");
    await enterLivekit(picky, stage.wsUrl, [await person("picky")], {
      publish: false,
      connect: { autoSubscribe: false },
    });

    const guests = await stage.page("livekit-client");
    const sections: number[][] = [];
    for (let time = 0; time < 4; time++) {
      await enterLivekit(guests, stage.wsUrl, await Promise.all(GUESTS.map(person)));
      await Promise.all(watchers.map(({ page }) => allSee(page, GUESTS, 5)));
      sections.push(await Promise.all(watchers.map(({ script, page }) => sectionsIn(page, script))));

      await picky.waitForFunction(() => window.crowd.get("picky")?.wants("v3"));
      await allSee(picky, ["v3"], 5);
      expect(Object.keys((await views(picky)).picky?.frames ?? {})).toEqual(["v3"]);

      await guests.evaluate(async () => {
        await Promise.all([...window.crowd.values()].map((one) => one.leave()));
        window.crowd.clear();
      });
      for (const page of [picky, ...watchers.map((one) => one.page)]) {
        await page.waitForFunction(
          () => [...window.crowd.values()].every((one) => !Object.keys(one.names()).some((name) => /^v\d$/.test(name))),
          undefined,
          { timeout: WAIT_MS },
        );
      }
    }
    const [first] = sections;
    for (const later of sections) expect(later).toEqual(first ?? []);
  },
  5 * WAIT_MS,
);
