import { afterAll, beforeAll, expect, test } from "bun:test";
import { happened, isGone, joinLivekit, sectionsOf, sees } from "./harness/livekit-page.ts";
import { type LivekitPackage, openStage, type Stage, WAIT_MS } from "./harness/stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 180_000);
afterAll(() => stage.close());

for (const script of ["livekit-client", "livekit-client-two-connections"] satisfies LivekitPackage[]) {
  test(
    `${script}: a camera that is published or subscribed again is shown again`,
    async () => {
      const room = `again-${script}`;
      const own = await stage.withStoa(room, "own");
      const [ann, ben] = [await stage.page(script), await stage.page(script)];
      await joinLivekit(ann, stage.wsUrl, await stage.token(room, "ann"));
      await joinLivekit(ben, stage.wsUrl, await stage.token(room, "ben"), { publish: false });
      await Promise.all([sees(ben, "ann"), sees(own, "ann"), sees(ben, "own")]);
      const before = await sectionsOf(ben);

      for (let time = 0; time < 2; time++) {
        await ann.evaluate(async () => {
          const { localParticipant: me } = window.livekit;
          await me.unpublishTrack(me.getTrackPublication("camera").track);
        });
        await Promise.all([isGone(ben, "ann-camera"), isGone(own, "ann-camera")]);
        await ann.evaluate(() => window.livekit.localParticipant.setCameraEnabled(true));
        await Promise.all([sees(ben, "ann"), sees(own, "ann")]);
      }

      const want = (wanted: boolean) =>
        ben.evaluate(
          (wanted) => window.livekit.remoteParticipants.get("ann").getTrackPublication("camera").setSubscribed(wanted),
          wanted,
        );
      await want(false);
      await isGone(ben, "ann-camera");
      await want(true);
      await sees(ben, "ann");

      await ann.evaluate(() => window.livekit.localParticipant.setCameraEnabled(false));
      await happened(ben, "muted ann camera");
      await ann.evaluate(() => window.livekit.localParticipant.setCameraEnabled(true));
      await happened(ben, "unmuted ann camera");
      await own.waitForFunction(() => window.seen.includes("unmuted ann camera"));
      const shown = await ben.evaluate(
        () => (document.getElementById("ann-camera") as HTMLVideoElement).getVideoPlaybackQuality().totalVideoFrames,
      );
      await sees(ben, "ann", "camera", shown + 15);
      expect(await sectionsOf(ben)).toBe(before);
      for (const page of [own, ann, ben]) await page.context().close();
    },
    5 * WAIT_MS,
  );
}

test.each([
  ["h264", "video/H264"],
  ["vp9", "video/VP9"],
])(
  "a client that asks for %s sends it, its audio has redundancy and pauses in silence, and all are told the codec",
  async (videoCodec, mimeType) => {
    const [ann, ben] = [await stage.page("livekit-client"), await stage.page("livekit-client")];
    const room = { publishDefaults: { videoCodec } };
    const name = `codecs-${videoCodec}`;
    await joinLivekit(ann, stage.wsUrl, await stage.token(name, "ann"), { room });
    await joinLivekit(ben, stage.wsUrl, await stage.token(name, "ben"), { publish: false });
    await sees(ben, "ann");
    const sent = await ann.evaluate(() => {
      const connection = window.livekit.engine.pcManager.publisher._pc as RTCPeerConnection;
      const senders = connection.getSenders().filter(({ track }) => track !== null);
      return {
        codecs: senders.map((sender) => sender.getParameters().codecs[0]?.mimeType).sort(),
        dtx: connection.remoteDescription?.sdp.includes("usedtx=1"),
      };
    });
    expect(sent).toEqual({ codecs: ["audio/red", mimeType], dtx: true });
    const told = await ben.evaluate(() => {
      const { trackInfo } = window.livekit.remoteParticipants.get("ann").getTrackPublication("camera");
      return [trackInfo.mimeType, ...trackInfo.codecs.map(({ mimeType }: { mimeType: string }) => mimeType)];
    });
    expect(told).toEqual([mimeType, mimeType]);
    await ben.waitForFunction(() => {
      const { audioLevel } = window.livekit.remoteParticipants.get("ann");
      return audioLevel > 0;
    });
    for (const page of [ann, ben]) await page.context().close();
  },
  3 * WAIT_MS,
);
