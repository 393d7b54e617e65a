import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type * as Sdk from "../../../web/sdk/index.ts";
import { openFirefox } from "./firefox.ts";
import { framesShown, receivesAudio, waitForFrames, watchFrames } from "./page-api.ts";
import type { Scripted } from "./scripted.ts";
import { type Credentials, openStage, type SitePage, type Stage } from "./stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 180_000);
afterAll(() => stage?.close());

type Joining = { passphrase?: string; agree?: true; codec?: Sdk.VideoCodec; publish?: boolean };

/** Joins with the SDK that the server serves, so that the page and the encryption worker have different origins. */
async function join(page: Scripted, { endpoint, token }: Credentials, { passphrase, agree, codec, publish }: Joining) {
  await page.evaluate(
    async ({ endpoint, token, url, passphrase, agree, codec, publish }) => {
      const sdk = (await import(`${url}/sdk.js`)) as typeof Sdk;
      const connections: RTCPeerConnection[] = [];
      const Native = RTCPeerConnection;
      window.RTCPeerConnection = class extends Native {
        constructor(configuration?: RTCConfiguration) {
          super(configuration);
          connections.push(this);
        }
      };
      Object.assign(window, { connections });
      const keyProvider = new sdk.KeyProvider();
      if (passphrase !== undefined) keyProvider.setKey(null, passphrase);
      Object.assign(window, { sdk, keyProvider, seen: [] });
      const withProvider = passphrase === undefined ? undefined : { keyProvider };
      const room = await sdk.connect(endpoint, token, { encryption: agree ? { agree } : withProvider });
      window.room = room;
      room.on("error", ({ code, message }) => window.seen.push(`error ${code} ${message}`));
      room.on("decryptionChanged", (track) => window.seen.push(`${track.kind} ${track.decryption}`));
      room.on("trackSubscribed", (track, { identity }) => {
        const element = track.attach();
        if (track.kind !== "video") return;
        element.id = `${identity}-${track.source}`;
        element.style.cssText = "display:block;width:640px;height:360px";
        document.body.append(element);
      });
      if (!publish) return;
      await room.localParticipant.enableCamera({ codec, width: 640, height: 360, frameRate: 15 });
      await room.localParticipant.enableMicrophone();
    },
    { endpoint, token, url: stage.server.url, passphrase, agree, codec, publish },
  );
}

/** Keyframes that this page was asked for, of the layer that it was asked for most. */
const keyframesRequested = (page: SitePage) =>
  page.evaluate(async () => {
    const { connections } = window as unknown as { connections: RTCPeerConnection[] };
    const reports = await Promise.all(connections.map((connection) => connection.getStats()));
    const counts = reports
      .flatMap((report) => [...report.values()])
      .map(({ type, pliCount = 0, firCount = 0 }) => (type === "outbound-rtp" ? pliCount + firCount : 0));
    return Math.max(...counts);
  });

const seen = (page: Scripted) => page.evaluate(() => window.seen, undefined);
const remoteTracks = (page: SitePage) =>
  page.evaluate(() =>
    [...window.room.participants.values()].flatMap(({ tracks }) =>
      [...tracks.values()].map(({ kind, encrypted, decryption }) => ({ kind, encrypted, decryption })),
    ),
  );

describe("[encryption] in Chromium", () => {
  test("participants with the key see and hear each other; others cannot decrypt anything until they have it", async () => {
    const room = await stage.stoa.rooms.create({ name: "secret", encrypted: true });
    const [ada, bob, eve] = [await stage.page(), await stage.page(), await stage.page()];
    await join(bob, await stage.rtc(room.id, "bob"), { passphrase: "correct horse" });
    await join(ada, await stage.rtc(room.id, "ada"), { passphrase: "correct horse", publish: true });
    await waitForFrames(bob, "ada-camera", 10, 60_000);
    await receivesAudio(bob);
    const requested = await keyframesRequested(ada);
    await join(eve, await stage.rtc(room.id, "eve"), { passphrase: "wrong horse" });
    await eve.waitForFunction(() => window.seen.includes("video failed"));
    await eve.waitForFunction(() => window.seen.includes("audio failed"));
    expect(await framesShown(eve, "ada-camera")).toBe(0);
    const verdict = eve.evaluate(
      () => new Promise<string>((resolve) => window.room.on("qualityExplained", ({ cause }) => resolve(cause))),
    );
    expect(await remoteTracks(bob)).toContainEqual({ kind: "video", encrypted: true, decryption: "ok" });

    expect(await verdict).toBe("missing_key");
    // Keyframes that only it needs would cost all others quality.
    expect((await keyframesRequested(ada)) - requested).toBeLessThanOrEqual(3);

    // With the right key, the same page sees and hears.
    await eve.evaluate(() =>
      (window as unknown as { keyProvider: Sdk.KeyProvider }).keyProvider.setKey(null, "correct horse"),
    );
    await waitForFrames(eve, "ada-camera", 10, 60_000);
    await receivesAudio(eve);
    for (const page of [ada, bob, eve]) {
      expect((await seen(page)).filter((line) => line.startsWith("error"))).toEqual([]);
      expect(page.errors).toEqual([]);
    }
    // The server can neither record the room nor let anything unencrypted in.
    expect(stage.stoa.recordings.start(room.id, {})).rejects.toMatchObject({ code: "SVC_ROOM_ENCRYPTED" });
    const mallory = await stage.page();
    const refused = join(mallory, await stage.rtc(room.id, "mallory"), { publish: true });
    expect(refused).rejects.toThrow("end-to-end encrypted");
    expect(await remoteTracks(mallory)).toContainEqual({ kind: "video", encrypted: true, decryption: "missing-key" });
    for (const page of [ada, bob, eve, mallory]) await page.context().close();
  });

  test.each(["H264", "VP9", "AV1"] as const)(
    "%s is shown, and a new key replaces the old one during the call",
    async (codec) => {
      const room = await stage.stoa.rooms.create({ name: `secret-${codec}` });
      const [ada, bob] = [await stage.page(), await stage.page()];
      await join(bob, await stage.rtc(room.id, "bob"), { passphrase: "first" });
      await join(ada, await stage.rtc(room.id, "ada"), { passphrase: "first", codec, publish: true });
      await waitForFrames(bob, "ada-camera", 10, 60_000);
      for (const page of [ada, bob]) {
        await page.evaluate(() => {
          const { keyProvider } = window as unknown as { keyProvider: Sdk.KeyProvider };
          keyProvider.setKey(null, "second", 1);
        });
      }
      await ada.evaluate(() => (window as unknown as { keyProvider: Sdk.KeyProvider }).keyProvider.activate(null, 1));
      await waitForFrames(bob, "ada-camera", 20, 60_000);
      expect(await seen(bob)).toEqual([]);
      for (const page of [ada, bob]) await page.context().close();
    },
  );

  test("pages without a passphrase agree on keys, show one safety number, and do not freeze when someone leaves", async () => {
    const room = await stage.stoa.rooms.create({ name: "agreed", encrypted: true });
    const [ada, bob, eve] = [await stage.page(), await stage.page(), await stage.page()];
    await join(ada, await stage.rtc(room.id, "ada"), { agree: true, publish: true });
    await join(bob, await stage.rtc(room.id, "bob"), { agree: true, publish: true });
    // A viewer who may not send data still gets the keys of those who publish.
    await join(eve, await stage.rtc(room.id, "eve", { publish: false, publishData: false }), { agree: true });
    for (const viewer of [bob, eve]) await waitForFrames(viewer, "ada-camera", 10, 60_000);
    for (const viewer of [ada, eve]) await waitForFrames(viewer, "bob-camera", 10, 60_000);
    await receivesAudio(eve);
    const number = (page: SitePage) => page.evaluate(() => window.room.safetyNumber);
    const shared = await number(ada);
    expect(shared).toMatch(/^\d{5}( \d{5}){5}$/);
    expect([await number(bob), await number(eve)]).toEqual([shared, shared]);

    const before = await watchFrames(bob, ["ada-camera"]);
    await waitForFrames(bob, "ada-camera", 30, 60_000);
    const calm = await before();
    const during = await watchFrames(bob, ["ada-camera"]);
    await eve.evaluate(() => window.room.close());
    await bob.waitForFunction((old) => window.room.safetyNumber !== old, shared);
    await waitForFrames(bob, "ada-camera", 30, 60_000);
    const rotation = await during();
    console.log(`      longest time without a frame: ${calm} ms in the call, ${rotation} ms while the keys changed`);
    // A busy machine shows frames late at any time.
    expect(rotation).toBeLessThan(Math.max(500, 2 * calm));
    expect(await number(ada)).toBe(await number(bob));
    for (const page of [ada, bob]) expect(await seen(page)).not.toContainEqual(expect.stringMatching(/error|failed/));
    for (const page of [ada, bob, eve]) await page.context().close();
  });
});

// Firefox names the codec of a frame by its payload type only.
test("[encryption] Firefox and Chromium see and hear each other, with a passphrase and with agreed keys", async () => {
  const firefox = await openFirefox();
  try {
    for (const keys of [{ passphrase: "correct horse" }, { agree: true }] as const) {
      const room = await stage.stoa.rooms.create({ name: `firefox-${Object.keys(keys)}`, encrypted: true });
      const [ada, fritz] = [await stage.page(), await firefox.page(stage.siteUrl)];
      await join(ada, await stage.rtc(room.id, "ada"), { ...keys, publish: true });
      await join(fritz, await stage.rtc(room.id, "fritz"), { ...keys, publish: true });
      await waitForFrames(ada, "fritz-camera", 10, 60_000);
      await waitForFrames(fritz, "ada-camera", 10, 60_000);
      await Promise.all([receivesAudio(ada), receivesAudio(fritz)]);
      for (const page of [ada, fritz])
        expect(await seen(page)).not.toContainEqual(expect.stringMatching(/error|failed/));
      await Promise.all([ada.context().close(), fritz.close()]);
    }
  } finally {
    await firefox.close();
  }
});
