/** What is sent as sound: a voice, or music such as a shared screen's. */
export type SoundUse = "voice" | "music";

/**
 * In the offer: a lost packet of sound may be asked for again, and what arrives may be in stereo. Browsers can do both,
 * and offer neither by themselves.
 */
export function offerSound(sdp: string): string {
  return eachOpus(sdp, (section, payloadType) => {
    const nack = `a=rtcp-fb:${payloadType} nack\r\n`;
    const asking = section.includes(nack)
      ? section
      : section.replace(new RegExp(`^a=rtpmap:${payloadType} .*\r\n`, "m"), (line) => line + nack);
    return /^a=recvonly\r$/m.test(section) ? withParameters(asking, payloadType, { stereo: 1 }) : asking;
  });
}

/**
 * In the answer, because an encoder follows what the other side says it can take. Of a voice, silence costs next to
 * nothing, and error correction is asked for; music has no silence to be cut, and keeps both its channels.
 */
export function answerSound(sdp: string, useOf: (mid: string) => SoundUse | undefined): string {
  return eachOpus(sdp, (section, payloadType) => {
    const use = useOf(/^a=mid:(.*)\r$/m.exec(section)?.[1] ?? "");
    if (use === undefined) return section;
    const wanted: Record<string, number> = use === "music" ? { usedtx: 0, stereo: 1 } : { usedtx: 1 };
    return withParameters(section, payloadType, { useinbandfec: 1, ...wanted });
  });
}

function eachOpus(sdp: string, change: (section: string, payloadType: string) => string): string {
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
