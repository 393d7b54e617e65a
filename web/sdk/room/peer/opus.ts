/** The content of an audio track: a voice, or music with its rate. */
export type AudioContent = "voice" | { maxBitrate: number };

/** Enables retransmission of audio and reception of stereo, which browsers support but do not offer by default. */
export function tuneOpusOffer(sdp: string): string {
  return eachOpusSection(sdp, (section, payloadType) => {
    const nack = `a=rtcp-fb:${payloadType} nack\r\n`;
    const withNack = section.includes(nack)
      ? section
      : section.replace(new RegExp(`^a=rtpmap:${payloadType} .*\r\n`, "m"), (line) => line + nack);
    return /^a=recvonly\r$/m.test(section) ? withParameters(withNack, payloadType, { stereo: 1 }) : withNack;
  });
}

/**
 * Changes the answer, because the encoder follows the parameters of the remote side. A voice uses DTX during silence;
 * music uses no DTX and keeps both channels. Both use forward error correction.
 */
export function tuneOpusAnswer(sdp: string, contentOf: (mid: string) => AudioContent | undefined): string {
  return eachOpusSection(sdp, (section, payloadType) => {
    const content = contentOf(/^a=mid:(.*)\r$/m.exec(section)?.[1] ?? "");
    if (content === undefined) return section;
    const wanted: Record<string, number> = content === "voice" ? { usedtx: 1 } : musicParameters(content.maxBitrate);
    return withParameters(section, payloadType, { useinbandfec: 1, ...wanted });
  });
}

function musicParameters(maxBitrate: number): Record<string, number> {
  const rate: Record<string, number> = Number.isFinite(maxBitrate) ? { maxaveragebitrate: maxBitrate } : {};
  return { usedtx: 0, cbr: 0, stereo: 1, "sprop-stereo": 1, ...rate };
}

function eachOpusSection(sdp: string, change: (section: string, payloadType: string) => string): string {
  const sections = sdp.split(/^(?=m=)/m).map((section) => {
    const payloadType = /^a=rtpmap:(\d+) opus\//im.exec(section)?.[1];
    return payloadType === undefined ? section : change(section, payloadType);
  });
  return sections.join("");
}

function withParameters(section: string, payloadType: string, added: Record<string, number>): string {
  const line = new RegExp(`^(a=fmtp:${payloadType} )(.*)\r$`, "m");
  return section.replace(line, (_, head: string, parameters: string) => {
    const kept = parameters.split(";").filter((one) => !((one.trim().split("=")[0] ?? "") in added));
    return `${head}${[...kept, ...Object.entries(added).map(([name, value]) => `${name}=${value}`)].join(";")}\r`;
  });
}
