/** Mixes the audio of all tracks, aligned by the time at which it is to be heard. */

export const SAMPLE_RATE = 48_000;
export const CHANNELS = 2;
/** A smaller gap or overlap between packets is jitter of their clock: the samples stay contiguous. */
const TOLERANCE_SAMPLES = (SAMPLE_RATE * 40) / 1_000;
/** A track that is this far ahead has a wrong clock; its oldest samples are dropped. */
const MAX_AHEAD_SAMPLES = 5 * SAMPLE_RATE;

/** Interleaved samples that begin at a time, counted in samples. */
type Chunk = { at: number; samples: Int16Array };

export class Mixer {
  readonly #tracks = new Map<string, Chunk[]>();
  #sum = new Int32Array(0);

  /** Takes interleaved stereo; `atMs` is the time of its first sample. */
  add(trackId: string, samples: Int16Array, atMs: number): void {
    const chunks = this.#tracks.get(trackId) ?? [];
    this.#tracks.set(trackId, chunks);
    const last = chunks.at(-1);
    const follows = last ? last.at + last.samples.length / CHANNELS : null;
    let at = Math.round((atMs * SAMPLE_RATE) / 1_000);
    if (follows !== null && Math.abs(at - follows) < TOLERANCE_SAMPLES) at = follows;
    chunks.push({ at, samples });
    while (chunks[0] && at - chunks[0].at > MAX_AHEAD_SAMPLES) chunks.shift();
  }

  remove(trackId: string): void {
    this.#tracks.delete(trackId);
  }

  /** The sum of all tracks from a time on, as 16-bit little-endian samples. Older samples are discarded. */
  mix(fromSample: number, count: number): Uint8Array {
    if (this.#sum.length !== count * CHANNELS) this.#sum = new Int32Array(count * CHANNELS);
    const sum = this.#sum.fill(0);
    for (const chunks of this.#tracks.values()) {
      for (const { at, samples } of chunks) {
        const length = samples.length / CHANNELS;
        const begin = Math.max(fromSample, at);
        const end = Math.min(fromSample + count, at + length);
        let source = (begin - at) * CHANNELS;
        for (let i = (begin - fromSample) * CHANNELS; i < (end - fromSample) * CHANNELS; i++) {
          sum[i] = (sum[i] as number) + (samples[source++] as number);
        }
      }
      // The newest chunk stays, so that the next packet can continue it.
      while (chunks.length > 1 && chunks[0] && chunks[0].at + chunks[0].samples.length / CHANNELS <= fromSample)
        chunks.shift();
    }
    const mixed = new Int16Array(sum.length);
    for (let i = 0; i < sum.length; i++) mixed[i] = Math.max(-32_768, Math.min(32_767, sum[i] as number));
    return new Uint8Array(mixed.buffer);
  }
}
