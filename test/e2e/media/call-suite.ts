import { describe, test } from "bun:test";
import type { Call, Scene } from "./rtc-harness.ts";
import { exchangesData } from "./scenarios/data.ts";
import { restartsIce } from "./scenarios/ice-restart.ts";
import { comesAndGoes, timesJoins } from "./scenarios/joins-and-leaves.ts";
import { isMissed, type Killed, killsABrowser } from "./scenarios/killed.ts";
import { isMutedByTheServer, pausesAndMutes } from "./scenarios/mute.ts";
import { isRemovedForGood } from "./scenarios/removal.ts";
import { republishes } from "./scenarios/republish.ts";
import { resumesAfterACut } from "./scenarios/resume.ts";
import { movesBetweenLayers, publishesInLayers, wantsTheLayersOfTheTile } from "./scenarios/simulcast.ts";
import { threeForHalfAMinute } from "./scenarios/three.ts";

/**
 * The tests of a call between real browsers, which run one after the other in one room, for a server from source and for
 * the binary. Ann and Cas stay in `call` from the first test on.
 */
export function describeCall(name: string, scene: () => Scene): { call(): Call } {
  let call: Call;
  let killed: Killed;

  describe(name, () => {
    test("three participants receive each other for half a minute without interruption", async () => {
      call = await threeForHalfAMinute(scene());
    }, 120_000);

    test("a fourth participant is seen until its browser is killed", async () => {
      killed = await killsABrowser(scene(), call);
    }, 60_000);

    test(
      "a dropped socket resumes without losing a frame, and the others are not notified",
      () => resumesAfterACut(scene(), call),
      60_000,
    );

    test("ten joins reach the first decoded frame in time", () => timesJoins(scene(), call), 120_000);

    test(
      "20 rounds with camera, microphone and screen at once leave nothing behind",
      () => comesAndGoes(scene(), call),
      120_000,
    );

    test("a paused and a muted track stop and resume", () => pausesAndMutes(call), 60_000);

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

    test("a mute by the server reaches all participants", () => isMutedByTheServer(scene(), call), 60_000);

    test("a removed participant cannot rejoin", () => isRemovedForGood(scene(), call), 60_000);

    test("a viewer switches between three simulcast layers within 2 s without a decoder error", async () => {
      await publishesInLayers(call);
      await movesBetweenLayers(call);
    }, 90_000);

    test(
      "the height of a tile determines the layer and the wanted layers",
      () => wantsTheLayersOfTheTile(call),
      60_000,
    );
  });

  return { call: () => call };
}
