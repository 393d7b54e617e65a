/** noise: speech with the noise of a fan through the noise suppression, beside other suppressors: decibels, delay, cost */

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { buildWeb } from "../../bin/build-web.ts";
import { installPackages } from "../../bin/debian-packages.ts";
import { CHROMIUM } from "../harness/browsers.ts";
import { report } from "./harness/report.ts";

const TEXT =
  "Good morning doctor. I have had a cough for about two weeks now, and it gets worse at night. I also feel rather " +
  "tired during the day, although I sleep eight hours.";
const RATE = 48_000;
const PEERS = join(import.meta.dir, "../../node_modules/@sapphi-red/web-noise-suppressor/dist");

await installPackages(["espeak-ng", "ffmpeg", "chromium"]);
const folder = mkdtempSync(join(tmpdir(), "stoa-bench-noise-"));
const speech = speak(folder);
await buildWeb(join(import.meta.dir, "../.."), join(folder, "web"));
const site = Bun.serve({
  port: 0,
  fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname === "/") return new Response("<!doctype html>", { headers: { "content-type": "text/html" } });
    if (pathname === "/favicon.ico") return new Response(null, { status: 404 });
    if (pathname === "/speech") return new Response(speech);
    const root = pathname.startsWith("/peers/") ? PEERS : join(folder, "web");
    return new Response(Bun.file(join(root, pathname.replace("/peers", ""))));
  },
});
const browser = await chromium.launch(CHROMIUM);
try {
  const page = await browser.newPage();
  await page.goto(site.url.href);
  const { suppressors, idealDb } = await page.evaluate(measure, RATE);
  report(
    "noise",
    [
      ...Object.entries(suppressors).flatMap(([name, { quieterDb, clearerDb, delayMs, core }], at) => [
        { what: `${name}: noise in pauses quieter by`, value: quieterDb, unit: "dB" },
        { what: `${name}: segmental SNR while speaking better by`, value: clearerDb, unit: "dB" },
        { what: `${name}: delay`, value: delayMs, unit: "ms", ...(at === 0 && { goal: { atMost: 20 } }) },
        { what: `${name}: of a core`, value: core * 100, unit: "%", ...(at === 0 && { goal: { atMost: 10 } }) },
      ]),
      { what: "ideal mask of 20 ms: segmental SNR while speaking better by", value: idealDb, unit: "dB" },
    ],
    suppressors,
  );
} finally {
  await browser.close();
  site.stop(true);
  rmSync(folder, { recursive: true, force: true });
}

/** Samples of speech, as 32-bit floats. */
function speak(folder: string): ArrayBuffer {
  const [spoken, samples] = [join(folder, "speech.wav"), join(folder, "speech.f32")];
  Bun.spawnSync(["espeak-ng", "-v", "en-us", "-s", "150", "-w", spoken, TEXT]);
  Bun.spawnSync(["ffmpeg", "-v", "error", "-i", spoken, "-ar", String(RATE), "-ac", "1", "-f", "f32le", samples]);
  return new Uint8Array(readFileSync(samples)).buffer;
}

type Measured = { quieterDb: number; clearerDb: number; delayMs: number; core: number };

/** Runs in the page: renders speech with noise at 5 dB through each suppressor, faster than real time. */
async function measure(rate: number): Promise<{ suppressors: Record<string, Measured>; idealDb: number }> {
  const clean = new Float32Array(await (await fetch("/speech")).arrayBuffer());
  const power = (samples: Float32Array) => samples.reduce((sum, one) => sum + one * one, 0) / samples.length;
  const decibels = (ratio: number) => 10 * Math.log10(ratio);

  // A fan: a rumble, the hum of its motor and a little hiss. The generator has a seed, so that every run hears the same.
  let [seed, rumble] = [1, 0];
  const random = () => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fffffff;
    return seed / 0x3fffffff - 1;
  };
  const fan = clean.map((_, at) => {
    rumble = 0.98 * rumble + 0.02 * random();
    return 6 * rumble + 0.25 * random() + 0.3 * Math.sin((at * 2 * Math.PI * 120) / rate);
  });
  const spoken = clean.filter((sample) => Math.abs(sample) > 0.003);
  const gain = Math.sqrt(power(spoken) / power(fan) / 10 ** (5 / 10));
  const mixed = clean.map((sample, at) => sample + gain * (fan[at] ?? 0));

  const suppressors = {
    "stoa (RNNoise)": {
      worklet: "/processors/noise-worklet.js",
      wasm: "/processors/rnnoise.wasm",
      name: "stoa-noise-suppression",
    },
    GTCRN: {
      worklet: "/peers/gtcrn/workletProcessor.js",
      wasm: "/peers/gtcrn.wasm",
      name: "@sapphi-red/web-noise-suppressor/gtcrn",
    },
    Speex: {
      worklet: "/peers/speex/workletProcessor.js",
      wasm: "/peers/speex.wasm",
      name: "@sapphi-red/web-noise-suppressor/speex",
    },
  };
  const results: Record<string, Measured> = {};
  for (const [title, { worklet, wasm, name }] of Object.entries(suppressors)) {
    const context = new OfflineAudioContext(1, mixed.length, rate);
    await context.audioWorklet.addModule(worklet);
    const wasmBinary = await (await fetch(wasm)).arrayBuffer();
    const processorOptions = { maxChannels: 1, wasmBinary, maxShare: 1 };
    const node = new AudioWorkletNode(context, name, { processorOptions });
    const buffer = context.createBuffer(1, mixed.length, rate);
    buffer.copyToChannel(mixed, 0);
    const source = new AudioBufferSourceNode(context, { buffer });
    source.connect(node).connect(context.destination);
    source.start();
    // The worklet does not tell when its WebAssembly is ready.
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    const began = performance.now();
    const heard = (await context.startRendering()).getChannelData(0);
    const tookMs = performance.now() - began;
    const delay = bestDelay(clean, heard);
    results[title] = {
      quieterDb: noiseInPauses(clean, mixed, 0) - noiseInPauses(clean, heard, delay),
      clearerDb: segmentalSnr(clean, heard, delay) - segmentalSnr(clean, mixed, 0),
      delayMs: (delay / rate) * 1_000,
      core: tookMs / 1_000 / (mixed.length / rate),
    };
  }
  const ideal = maskedIdeally(clean, mixed, 960);
  return { suppressors: results, idealDb: segmentalSnr(clean, ideal, 0) - segmentalSnr(clean, mixed, 0) };

  /**
   * The bound of every suppressor that weights the frequencies of frames of this length: each frequency of each frame has
   * the weight that is best (Wiener's), computed from the speech and the noise themselves.
   */
  function maskedIdeally(speech: Float32Array, noisy: Float32Array, length: number): Float32Array {
    const window = Float64Array.from({ length }, (_, at) => Math.sin((Math.PI * at) / length));
    const angles = Array.from({ length }, (_, at) => (2 * Math.PI * at) / length);
    const [cosines, sines] = [Float64Array.from(angles, Math.cos), Float64Array.from(angles, Math.sin)];
    const spectrum = (samples: Float32Array, from: number, frequency: number) => {
      let [real, imaginary] = [0, 0];
      for (let at = 0, angle = 0; at < length; at++, angle = (angle + frequency) % length) {
        const sample = (samples[from + at] ?? 0) * (window[at] ?? 0);
        real += sample * (cosines[angle] ?? 0);
        imaginary -= sample * (sines[angle] ?? 0);
      }
      return { real, imaginary };
    };
    const noise = noisy.map((sample, at) => sample - (speech[at] ?? 0));
    const result = new Float32Array(noisy.length);
    for (let from = 0; from + length <= noisy.length; from += length / 2) {
      for (let frequency = 0; frequency <= length / 2; frequency++) {
        const [wanted, unwanted] = [speech, noise].map((samples) => {
          const { real, imaginary } = spectrum(samples, from, frequency);
          return real ** 2 + imaginary ** 2;
        }) as [number, number];
        const { real, imaginary } = spectrum(noisy, from, frequency);
        const weight = wanted / (wanted + unwanted + 1e-12);
        // The frequencies between the first and the last stand for their mirror images as well.
        const share = (weight * (frequency === 0 || frequency === length / 2 ? 1 : 2)) / length;
        for (let at = 0, angle = 0; at < length; at++, angle = (angle + frequency) % length) {
          const sample = real * (cosines[angle] ?? 0) - imaginary * (sines[angle] ?? 0);
          result[from + at] = (result[from + at] ?? 0) + share * (window[at] ?? 0) * sample;
        }
      }
    }
    return result;
  }

  /** The delay at which the result resembles the speech most. */
  function bestDelay(speech: Float32Array, result: Float32Array): number {
    const likeness = (delay: number) => {
      let sum = 0;
      for (let at = 0; at < 5 * rate; at++) sum += (speech[at] ?? 0) * (result[at + delay] ?? 0);
      return sum;
    };
    const delays = Array.from({ length: 400 }, (_, step) => step * 8);
    const near = delays.reduce((best, delay) => (likeness(delay) > likeness(best) ? delay : best));
    const around = Array.from({ length: 17 }, (_, step) => Math.max(0, near - 8 + step));
    return around.reduce((best, delay) => (likeness(delay) > likeness(best) ? delay : best));
  }

  function frames(length: number, speech: Float32Array, delay: number): number[] {
    return Array.from({ length: Math.floor((speech.length - delay) / length) }, (_, frame) => frame * length);
  }

  /** The mean over frames of 20 ms with speech, each between -10 and 35 dB. */
  function segmentalSnr(speech: Float32Array, result: Float32Array, delay: number): number {
    const snrs = frames(960, speech, delay).flatMap((from) => {
      const wanted = speech.subarray(from, from + 960);
      if (power(wanted) < 1e-4) return [];
      const error = wanted.map((sample, at) => sample - (result[from + at + delay] ?? 0));
      return [Math.min(35, Math.max(-10, decibels(power(wanted) / power(error))))];
    });
    return snrs.reduce((sum, snr) => sum + snr, 0) / snrs.length;
  }

  function noiseInPauses(speech: Float32Array, result: Float32Array, delay: number): number {
    const pauses = frames(480, speech, delay).filter((from) => power(speech.subarray(from, from + 480)) < 1e-7);
    const powers = pauses.map((from) => power(result.subarray(from + delay, from + delay + 480)));
    return decibels(powers.reduce((sum, one) => sum + one, 0) / powers.length);
  }
}
