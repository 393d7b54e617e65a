/** H.264 frames as NAL units after start codes (Annex B), which browsers encrypt, and after their lengths (MP4). */
import { concat } from "../../protocol/media/protobuf.ts";

const START_CODE = Uint8Array.of(0, 0, 0, 1);

/** The NAL units of an Annex B frame. */
export function nalUnits(frame: Uint8Array): Uint8Array[] {
  const starts: { code: number; unit: number }[] = [];
  for (let i = 0; i + 2 < frame.length; i++) {
    if (frame[i] !== 0 || frame[i + 1] !== 0 || frame[i + 2] !== 1) continue;
    starts.push({ code: i > 0 && frame[i - 1] === 0 ? i - 1 : i, unit: i + 3 });
  }
  return starts.map(({ unit }, i) => frame.subarray(unit, starts[i + 1]?.code ?? frame.length));
}

/** Browsers put start codes of four bytes before the units that they receive, so both sides authenticate those. */
export function annexB(units: readonly Uint8Array[]): Uint8Array {
  return concat(units.flatMap((unit) => [START_CODE, unit]));
}

/** The NAL units of a frame as MP4 files hold it. */
export function unitsByLength(frame: Uint8Array): Uint8Array[] {
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
  const units: Uint8Array[] = [];
  for (let at = 0; at + 4 <= frame.length; ) {
    const end = at + 4 + view.getUint32(at);
    units.push(frame.subarray(at + 4, end));
    at = end;
  }
  return units;
}

export function withLengths(units: readonly Uint8Array[]): Uint8Array {
  return concat(
    units.flatMap((unit) => {
      const length = new Uint8Array(4);
      new DataView(length.buffer).setUint32(0, unit.length);
      return [length, unit];
    }),
  );
}
