import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { joinRoom, receivesAudio, waitForFrames, waitForVideoHeight } from "./page-api.ts";
import { openStage, type SitePage, type Stage } from "./stage.ts";

declare global {
  interface Window {
    connections: RTCPeerConnection[];
  }
}

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 180_000);
afterAll(() => stage?.close());

/** Two pages in a room; `lacking` is a codec that the second page cannot decode. */
async function pair(name: string, lacking?: string): Promise<[sender: SitePage, viewer: SitePage]> {
  const { id } = await stage.stoa.rooms.create({ name });
  const [sender, viewer] = [await stage.page(), await stage.page()];
  for (const page of [sender, viewer]) await page.evaluate(rememberConnections);
  if (lacking !== undefined) await viewer.evaluate(forget, lacking);
  await joinRoom(viewer, await stage.rtc(id, "viewer"));
  await joinRoom(sender, await stage.rtc(id, "sender"));
  return [sender, viewer];
}

function rememberConnections(): void {
  window.connections = [];
  const Original = RTCPeerConnection;
  window.RTCPeerConnection = class extends Original {
    constructor(configuration?: RTCConfiguration) {
      super(configuration);
      window.connections.push(this);
    }
  };
}

function forget(codec: string): void {
  const original = RTCRtpReceiver.getCapabilities.bind(RTCRtpReceiver);
  RTCRtpReceiver.getCapabilities = (kind) => {
    const all = original(kind);
    return all && { ...all, codecs: all.codecs.filter(({ mimeType }) => !mimeType.endsWith(`/${codec}`)) };
  };
}

const publishCamera = (page: SitePage, codec: "VP9" | "AV1") =>
  page.evaluate(async (codec) => {
    await window.room.localParticipant.enableCamera({ codec, width: 960, height: 540, frameRate: 15 });
  }, codec);

/** The rids that were sent, with their heights. */
const sentLayers = (page: SitePage) =>
  page.evaluate(async () => {
    const stats = await window.room.getStats();
    const layers = stats?.tracks.filter(({ direction, kind, bps }) => direction === "out" && kind === "video" && bps);
    return (layers ?? []).map(({ rid, codec }) => `${rid} ${codec}`).sort();
  });

async function sending(page: SitePage, layers: string[]): Promise<void> {
  const deadline = Date.now() + 40_000;
  while (JSON.stringify(await sentLayers(page)) !== JSON.stringify(layers)) {
    if (Date.now() > deadline) expect(await sentLayers(page)).toEqual(layers);
    await Bun.sleep(500);
  }
}

const resize = (page: SitePage, id: string, height: number) =>
  page.evaluate(
    ({ id, height }) => {
      const element = document.getElementById(id);
      if (element) element.style.cssText = `display:block;width:${(height * 16) / 9}px;height:${height}px`;
    },
    { id, height },
  );

describe("[8] newer codecs", () => {
  test.each(["VP9", "AV1"] as const)(
    "%s is sent in three sizes, and a viewer gets the one that it shows",
    async (codec) => {
      const [sender, viewer] = await pair(`layers-${codec}`);
      await publishCamera(sender, codec);
      await waitForFrames(viewer, "sender-camera", 5, 60_000);
      await resize(viewer, "sender-camera", 540);
      await waitForVideoHeight(viewer, "sender-camera", [500, 540], 60_000);
      // Each layer has a subscriber, so that none is deactivated.
      const { id } = (await stage.stoa.rooms.list()).find(({ name }) => name === `layers-${codec}`) ?? { id: "" };
      const others = await Promise.all(
        [90, 270].map(async (height) => {
          const page = await stage.page();
          await joinRoom(page, await stage.rtc(id, `small-${height}`));
          await waitForFrames(page, "sender-camera", 1, 60_000);
          await resize(page, "sender-camera", height);
          return page;
        }),
      );
      await sending(sender, [`f ${codec}`, `h ${codec}`, `q ${codec}`]);
      for (const [index, range] of [
        [100, 140],
        [250, 280],
      ].entries()) {
        await waitForVideoHeight(others[index] as SitePage, "sender-camera", range as [number, number]);
      }
      for (const page of [sender, viewer, ...others]) await page.context().close();
    },
    180_000,
  );

  test.each(["VP9", "AV1"] as const)(
    "%s in one stream: a viewer gets the spatial layers that it shows",
    async (codec) => {
      const [sender, viewer] = await pair(`svc-${codec}`);
      await sender.evaluate(async (codec) => {
        const [track] = (await navigator.mediaDevices.getUserMedia({ video: { width: 960, height: 540 } })).getTracks();
        const encodings = [{ scalabilityMode: "L3T3_KEY", maxBitrate: 1_500_000 } as RTCRtpEncodingParameters];
        if (track) await window.room.localParticipant.publish(track, { source: "camera", codec, encodings });
      }, codec);
      await waitForFrames(viewer, "sender-camera", 5, 60_000);
      for (const [height, range] of [
        [540, [500, 540]],
        [90, [100, 140]],
        [540, [500, 540]],
      ] as const) {
        await resize(viewer, "sender-camera", height);
        await waitForVideoHeight(viewer, "sender-camera", [...range], 60_000);
      }
      for (const page of [sender, viewer]) await page.context().close();
    },
    180_000,
  );

  test("a viewer who cannot decode the codec is notified, and gets VP8 as long as it stays", async () => {
    const [sender, viewer] = await pair("undecodable", "VP9");
    await viewer.evaluate(() => {
      window.room.on("subscriptionChanged", ({ delivered }) => {
        document.title += ` ${delivered?.reason}`;
      });
    });
    await publishCamera(sender, "VP9");
    await waitForFrames(viewer, "sender-camera", 5, 60_000);
    expect(await viewer.title()).toMatch(/codec .*requested/);
    await waitForVideoHeight(viewer, "sender-camera", [170, 360], 60_000);
    const sendsBoth = async (expected: boolean) => {
      const deadline = Date.now() + 60_000;
      let sent: string[] = [];
      do {
        await Bun.sleep(500);
        sent = (await sentLayers(sender)).map((layer) => layer.split(" ")[1] ?? "");
      } while (sent.includes("VP8") !== expected && Date.now() < deadline);
      expect([sent.includes("VP9") || !expected, sent.includes("VP8")]).toEqual([true, expected]);
    };
    await sendsBoth(true);
    // Both follow the device.
    await sender.evaluate(async () => {
      const { localParticipant } = window.room;
      const camera = localParticipant.track("camera");
      await localParticipant.switchDevice("videoinput", camera?.sourceTrack.getSettings().deviceId ?? "");
    });
    await waitForFrames(viewer, "sender-camera", 10, 60_000);
    await viewer.context().close();
    await sendsBoth(false);
    expect(sender.errors).toEqual([]);
    await sender.context().close();
  }, 180_000);
});

/** The negotiated parameters of the page's audio. */
const sentAudioParameters = (page: SitePage) =>
  page.evaluate(() => {
    const sections = (window.connections.at(-1)?.remoteDescription?.sdp ?? "").split(/^(?=m=)/m);
    return sections.find((section) => section.startsWith("m=audio") && section.includes("a=recvonly")) ?? "";
  });

describe("[11] audio", () => {
  test("a voice is sent with RED and NACK, and is received", async () => {
    const [sender, viewer] = await pair("voice");
    await sender.evaluate(async () => void (await window.room.localParticipant.enableMicrophone()));
    await receivesAudio(viewer, 40_000);
    const sent = await sentAudioParameters(sender);
    expect(sent).toMatch(/^m=audio \d+ \S+ 63 111\r$/m);
    expect(sent).toMatch(/^a=rtcp-fb:111 nack\r$/m);
    expect(sent).toMatch(/^a=fmtp:111 .*usedtx=1/m);
    expect(sent).not.toMatch(/^a=fmtp:111 .*stereo=1/m);
    // These are the redundant frames in audio packets.
    await viewer.waitForFunction(
      async () => {
        const stats = [...((await window.connections.at(-1)?.getStats()) ?? [])].map(([, entry]) => entry);
        return stats.some(({ type, kind, fecPacketsReceived }) => {
          return type === "inbound-rtp" && kind === "audio" && fecPacketsReceived > 20;
        });
      },
      undefined,
      { timeout: 60_000, polling: 500 },
    );
    // Audio may arrive before its statistics.
    await viewer.waitForFunction(
      () =>
        [...(window.room.participants.get("sender")?.tracks.values() ?? [])].some(
          ({ kind, muted }) => kind === "audio" && !muted,
        ),
      undefined,
      { polling: 500 },
    );
    for (const page of [sender, viewer]) await page.context().close();
  }, 180_000);

  test("music arrives in stereo, its channels at least 40 dB apart, without DTX and RED", async () => {
    const [sender, viewer] = await pair("music");
    await sender.evaluate(async () => {
      const context = new AudioContext();
      const merger = new ChannelMergerNode(context, { numberOfInputs: 2 });
      for (const [channel, frequency] of [440, 660].entries()) {
        const tone = new OscillatorNode(context, { frequency });
        tone.connect(merger, 0, channel);
        tone.start();
      }
      const destination = new MediaStreamAudioDestinationNode(context, { channelCount: 2 });
      merger.connect(destination);
      const [track] = destination.stream.getAudioTracks();
      if (track) await window.room.localParticipant.publish(track, { source: "microphone", music: true });
    });
    await receivesAudio(viewer, 40_000);
    const sent = await sentAudioParameters(sender);
    expect(sent).toMatch(/^m=audio \d+ \S+ 111\r$/m);
    for (const parameter of ["stereo=1", "maxaveragebitrate=128000", "usedtx=0"]) expect(sent).toContain(parameter);
    // Audio may arrive before the track is subscribed.
    await viewer.waitForFunction(
      () => Boolean(window.room.participants.get("sender")?.track("microphone")?.mediaStreamTrack),
      null,
      { polling: 50 },
    );
    const apart = await viewer.evaluate(async () => {
      const track = window.room.participants.get("sender")?.track("microphone")?.mediaStreamTrack;
      const context = new AudioContext();
      const source = new MediaStreamAudioSourceNode(context, { mediaStream: new MediaStream(track ? [track] : []) });
      const splitter = new ChannelSplitterNode(context, { numberOfOutputs: 2 });
      source.connect(splitter);
      const ears = [0, 1].map((channel) => {
        const ear = new AnalyserNode(context, { fftSize: 8_192, smoothingTimeConstant: 0, minDecibels: -140 });
        splitter.connect(ear, channel);
        return ear;
      });
      const decibels = (ear: AnalyserNode, frequency: number) => {
        const bins = new Float32Array(ear.frequencyBinCount);
        ear.getFloatFrequencyData(bins);
        return bins[Math.round((frequency * ear.fftSize) / context.sampleRate)] ?? Number.NaN;
      };
      let best = Number.NEGATIVE_INFINITY;
      for (let n = 0; n < 300 && best < 40; n++) {
        await new Promise((wake) => setTimeout(wake, 100));
        const [left, right] = ears as [AnalyserNode, AnalyserNode];
        if (decibels(left, 440) < -40 || decibels(right, 660) < -40) continue;
        const apart = [decibels(left, 440) - decibels(right, 440), decibels(right, 660) - decibels(left, 660)];
        best = Math.max(best, Math.min(...apart));
      }
      return best;
    });
    expect(apart).toBeGreaterThanOrEqual(40);
    for (const page of [sender, viewer]) await page.context().close();
  }, 180_000);
});
