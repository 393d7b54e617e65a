import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { type DeviceKind, listDevices } from "../sdk/index.ts";
import { backgroundBlur, noiseSuppression, type TrackProcessor } from "../sdk/processors/index.ts";
import { capture } from "../sdk/room/devices.ts";
import { LocalTrack } from "../sdk/room/local-track.ts";

/** The meter shows this many decibels below full scale. */
const METER_RANGE_DB = 60;
const METER_INTERVAL_MS = 100;
const TONE_HERTZ = 440;
const TONE_SECONDS = 1;

/** Shows what the camera sees and how loud the microphone is, and plays a tone, before a call. */
export function DeviceTest() {
  return (
    <details class="device-test">
      <summary>Test your devices</summary>
      <DeviceRow kind="videoinput" label="Camera" processing="Blur the background" processor={backgroundBlur} />
      <DeviceRow kind="audioinput" label="Microphone" processing="Suppress noise" processor={noiseSuppression} />
      <button type="button" class="button" onClick={() => void playTone()}>
        Play a tone
      </button>
    </details>
  );
}

type DeviceRowProps = {
  kind: Extract<DeviceKind, "videoinput" | "audioinput">;
  label: string;
  /** What the processor does. */
  processing: string;
  processor: (options: { onDisabled: () => void }) => TrackProcessor;
};

function DeviceRow({ kind, label, processing, processor }: DeviceRowProps) {
  const track = useSignal<LocalTrack | null>(null);
  const devices = useSignal<MediaDeviceInfo[]>([]);
  const processed = useSignal(false);
  const problem = useSignal<string | null>(null);
  useEffect(() => {
    return () => track.value?.close();
  }, []);

  const attempt = async (work: () => Promise<void>) => {
    problem.value = null;
    await work().catch((error: Error) => {
      problem.value = error.message;
    });
  };
  const open = (deviceId?: string) =>
    attempt(async () => {
      const wanted = deviceId === undefined ? true : { deviceId: { exact: deviceId } };
      const opened = await capture(kind === "videoinput" ? { video: wanted } : { audio: wanted });
      close();
      track.value = new LocalTrack(opened, {}, { serverUrl: location.origin });
      devices.value = (await listDevices(kind)).filter((device) => device.label !== "");
    });
  const close = () => {
    track.value?.close();
    track.value = null;
    processed.value = false;
  };
  const process = (on: boolean) =>
    attempt(async () => {
      const onDisabled = () => {
        processed.value = false;
        problem.value = "This computer is too slow for that.";
      };
      await track.value?.setProcessor(on ? processor({ onDisabled }) : null);
      processed.value = on;
    });

  return (
    <section aria-label={label}>
      {track.value && (kind === "videoinput" ? <Preview track={track.value} /> : <LevelMeter track={track.value} />)}
      <div class="device-row">
        <button type="button" class="button" onClick={() => (track.value ? close() : open())}>
          {`${track.value ? "Stop" : "Test"} the ${label.toLowerCase()}`}
        </button>
        {track.value && <DeviceSelect {...{ label, devices, open }} />}
        {track.value && (
          <label class="check">
            <input
              type="checkbox"
              checked={processed}
              onChange={({ currentTarget }) => process(currentTarget.checked)}
            />
            {processing}
          </label>
        )}
      </div>
      {problem.value !== null && (
        <p class="problem" role="alert">
          {problem.value}
        </p>
      )}
    </section>
  );
}

type DeviceSelectProps = { label: string; devices: Signal<MediaDeviceInfo[]>; open: (deviceId: string) => void };

function DeviceSelect({ label, devices, open }: DeviceSelectProps) {
  if (devices.value.length < 2) return null;
  return (
    <select class="input" aria-label={label} onChange={({ currentTarget }) => open(currentTarget.value)}>
      {devices.value.map(({ deviceId, label: name }) => (
        <option key={deviceId} value={deviceId}>
          {name}
        </option>
      ))}
    </select>
  );
}

function Preview({ track }: { track: LocalTrack }) {
  const video = useRef<HTMLVideoElement>(null);
  useEffect(() => {
    const { current } = video;
    if (!current) return;
    track.attach(current);
    return () => track.detach(current);
  }, [track]);
  return <video ref={video} autoplay muted playsinline />;
}

/** The level in decibels, over the range that voices have. */
function LevelMeter({ track }: { track: LocalTrack }) {
  const level = useSignal(0);
  useEffect(() => {
    const audio = new AudioContext();
    const analyser = audio.createAnalyser();
    const samples = new Float32Array(analyser.fftSize);
    let heard: MediaStreamTrack | null = null;
    let source: MediaStreamAudioSourceNode | null = null;
    const timer = setInterval(() => {
      if (heard !== track.mediaStreamTrack) {
        heard = track.mediaStreamTrack;
        source?.disconnect();
        source = audio.createMediaStreamSource(new MediaStream([heard]));
        source.connect(analyser);
      }
      analyser.getFloatTimeDomainData(samples);
      const power = samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length;
      level.value = Math.max(0, Math.min(1, 1 + (10 * Math.log10(power + 1e-12)) / METER_RANGE_DB));
    }, METER_INTERVAL_MS);
    return () => {
      clearInterval(timer);
      void audio.close();
    };
  }, [track]);
  return <meter aria-label="Level" min={0} max={1} low={0.2} optimum={0.6} value={level} />;
}

async function playTone(): Promise<void> {
  const audio = new AudioContext();
  const tone = new OscillatorNode(audio, { frequency: TONE_HERTZ });
  const gain = new GainNode(audio, { gain: 0.2 });
  tone.connect(gain).connect(audio.destination);
  tone.onended = () => void audio.close();
  tone.start();
  tone.stop(audio.currentTime + TONE_SECONDS);
}
