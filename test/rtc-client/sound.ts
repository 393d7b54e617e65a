/** The pitch of a tone, from how often it crosses zero upwards, between the first time and the last. */
export function pitchOf(samples: Int16Array, sampleRate: number): number {
  const crossings: number[] = [];
  for (let i = 1; i < samples.length; i++) {
    const [before, now] = [samples[i - 1] ?? 0, samples[i] ?? 0];
    if (before < 0 && now >= 0) crossings.push(i - now / (now - before));
  }
  const [first = 0, last = 0] = [crossings[0], crossings.at(-1)];
  return ((crossings.length - 1) * sampleRate) / (last - first);
}

type Note = { hz: number; seconds: number; sampleRate: number; channels: 1 | 2 };

export function wavOf({ hz, seconds, sampleRate, channels }: Note): Uint8Array {
  const count = seconds * sampleRate;
  const bytes = new Uint8Array(44 + count * channels * 2);
  const view = new DataView(bytes.buffer);
  const text = (at: number, value: string) => bytes.set(new TextEncoder().encode(value), at);
  text(0, "RIFF");
  view.setUint32(4, bytes.length - 8, true);
  text(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, channels, true);
  view.setUint32(24, sampleRate, true);
  view.setUint32(28, sampleRate * channels * 2, true);
  view.setUint16(32, channels * 2, true);
  view.setUint16(34, 16, true);
  text(36, "data");
  view.setUint32(40, bytes.length - 44, true);
  for (let i = 0; i < count; i++) {
    const sample = Math.round(Math.sin((2 * Math.PI * hz * i) / sampleRate) * 16_000);
    for (let channel = 0; channel < channels; channel++) view.setInt16(44 + (i * channels + channel) * 2, sample, true);
  }
  return bytes;
}
