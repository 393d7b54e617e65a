// NTP time as RTCP carries it. Fractions of Unix milliseconds are kept to 2⁻³² s.

const UNIX_TO_NTP_SECONDS = 2_208_988_800;
const FRACTION = 2 ** 32;

interface NtpTime {
  /** Seconds since 1900, 32 bits. */
  seconds: number;
  /** Units of 2⁻³² seconds. */
  fraction: number;
}

export function ntpFromMs(unixMs: number): NtpTime {
  let seconds = Math.floor(unixMs / 1000);
  let fraction = Math.round(((unixMs - seconds * 1000) / 1000) * FRACTION);
  if (fraction === FRACTION) {
    seconds += 1;
    fraction = 0;
  }
  return { seconds: (seconds + UNIX_TO_NTP_SECONDS) % FRACTION, fraction };
}

/** The 32-bit seconds roll over in 2036; the era is chosen so that the time lies after 1968. */
export function ntpToMs(seconds: number, fraction: number): number {
  const era = seconds < 0x80000000 ? FRACTION : 0;
  return (seconds + era - UNIX_TO_NTP_SECONDS) * 1000 + (fraction / FRACTION) * 1000;
}

/** The middle 32 bits (16.16 seconds), as in LSR and DLSR. */
export function compactNtp(seconds: number, fraction: number): number {
  return (((seconds & 0xffff) << 16) | (fraction >>> 16)) >>> 0;
}

/** Converts a difference in compact units (1/65536 s) to milliseconds. */
export function compactToMs(compact: number): number {
  return (compact * 1000) / 65536;
}

export function msToCompact(ms: number): number {
  return Math.max(0, Math.min(0xffffffff, Math.round((ms * 65536) / 1000)));
}
