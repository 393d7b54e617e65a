import { describe, test } from "bun:test";
import type { Call, Scene } from "./rtc-harness.ts";
import { comesAndGoes, timesJoins } from "./scenarios/comings.ts";
import { exchangesData } from "./scenarios/data.ts";
import { restartsIce } from "./scenarios/ice-restart.ts";
import { isMissed, type Killed, killsABrowser } from "./scenarios/killed.ts";
import { isMutedByTheServer, pausesAndMutes } from "./scenarios/mute.ts";
import { isRemovedForGood } from "./scenarios/removal.ts";
import { republishes } from "./scenarios/republish.ts";
import { resumesAfterACut } from "./scenarios/resume.ts";
import { movesBetweenLayers, publishesInLayers, wantsTheLayersOfTheTile } from "./scenarios/simulcast.ts";
import { threeForHalfAMinute } from "./scenarios/three.ts";

/**
 * Everything that happens in a call of real browsers, in one room one after the other: the same for a server
 * from source and for the binary. Ann and Cas stay; `call` is theirs, from the first test on.
 */
export function describeCall(name: string, scene: () => Scene): { call(): Call } {
  let call: Call;
  let killed: Killed;

  describe(name, () => {
    test("three see and hear each other, for half a minute without a break", async () => {
      call = await threeForHalfAMinute(scene());
    }, 120_000);

    test("a fourth is seen, until its browser is killed with -9", async () => {
      killed = await killsABrowser(scene(), call);
    }, 60_000);

    test(
      "a cut socket resumes: not a frame is lost, and nobody notices",
      () => resumesAfterACut(scene(), call),
      60_000,
    );

    test("ten joins, to the first decoded frame", () => timesJoins(scene(), call), 120_000);

    test(
      "20 rounds with camera, microphone and screen at once leave nothing behind",
      () => comesAndGoes(scene(), call),
      120_000,
    );

    test("a paused and a muted track stop, and come back", () => pausesAndMutes(call), 60_000);

    test("a screen is unpublished and published again on the same sections", () => republishes(call), 60_000);

    test(
      "data travels both ways, reliably and lossily, to all or to those named",
      () => exchangesData(scene(), call),
      60_000,
    );

    test("an ICE restart moves to other sockets and keeps media flowing", () => restartsIce(scene(), call), 60_000);

    test(
      "the killed browser was noticed after 15 s, and has left after the window",
      () => isMissed(call, killed),
      60_000,
    );

    test("mute from the server is heard by everyone", () => isMutedByTheServer(scene(), call), 60_000);

    test("a removed participant cannot come back", () => isRemovedForGood(scene(), call), 60_000);

    test("a viewer moves between three simulcast layers, within 2 s, without a decoder error", async () => {
      await publishesInLayers(call);
      await movesBetweenLayers(call);
    }, 90_000);

    test("a tile's height decides the layer, and which layers are wanted", () => wantsTheLayersOfTheTile(call), 60_000);
  });

  return { call: () => call };
}
