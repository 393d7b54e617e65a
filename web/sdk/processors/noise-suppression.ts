import { StoaError } from "../errors.ts";
import type { TrackProcessor } from "../room/track-processor.ts";
import { type NoiseMessage, type NoiseOptions, PROCESSOR_NAME } from "./noise-messages.ts";

export type NoiseSuppressionOptions = {
  /** Called when this computer is too slow: from then on the microphone is sent as it is. */
  onDisabled?: () => void;
  /** The share of a core that it may use, 0.25 by default. */
  maxShare?: number;
};

/** RNNoise works at this rate only. */
const SAMPLE_RATE = 48_000;

/** Removes noise from a microphone with RNNoise: fans, keyboards, traffic. Adds 19 ms; music is not for it. */
export function noiseSuppression({ onDisabled, maxShare = 0.25 }: NoiseSuppressionOptions = {}): TrackProcessor {
  let context: AudioContext | null = null;
  return {
    async init(track, { serverUrl }) {
      if (typeof AudioWorkletNode === "undefined") throw unsupported();
      const audio = new AudioContext({ sampleRate: SAMPLE_RATE, latencyHint: "interactive" });
      try {
        const [wasm] = await Promise.all([
          load(`${serverUrl}/processors/rnnoise.wasm`),
          audio.audioWorklet.addModule(`${serverUrl}/processors/noise-worklet.js`),
        ]);
        const source = microphone(audio, track);
        const output = audio.createMediaStreamDestination();
        const processorOptions: NoiseOptions = { wasmBinary: wasm, maxShare };
        const node = new AudioWorkletNode(audio, PROCESSOR_NAME, { channelCount: 1, processorOptions });
        node.port.onmessage = ({ data }: MessageEvent<NoiseMessage>) => {
          if (data !== "tooSlow") return;
          node.disconnect();
          source.disconnect();
          source.connect(output);
          onDisabled?.();
        };
        source.connect(node).connect(output);
        await audio.resume();
        context = audio;
        const [processed] = output.stream.getAudioTracks();
        if (!processed) throw unsupported();
        return processed;
      } catch (error) {
        await audio.close();
        throw error;
      }
    },
    destroy() {
      void context?.close();
      context = null;
    },
  };
}

/** Firefox connects a microphone only to an audio context of the microphone's own rate. */
function microphone(audio: AudioContext, track: MediaStreamTrack): MediaStreamAudioSourceNode {
  try {
    return audio.createMediaStreamSource(new MediaStream([track]));
  } catch (cause) {
    throw unsupported(cause);
  }
}

async function load(url: string): Promise<ArrayBuffer> {
  const response = await fetch(url);
  if (!response.ok) throw new StoaError("NO_PROCESSOR", "network", `${url} cannot be loaded (${response.status}).`);
  return response.arrayBuffer();
}

function unsupported(cause?: unknown): StoaError {
  return new StoaError("NO_PROCESSOR", "unsupported", "This browser cannot suppress the noise of this microphone.", {
    cause,
  });
}
