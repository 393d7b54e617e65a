import { afterAll, beforeAll, expect, test } from "bun:test";
import { joinLivekit, sees } from "./harness/livekit-page.ts";
import { openStage, type Stage, WAIT_MS } from "./harness/stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 180_000);
afterAll(() => stage?.close());

test(
  "livekit-client sends VP8 beside VP9 while a viewer decodes nothing else",
  async () => {
    const [ann, ben, old] = [
      await stage.page("livekit-client"),
      await stage.page("livekit-client"),
      await stage.page("livekit-client"),
    ];
    const room = { dynacast: true, publishDefaults: { videoCodec: "vp9", backupCodec: true } };
    await joinLivekit(ann, stage.wsUrl, await stage.token("backed-up", "ann"), { room });
    await joinLivekit(ben, stage.wsUrl, await stage.token("backed-up", "ben"), { publish: false });
    await sees(ben, "ann");
    /** The codecs that ann sends now. */
    const sent = () =>
      ann.evaluate(() => {
        const { videoTrack } = window.livekit.localParticipant.getTrackPublication("camera");
        const backups = [...videoTrack.simulcastCodecs.values()].map(({ codec, sender }) => ({ codec, sender }));
        return [{ codec: "vp9", sender: videoTrack.sender }, ...backups].flatMap(({ codec, sender }) => {
          const { encodings = [] }: RTCRtpSendParameters = sender?.getParameters() ?? {};
          return encodings.some(({ active }) => active !== false) ? [codec] : [];
        });
      });
    expect(await sent()).toEqual(["vp9"]);

    await old.evaluate(() => {
      const add = RTCPeerConnection.prototype.addTransceiver;
      RTCPeerConnection.prototype.addTransceiver = function (track, init) {
        const transceiver = add.call(this, track, init);
        const codecs = RTCRtpReceiver.getCapabilities("video")?.codecs ?? [];
        if (transceiver.receiver.track.kind === "video")
          transceiver.setCodecPreferences(codecs.filter(({ mimeType }) => !/VP9|AV1/i.test(mimeType)));
        return transceiver;
      };
    });
    await joinLivekit(old, stage.wsUrl, await stage.token("backed-up", "old"), { publish: false });
    await sees(old, "ann");
    expect(await sent()).toEqual(["vp9", "vp8"]);
    await sees(ben, "ann", "camera", 40);

    await old.context().close();
    const deadline = Date.now() + WAIT_MS;
    while ((await sent()).length > 1 && Date.now() < deadline) await Bun.sleep(500);
    expect(await sent()).toEqual(["vp9"]);
    for (const page of [ann, ben]) await page.context().close();
  },
  4 * WAIT_MS,
);
